// The plugin: what it adds to JupyterLab and Notebook 7. Everything goes over one comm to the notebook's own kernel.
import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { IEditorExtensionRegistry, IEditorLanguageRegistry } from "@jupyterlab/codemirror";
import { ICompletionProviderManager } from "@jupyterlab/completer";
import { IDefaultFileBrowser } from "@jupyterlab/filebrowser";
import { ILauncher } from "@jupyterlab/launcher";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";

import { addBreakHere } from "./breakHere.js";
import { addCommands, Commands, exportFromCards } from "./commands.js";
import { completeConfigFiles } from "./configCompletion.js";
import { addTableTools } from "./dataTables.js";
import { addHighlighting } from "./highlight.js";
import { tritonIcon } from "./icons.js";
import { KernelLinks } from "./links.js";
import { markCells } from "./marks.js";
import { offerLoadExt } from "./missing.js";
import { addNotebookCommands } from "./notebooks.js";
import { TritonPanel } from "./panel.js";
import { addRepositoryCommands } from "./repositories.js";
import { Settings } from "./settings.js";

const plugin: JupyterFrontEndPlugin<void> = {
  id: "tritonlab:plugin",
  description: "Triton models in the notebook: their states beside their cells, and their export.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [
    ICommandPalette,
    ISettingRegistry,
    ILayoutRestorer,
    IEditorLanguageRegistry,
    IEditorExtensionRegistry,
    ILauncher,
    ICompletionProviderManager,
    IDefaultFileBrowser,
  ],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    registry: ISettingRegistry | null,
    restorer: ILayoutRestorer | null,
    languages: IEditorLanguageRegistry | null,
    extensions: IEditorExtensionRegistry | null,
    launcher: ILauncher | null,
    completer: ICompletionProviderManager | null,
    browser: IDefaultFileBrowser | null,
  ) => {
    const links = new KernelLinks(tracker);
    const settings = new Settings(registry);
    const exportModel = (model: string): void => void app.commands.execute(Commands.exportNotebook, { model });
    const breakHere = (model: string): void => void app.commands.execute(Commands.breakHere, { model });
    const loadExtension = (): void => void app.commands.execute(Commands.loadExtension);
    addCommands(app, links, settings, palette);
    exportFromCards(app, links);
    addNotebookCommands(app, links, palette, launcher);
    addRepositoryCommands(app, links, palette, launcher, browser);
    addTableTools();
    addBreakHere(app, tracker, palette);
    markCells(links, exportModel);
    offerLoadExt(tracker);
    const panel = new TritonPanel(links, { exportModel, breakHere, loadExtension }, tritonIcon);
    app.shell.add(panel, "left", { rank: 520 });
    restorer?.add(panel, panel.id);
    addHighlighting(app, links, languages, extensions);
    if (completer) completeConfigFiles(completer, () => links.listening);
  },
};

export default [plugin];
