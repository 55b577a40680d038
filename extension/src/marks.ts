// The mark beside every `%%triton_model` cell: READY, loading, failed at a line, stale.
import { Cell, CodeCell } from "@jupyterlab/cells";
import { NotebookPanel } from "@jupyterlab/notebook";
import { downloadIcon } from "@jupyterlab/ui-components";

import { Mark, markOf } from "./cells.js";
import { KernelLinks } from "./links.js";

const CLASS = "tritonlab-mark";
/** What is typed within it is looked at once. */
const TOGETHER_MS = 80;

/** Exports the model of this name; the notebook is the current one. */
export type ExportModel = (name: string) => void;

/** Keeps the marks of all notebooks true. */
export function markCells(links: KernelLinks, exportModel: ExportModel): void {
  const follow = (panel: NotebookPanel): void => {
    let due = 0;
    const soon = (): void => {
      window.clearTimeout(due);
      due = window.setTimeout(() => draw(links, panel, exportModel), TOGETHER_MS);
    };
    links.changed.connect(soon);
    panel.content.modelContentChanged.connect(soon);
    panel.disposed.connect(() => {
      window.clearTimeout(due);
      links.changed.disconnect(soon);
    });
    soon();
  };
  links.tracker.widgetAdded.connect((_, panel) => follow(panel));
  links.tracker.forEach(follow);
}

function draw(links: KernelLinks, panel: NotebookPanel, exportModel: ExportModel): void {
  if (panel.isDisposed) return;
  const models = links.of(panel)?.models ?? [];
  for (const cell of panel.content.widgets) {
    const area = cell instanceof CodeCell ? cell.inputArea?.node : undefined;
    if (!area) continue;
    const mark = markOf(cell.model.sharedModel.getSource(), models);
    const node = button(area, CLASS, mark !== null);
    if (node && mark) {
      show(node, mark);
      node.onclick = () => goTo(panel, cell, mark.line);
    }
    const exporter = button(area, `${CLASS}-export`, mark?.serves ?? false);
    if (exporter && mark) showExport(exporter, mark.model, exportModel);
  }
}

/** The button of this class in the gutter of a cell, made or taken away as wanted. */
function button(area: HTMLElement, name: string, wanted: boolean): HTMLButtonElement | null {
  let node = area.querySelector<HTMLButtonElement>(`:scope > .${name}`);
  if (!wanted) node?.remove();
  if (!node && wanted) {
    node = document.createElement("button");
    node.type = "button";
    node.className = name;
    area.append(node);
  }
  return node;
}

function show(node: HTMLButtonElement, mark: Mark): void {
  if (node.textContent !== mark.label) node.textContent = mark.label;
  node.dataset.mark = mark.kind;
  node.title = mark.title;
  node.setAttribute("aria-label", mark.title);
}

function showExport(node: HTMLButtonElement, model: string, exportModel: ExportModel): void {
  if (!node.firstChild) downloadIcon.element({ container: node, width: "14px", height: "14px" });
  node.title = `Export ${model} to a repository…`;
  node.setAttribute("aria-label", node.title);
  node.onclick = () => exportModel(model);
}

/** Puts the cursor into the cell: on a line (from 1), or where it was. */
export function goTo(panel: NotebookPanel, cell: Cell, line: number | null): void {
  panel.content.activeCellIndex = panel.content.widgets.indexOf(cell);
  if (line !== null) cell.editor?.setCursorPosition({ line: line - 1, column: 0 });
  panel.content.mode = "edit";
  cell.editor?.focus();
}
