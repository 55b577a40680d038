// *Break Here*: the model of a cell stops in front of the line where the cursor is. JupyterLab's own debugger speaks with
// the kernel's process alone, and a model runs in another one, so its breakpoints do not stop there.
import { JupyterFrontEnd } from "@jupyterlab/application";
import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import { INotebookTracker } from "@jupyterlab/notebook";

import { canBreak, withBreak } from "./breakLine.js";
import { CATEGORY, Commands, takes } from "./commands.js";

export function addBreakHere(app: JupyterFrontEnd, tracker: INotebookTracker, palette: ICommandPalette | null): void {
  const cellText = (): string => tracker.activeCell?.model.sharedModel.getSource() ?? "";
  app.commands.addCommand(Commands.breakHere, {
    label: "Break Here",
    caption: "Stop the model in front of the line with the cursor, or no longer, and load it again",
    describedBy: takes({}),
    isVisible: () => canBreak(cellText()),
    isEnabled: () => canBreak(cellText()),
    execute: async () => {
      const cell = tracker.activeCell;
      const line = cell?.editor?.getCursorPosition().line;
      const changed = line === undefined ? null : withBreak(cellText(), line);
      if (!cell || changed === null) {
        Notification.info("Put the cursor on a line of a method of the model: a request stops there.", { autoClose: 6000 });
        return { changed: false };
      }
      cell.model.sharedModel.setSource(changed);
      await app.commands.execute("notebook:run-cell");
      return { changed: true };
    },
  });
  palette?.addItem({ command: Commands.breakHere, category: CATEGORY });
}
