// Config text as one types it: what Triton would refuse is underlined, and fields say what they are for. The kernel knows
// both; without one nothing is shown.
import { linter } from "@codemirror/lint";
import { Extension } from "@codemirror/state";
import { EditorView, hoverTooltip } from "@codemirror/view";

import { Config, rangeOf } from "./configText.js";
import { KernelLink } from "./link.js";

const TYPING_MS = 400;

/** `configIn`: where the config is in a document; null if it is none. `listening`: a link that is open. */
export function configHelp(configIn: (text: string) => Config | null, listening: () => KernelLink | null): Extension {
  const underline = linter(
    async (view) => {
      const document = view.state.doc.toString();
      const [config, link] = [configIn(document), listening()];
      if (!config || !link) return [];
      const given = { text: document.slice(config.from), model: config.model };
      const refused = await link.ask("check", given).catch(() => []);
      return refused.map((one) => ({
        ...rangeOf(document, config, one),
        severity: "error" as const,
        message: one.text,
      }));
    },
    { delay: TYPING_MS },
  );
  const explain = hoverTooltip(async (view: EditorView, position: number) => {
    const word = view.state.wordAt(position);
    const document = view.state.doc.toString();
    const [config, link] = [configIn(document), listening()];
    if (!word || !config || !link || word.from < config.from) return null;
    const text = document.slice(config.from, word.to);
    const { field, type, says } = await link.ask("explain", { text }).catch(() => ({ field: "", type: "", says: "" }));
    if (!says) return null;
    return { pos: word.from, end: word.to, above: true, create: () => ({ dom: sentence(field, type, says) }) };
  });
  return [underline, explain];
}

function sentence(field: string, type: string, says: string): HTMLElement {
  const dom = document.createElement("div");
  dom.className = "tritonlab-help";
  const name = document.createElement("code");
  name.textContent = field;
  const kind = document.createElement("span");
  kind.className = "tritonlab-dim";
  kind.textContent = ` ${type}`;
  const text = document.createElement("p");
  text.textContent = says;
  dom.append(name, kind, text);
  return dom;
}
