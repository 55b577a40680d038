// What a cell's text says of a model, and how the cell stands to what the kernel serves. No JupyterLab here.
import { Model } from "./protocol.js";

const MODEL_CELL = /^\s*%%triton_model(?:[ \t]|\\[ \t]*\n)+([^\s\\]\S*)/;
const MENTIONS = /^\s*%%?triton|tritonlab/m;

/** The name of the model that a `%%triton_model` cell writes; null for any other cell. */
export function modelOf(text: string): string | null {
  return MODEL_CELL.exec(text)?.[1].replace(/^(["'])(.*)\1$/, "$2") ?? null;
}

/** Whether a notebook with this cell may have a kernel that knows tritonlab. */
export function mentionsTriton(text: string): boolean {
  return MENTIONS.test(text);
}

/** Whether a cell failed because the kernel has not loaded tritonlab, by the name and the text of its error. */
export function missesTriton(name: string, text: string): boolean {
  return name === "UsageError" && /[Mm]agic.*`(%%triton_\w+|%triton)`.*not found/.test(text);
}

export type MarkKind = "ready" | "loading" | "failed" | "stale" | "off";

/** The mark of a cell: a word or two to see, a sentence to read, the line of the cell that is to blame; and of its
 * model the name, and whether one serves. */
export interface Mark {
  model: string;
  serves: boolean;
  kind: MarkKind;
  label: string;
  title: string;
  line: number | null;
}

/** Equal as far as the kernel can tell: it gets no trailing blank lines. */
function same(a: string, b: string): boolean {
  return a.trim() !== "" && a.trimEnd() === b.trimEnd();
}

/** The mark of a cell with this text, null where there is nothing to say. */
export function markOf(text: string, models: readonly Model[]): Mark | null {
  const name = modelOf(text);
  const model = name === null ? undefined : models.find((one) => one.name === name);
  if (!model) return null;
  const serves = model.state === "READY" || model.state === "NOT READY";
  return { model: model.name, serves, ...wordsOf(text, model, serves) };
}

type Words = Omit<Mark, "model" | "serves">;

function wordsOf(text: string, model: Model, serves: boolean): Words {
  const name = model.name;
  const tried = same(text, model.cell);
  if (tried && model.state === "LOADING") return words("loading", "loading", `${name} is loading`);
  if (tried && model.error) return failed(model);
  if (tried || same(text, model.served)) return settled(model);
  const what = serves ? `${name} serves another text than this cell's` : `${name} is ${model.state.toLowerCase()}`;
  return words("stale", "stale", `${what}: run the cell to load it`);
}

function failed(model: Model): Words {
  const { text, line } = model.error!;
  const keeps = model.state === "READY" ? " The version loaded before keeps serving." : "";
  return words("failed", line === null ? "failed" : `failed\nline ${line}`, `${text}.${keeps}`, line);
}

function settled(model: Model): Words {
  const name = `${model.name}, version ${model.version},`;
  if (model.state === "READY") return words("ready", "READY", `${name} is READY`);
  if (model.state === "LOADING") return words("loading", "loading", `${model.name} is loading`);
  if (model.state === "UNLOADED") return words("off", "unloaded", `${name} is unloaded: run the cell to load it`);
  return words("failed", model.state.toLowerCase(), model.reason || `${name} is ${model.state}`);
}

function words(kind: MarkKind, label: string, title: string, line: number | null = null): Words {
  return { kind, label, title, line };
}
