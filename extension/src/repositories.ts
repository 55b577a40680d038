// What opens a model repository in a notebook, and brings its models into cells.
import { JupyterFrontEnd } from "@jupyterlab/application";
import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import { PathExt } from "@jupyterlab/coreutils";
import { FileDialog, IDefaultFileBrowser } from "@jupyterlab/filebrowser";
import { ILauncher } from "@jupyterlab/launcher";
import { NotebookActions, NotebookPanel } from "@jupyterlab/notebook";
import { ReadonlyPartialJSONObject } from "@lumino/coreutils";

import { CATEGORY, Commands, takes } from "./commands.js";
import { tritonIcon, tritonImage } from "./icons.js";
import { KernelLinks } from "./links.js";
import { makeNotebook } from "./notebooks.js";
import { openingCells } from "./template.js";

/** What the table of a repository sends (`views/opened.ts`). */
const CELLS = "tritonlab:cells";

export function addRepositoryCommands(
  app: JupyterFrontEnd,
  links: KernelLinks,
  palette: ICommandPalette | null,
  launcher: ILauncher | null,
  browser: IDefaultFileBrowser | null,
): void {
  app.commands.addCommand(Commands.openRepository, {
    label: (args) => (args.isPalette ? "Open Model Repository…" : args.isMenu ? "Open as Triton Repository" : "Triton repository"),
    icon: tritonIcon,
    caption: "A new notebook that serves the models of a repository, and brings them into cells",
    describedBy: takes({ path: { type: "string", description: "the repository, as the file browser names it" } }),
    isVisible: (args) => browser !== null || typeof args.path === "string",
    execute: async (args) => {
      const path = typeof args.path === "string" ? args.path : args.isMenu ? selected(browser) : await choose(browser, args);
      return path === null ? { path: null } : { path: await open(app, path) };
    },
  });
  palette?.addItem({ command: Commands.openRepository, category: CATEGORY, args: { isPalette: true } });
  if (browser) launcher?.add({ command: Commands.openRepository, category: "Notebook", rank: 21, kernelIconUrl: tritonImage });
  document.addEventListener(CELLS, (event) => {
    const panel = links.tracker.find((one) => one.node.contains(event.target as Node));
    if (!panel) return;
    event.preventDefault();
    void insertCells(app, links, panel, event);
  });
}

/** Inserts the cells that write a model below the one with the table, and goes to the first of them. */
async function insertCells(app: JupyterFrontEnd, links: KernelLinks, panel: NotebookPanel, event: Event): Promise<void> {
  const { content } = panel;
  const table = content.widgets.findIndex((cell) => cell.node.contains(event.target as Node));
  const { model } = (event as CustomEvent<{ model: string }>).detail;
  try {
    const { cells } = (await links.of(panel)?.ask("cells", { model })) ?? { cells: [] };
    app.shell.activateById(panel.id);
    const made = cells.map((source) => ({ cell_type: "code", source, metadata: {} }));
    const after = table < 0 ? content.activeCellIndex : table;
    content.model?.sharedModel.insertCells(after + 1, made);
    content.activeCellIndex = after + 1;
    NotebookActions.deselectAll(content);
    void content.scrollToItem(after + 1, "start");
  } catch (error) {
    Notification.error(error instanceof Error ? error.message : String(error), { autoClose: 10_000 });
  }
}

/** The folder whose menu was opened. */
function selected(browser: IDefaultFileBrowser | null): string | null {
  const items = [...(browser?.selectedItems() ?? [])];
  return items.find((item) => item.type === "directory")?.path ?? null;
}

async function choose(browser: IDefaultFileBrowser | null, args: ReadonlyPartialJSONObject): Promise<string | null> {
  if (!browser) return null;
  const { value } = await FileDialog.getExistingDirectory({
    manager: browser.model.manager,
    title: "Open a model repository",
    label: "The directory that has one directory for each model",
    defaultPath: typeof args.cwd === "string" ? args.cwd : browser.model.path,
  });
  return value?.[0]?.path ?? null;
}

/** Makes the notebook beside the repository, runs it, and returns its path. */
async function open(app: JupyterFrontEnd, repository: string): Promise<string> {
  const path = await makeNotebook(app, PathExt.dirname(repository), openingCells(PathExt.basename(repository)));
  const panel = (await app.commands.execute("docmanager:open", { path, factory: "Notebook" })) as NotebookPanel;
  await panel.sessionContext.ready;
  await panel.sessionContext.session?.kernel?.info;
  await NotebookActions.runAll(panel.content, panel.sessionContext);
  return path;
}
