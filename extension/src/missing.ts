// What is offered where a cell has a magic of ours and the kernel has not loaded tritonlab.
import { Notification } from "@jupyterlab/apputils";
import { Cell } from "@jupyterlab/cells";
import { INotebookTracker, NotebookActions, NotebookPanel } from "@jupyterlab/notebook";

import { missesTriton } from "./cells.js";

const LINE = "%load_ext tritonlab";

/**
 * Offers to add the cell that loads tritonlab, above the one that failed for want of it. The offer goes when a cell
 * has loaded it, or when another cell makes a new one.
 */
export function offerLoadExt(tracker: INotebookTracker): void {
  const offers = new WeakMap<NotebookPanel, string>();
  NotebookActions.executed.connect((_, { notebook, cell, error }) => {
    const panel = tracker.find((one) => one.content === notebook);
    if (!panel) return;
    const misses = error && missesTriton(error.errorName ?? "", error.errorValue ?? "");
    const offer = offers.get(panel);
    if (offer && (misses || (!error && cell.model.sharedModel.getSource().includes(LINE)))) Notification.dismiss(offer);
    if (!misses) return;
    const id = Notification.warning(
      "This kernel has not loaded tritonlab, which brings the magics of Triton models.",
      { autoClose: 20_000, actions: [{ label: `Add ${LINE}`, callback: () => void addAbove(panel, cell) }] },
    );
    offers.set(panel, id);
  });
}

/** Adds the cell above `cell`, and runs both. */
async function addAbove(panel: NotebookPanel, cell: Cell): Promise<void> {
  const { content, sessionContext } = panel;
  const index = content.widgets.indexOf(cell);
  if (panel.isDisposed || index < 0) return;
  content.deselectAll();
  content.activeCellIndex = index;
  NotebookActions.insertAbove(content);
  content.activeCell?.model.sharedModel.setSource(LINE);
  if (!(await NotebookActions.run(content, sessionContext))) return;
  content.activeCellIndex = content.widgets.indexOf(cell);
  await NotebookActions.run(content, sessionContext);
}
