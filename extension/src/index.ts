// The plugin: what it adds to JupyterLab and Notebook 7. Everything goes over one comm to the notebook's own kernel.
import { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";

import { addCommands, Commands } from "./commands.js";
import { KernelLinks } from "./links.js";
import { markCells } from "./marks.js";
import { Settings } from "./settings.js";

const plugin: JupyterFrontEndPlugin<void> = {
  id: "tritonlab:plugin",
  description: "Triton models in the notebook: their states beside their cells, and their export.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    registry: ISettingRegistry | null,
  ) => {
    const links = new KernelLinks(tracker);
    const settings = new Settings(registry);
    markCells(links, (model) => void app.commands.execute(Commands.exportNotebook, { model }));
    addCommands(app, links, settings, palette);
  },
};

export default [plugin];
