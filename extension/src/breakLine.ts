// Where `breakpoint()` goes in a cell that writes a model. No JupyterLab here.
import { headOf, wordsOf } from "./magicLine.js";

const CALL = /^\s*breakpoint\(\)\s*$/;

/** Whether a cell writes Python of a model, in which a breakpoint can stand. */
export function canBreak(cell: string): boolean {
  return /^\s*%%triton_(?:model|file)(?=\s)/.test(headOf(cell)) && wordsOf(headOf(cell)).length > 1;
}

/** The cell with `breakpoint()` in front of a line (from 0), indented as the line is; without the one that stands there.
 * Null for a line of the magic, an empty one, and one at the left margin, which would stop the load. */
export function withBreak(cell: string, line: number): string | null {
  const lines = cell.split("\n");
  if (!canBreak(cell) || line < headOf(cell).split("\n").length) return null;
  const at = CALL.test(lines[line] ?? "") ? line : CALL.test(lines[line - 1] ?? "") ? line - 1 : -1;
  if (at >= 0) return [...lines.slice(0, at), ...lines.slice(at + 1)].join("\n");
  const indent = /^(\s+)\S/.exec(lines[line] ?? "")?.[1];
  return indent === undefined ? null : [...lines.slice(0, line), `${indent}breakpoint()`, ...lines.slice(line)].join("\n");
}
