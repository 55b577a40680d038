// Where the config is in a text that is edited. No JupyterLab here.
import { Refused } from "./protocol.js";

const CONFIG_CELL = /^\s*%%triton_config\b(?:[ \t]|\\[ \t]*\n)*("[^"\n]*"|[^\s\\-]\S*)?(?:[^\n]*\\[ \t]*\n)*[^\n]*(?:\n|$)/;

/** The config in a document: where it begins, and the model that the cell names; "" where it names none. */
export interface Config {
  from: number;
  model: string;
}

export function isConfigCell(text: string): boolean {
  return CONFIG_CELL.test(text);
}

/** The config of a cell, null if it is no `%%triton_config` cell. */
export function configOfCell(text: string): Config | null {
  const found = CONFIG_CELL.exec(text);
  return found && { from: found[0].length, model: (found[1] ?? "").replace(/^(["'])(.*)\1$/, "$2") };
}

/** What is to be underlined in the document, from and to; a complaint without a place underlines its first line. */
export function rangeOf(document: string, config: Config, refused: Refused): { from: number; to: number } {
  const lines = document.split("\n");
  const header = document.slice(0, config.from).split("\n").length - 1;
  const index = refused.line > 0 ? Math.min(header + refused.line - 1, lines.length - 1) : 0;
  const before = lines.slice(0, index).reduce((sum, line) => sum + line.length + 1, 0);
  if (refused.line === 0) return { from: before, to: before + lines[index].length };
  const from = Math.min(refused.start, lines[index].length);
  const to = Math.min(Math.max(refused.end, from + 1), lines[index].length);
  return { from: before + Math.min(from, to), to: before + to };
}
