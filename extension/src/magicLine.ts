// The line that begins a cell of ours is no Python: how far it goes, and what its words are. No JupyterLab here.
import { Decoration, DecorationSet, EditorView, ViewPlugin, ViewUpdate } from "@codemirror/view";

export type WordKind = "magic" | "name" | "option" | "value";

export interface Word {
  from: number;
  to: number;
  kind: WordKind;
}

const MAGIC = /^\s*%%triton_(?:model|file|config)(?=\s|$)/;
/** The line, which continues after a backslash at its end. */
const HEAD = /^\s*(?:[^\n]*\\[ \t]*\n)*[^\n]*/;

/** The part of a cell that is its magic's line, over several lines if they end with a backslash. */
export function headOf(cell: string): string {
  return HEAD.exec(cell)![0];
}

/** The words of the head of a cell, empty if it is no magic of ours. The first that is no option is the model's name. */
export function wordsOf(head: string): Word[] {
  if (!MAGIC.test(head)) return [];
  let named = false;
  const words = [...head.matchAll(/"[^"]*"|'[^']*'|\S+/g)].filter((found) => found[0] !== "\\");
  return words.map((found) => {
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
  const { doc } = view.state;
  const head = headOf(doc.toString());
  const words = wordsOf(head);
  if (!words.length) return Decoration.none;
  const marks = words.map(({ from, to, kind }) => Decoration.mark({ class: `tritonlab-word-${kind}` }).range(from, to));
  for (let number = doc.lineAt(words[0].from).number; number <= doc.lineAt(head.length).number; number++) {
    marks.push(LINE.range(doc.line(number).from));
  }
  return Decoration.set(marks, true);
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
