// What is chosen in the export's panel, as the call that it makes: for the kernel, and as Python. No JupyterLab here.
import { Choices, ExportOptions, Finding, Plan } from "./protocol.js";

/** What the fields hold. `env`: one of the environments, or "prefix" with the path in `prefix`. */
export interface Fields {
  target: string;
  env: string;
  prefix: string;
  deploy: string[];
  capture: boolean;
  include: string[];
  /** lines of `file = expression` */
  artifacts: string;
  verify: boolean;
  /** as typed: "2.51, 2.41" */
  releases: string;
  /** how many last requests of each model are sent; null for all that are kept */
  last: number | null;
}

export const PREFIX = "prefix";

/** The fields of an export without options. */
export function defaults(choices: Choices): Fields {
  return {
    target: choices.target,
    env: "none",
    prefix: "",
    deploy: [],
    capture: false,
    include: [],
    artifacts: "",
    verify: false,
    releases: choices.target,
    last: null,
  };
}

/** The files and expressions of lines such as `weights.npy = weights`, and the first line that is none. */
export function artifactsOf(text: string): { found: Record<string, string>; problem: string } {
  const found: Record<string, string> = {};
  for (const line of text.split("\n").filter((each) => each.trim())) {
    const [, file, expression] = /^\s*([^=\s]+)\s*=\s*(.+?)\s*$/.exec(line) ?? [];
    if (!file) return { found, problem: `write file = expression, not “${line.trim()}”` };
    found[file] = expression;
  }
  return { found, problem: "" };
}

/** The options that differ from those of an export without any. */
export function optionsOf(fields: Fields, choices: Choices): ExportOptions {
  const options: ExportOptions = {};
  const env = fields.env === PREFIX ? fields.prefix.trim() || "none" : fields.env;
  const artifacts = artifactsOf(fields.artifacts).found;
  if (fields.target !== choices.target) options.target = fields.target;
  if (env !== "none") options.env = env;
  if (fields.deploy.length) options.deploy = choices.kinds.filter((kind) => fields.deploy.includes(kind));
  if (fields.capture) options.capture = true;
  if (Object.keys(artifacts).length) options.artifacts = artifacts;
  if (fields.include.length) options.include = [...fields.include];
  if (fields.verify) options.verify = words(fields.releases);
  if (fields.verify && fields.last !== null) options.last = fields.last;
  return options;
}

/** "2.51, 2.41" in parts. */
function words(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

/** The Python call that does the same. */
export function pythonCall(
  models: readonly string[],
  directory: string,
  options: ExportOptions,
  overwrite: boolean,
): string {
  const named = models.length === 1 ? quoted(models[0]) : listed(models);
  const parts = [named, quoted(directory)];
  if (overwrite) parts.push("overwrite=True");
  if (options.target !== undefined) parts.push(`target=${quoted(options.target)}`);
  if (options.env !== undefined) parts.push(`env=${quoted(options.env)}`);
  if (options.deploy) parts.push(`deploy=${listed(options.deploy)}`);
  if (options.capture) parts.push("capture=True");
  if (options.artifacts) {
    const pairs = Object.entries(options.artifacts).map(([file, text]) => `${quoted(file)}: ${text}`);
    parts.push(`artifacts={${pairs.join(", ")}}`);
  }
  if (options.include) parts.push(`include=${listed(options.include)}`);
  if (options.verify) parts.push(`verify=${listed(options.verify)}`);
  if (options.last !== undefined) parts.push(`last=${options.last}`);
  return `tritonlab.export(${parts.join(", ")})`;
}

function quoted(text: string): string {
  return JSON.stringify(text);
}

function listed(texts: readonly string[]): string {
  return `[${texts.map(quoted).join(", ")}]`;
}

/** The choices that pre-flight's findings stand beside. */
export type Place = "directory" | "target" | "environment" | "capture" | "files";

const PLACES: Record<string, Place> = {
  P1: "capture",
  P2: "environment",
  P3: "files",
  P4: "files",
  P5: "environment",
  P6: "environment",
  P7: "target",
  P8: "target",
  P9: "environment",
  P10: "files",
  P11: "directory",
};

/** A finding and the model that it is of. */
export interface Found extends Finding {
  model: string;
}

/** The findings that stand beside a choice, those that stop a model first. A row that is not known is of the target. */
export function findingsAt(place: Place, plans: readonly Plan[]): Found[] {
  const found = plans.flatMap((plan) => plan.findings.map((finding) => ({ ...finding, model: plan.name })));
  const here = found.filter((one) => (PLACES[one.row] ?? "target") === place);
  return [...here.filter(stops), ...here.filter((one) => !stops(one))];
}

/** Whether it makes the model fail, or answer otherwise. */
export function stops(finding: Finding): boolean {
  return finding.outcome !== "attention";
}
