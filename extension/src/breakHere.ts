// *Break Here*: the model of a cell stops in front of the line where the cursor is. JupyterLab's own debugger speaks with
// the kernel's process alone, and a model runs in another one, so its breakpoints do not stop there.
import { JupyterFrontEnd } from "@jupyterlab/application";
import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import { Cell } from "@jupyterlab/cells";
import { INotebookTracker } from "@jupyterlab/notebook";

import { canBreak, withBreak } from "./breakLine.js";
import { modelOf } from "./cells.js";
import { CATEGORY, Commands, NAME, takes } from "./commands.js";
import { goTo } from "./marks.js";

const textOf = (cell: Cell): string => cell.model.sharedModel.getSource();

export function addBreakHere(app: JupyterFrontEnd, tracker: INotebookTracker, palette: ICommandPalette | null): void {
  const activeCell = (): Cell[] => (tracker.activeCell ? [tracker.activeCell] : []);
  /** The cell with the cursor, or the one that writes a model: the active cell, or else the first. */
  const cellOf = (model: unknown): Cell | undefined => {
    if (typeof model !== "string") return tracker.activeCell ?? undefined;
    const cells = [...activeCell(), ...(tracker.currentWidget?.content.widgets ?? [])];
    return cells.find((cell) => modelOf(textOf(cell)) === model);
  };
  const isOffered = ({ model }: { model?: unknown }): boolean => model !== undefined || activeCell().some((cell) => canBreak(textOf(cell)));
  app.commands.addCommand(Commands.breakHere, {
    label: "Break Here",
    caption: "Stop the model in front of the line with the cursor, or no longer, and load it again",
    describedBy: takes({ model: { ...NAME, description: "the model of a cell; without it, the active cell's" } }),
    isVisible: isOffered,
    isEnabled: isOffered,
    execute: async ({ model }) => {
      const cell = cellOf(model);
      if (cell && tracker.currentWidget) goTo(tracker.currentWidget, cell, null);
      const line = cell?.editor?.getCursorPosition().line ?? 0;
      const changed = cell ? withBreak(textOf(cell), line) : null;
      if (!cell || changed === null) {
        Notification.info("Put the cursor on a line of a method of the model: a request stops there.", { autoClose: 6000 });
        return { changed: false };
      }
      cell.model.sharedModel.setSource(changed);
      cell.editor?.setCursorPosition({ line, column: 0 }); // a new text moves it
      await app.commands.execute("notebook:run-cell");
      return { changed: true };
    },
  });
  palette?.addItem({ command: Commands.breakHere, category: CATEGORY });
}
