// The plugin: what it adds to JupyterLab and Notebook 7. Everything goes over one comm to the notebook's own kernel.
import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { IEditorExtensionRegistry, IEditorLanguageRegistry } from "@jupyterlab/codemirror";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { LabIcon } from "@jupyterlab/ui-components";

import { addCommands, Commands } from "./commands.js";
import { addHighlighting } from "./highlight.js";
import { KernelLinks } from "./links.js";
import { markCells } from "./marks.js";
import { TritonPanel } from "./panel.js";
import { Settings } from "./settings.js";

/** Three prongs. */
const tritonIcon = new LabIcon({
  name: "tritonlab:triton",
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><g class="jp-icon3" fill="#616161">' +
    '<path d="M11 2h2v20h-2z"/><path d="M5 4h2v6a4 4 0 0 0 4 4h2a4 4 0 0 0 4-4V4h2v6a6 6 0 0 1-6 6h-2a6 6 0 0 1-6-6z"/>' +
    '<path d="M12 1l2.5 4h-5zM6 2l2.2 3.5H3.8zM18 2l2.2 3.5h-4.4z"/></g></svg>',
});

const plugin: JupyterFrontEndPlugin<void> = {
  id: "tritonlab:plugin",
  description: "Triton models in the notebook: their states beside their cells, and their export.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ISettingRegistry, ILayoutRestorer, IEditorLanguageRegistry, IEditorExtensionRegistry],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    registry: ISettingRegistry | null,
    restorer: ILayoutRestorer | null,
    languages: IEditorLanguageRegistry | null,
    extensions: IEditorExtensionRegistry | null,
  ) => {
    const links = new KernelLinks(tracker);
    const settings = new Settings(registry);
    const exportModel = (model: string): void => void app.commands.execute(Commands.exportNotebook, { model });
    const loadExtension = (): void => void app.commands.execute(Commands.loadExtension);
    addCommands(app, links, settings, palette);
    markCells(links, exportModel);
    const panel = new TritonPanel(links, { exportModel, loadExtension }, tritonIcon);
    app.shell.add(panel, "left", { rank: 520 });
    restorer?.add(panel, panel.id);
    addHighlighting(app, tracker, languages, extensions);
  },
};

export default [plugin];
