// What several exports wrote, told as one. No JupyterLab here.
import { Exported } from "./protocol.js";

type Written = Exported["models"][number];

/** Each model that was written, once and in order, although an ensemble brings the models of its steps. The first export
 * of a model says what it changed; the later ones found it up to date. */
export function modelsOf(exports: readonly Exported[]): Written[] {
  const seen = new Map<string, Written>();
  for (const one of exports.flatMap((each) => each.models)) if (!seen.has(one.path)) seen.set(one.path, one);
  return [...seen.values()];
}

/** The lines of the exports' trees below the repository, each model's once. */
export function treeOf(exports: readonly Exported[]): string[] {
  const seen = new Set<string>();
  const lines: string[] = [];
  let repeated = false;
  for (const line of exports.flatMap((one) => one.tree.split("\n").slice(1))) {
    const name = /^ {2}(\S.*?)\//.exec(line)?.[1];
    if (name !== undefined) {
      repeated = seen.has(name);
      seen.add(name);
    }
    if (!repeated) lines.push(line);
  }
  return lines;
}
