// The first line of a cell of ours is no Python: what its words are. No JupyterLab here.
import { RangeSetBuilder } from "@codemirror/state";
import { Decoration, DecorationSet, EditorView, ViewPlugin, ViewUpdate } from "@codemirror/view";

export type WordKind = "magic" | "name" | "option" | "value";

export interface Word {
  from: number;
  to: number;
  kind: WordKind;
}

const MAGIC = /^\s*%%triton_(?:model|file|config)(?=\s|$)/;

/** The words of the line, empty if it is no magic of ours. The first that is no option is the model's name. */
export function wordsOf(line: string): Word[] {
  if (!MAGIC.test(line)) return [];
  let named = false;
  return [...line.matchAll(/"[^"]*"|'[^']*'|\S+/g)].map((found) => {
    const text = found[0];
    let kind: WordKind = "value";
    if (text.startsWith("%%")) kind = "magic";
    else if (/^--?[A-Za-z]/.test(text)) kind = "option";
    else if (!named) [kind, named] = ["name", true];
    return { from: found.index, to: found.index + text.length, kind };
  });
}

const LINE = Decoration.line({ class: "tritonlab-line" });

function decorate(view: EditorView): DecorationSet {
  const marks = new RangeSetBuilder<Decoration>();
  for (let number = 1; number <= view.state.doc.lines; number++) {
    const line = view.state.doc.line(number);
    const words = wordsOf(line.text);
    if (words.length) {
      marks.add(line.from, line.from, LINE);
      for (const { from, to, kind } of words) {
        marks.add(line.from + from, line.from + to, Decoration.mark({ class: `tritonlab-word-${kind}` }));
      }
    }
    if (line.text.trim()) break; // only blank lines may stand before a magic
  }
  return marks.finish();
}

export const magicLine = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: EditorView) {
      this.decorations = decorate(view);
    }
    update(update: ViewUpdate): void {
      if (update.docChanged) this.decorations = decorate(update.view);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);
