// Commands that write into notebooks: a new one with a model that works, and cells that show one.
import { JupyterFrontEnd } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { ILauncher } from "@jupyterlab/launcher";
import { INotebookContent } from "@jupyterlab/nbformat";
import { NotebookActions, NotebookPanel } from "@jupyterlab/notebook";
import { ReadonlyJSONObject, ReadonlyPartialJSONObject } from "@lumino/coreutils";

import { activeModel, CATEGORY, Commands, NAME, speaksTriton, takes } from "./commands.js";
import { playgroundIcon, timelineIcon, tritonIcon, tritonImage } from "./icons.js";
import { KernelLinks } from "./links.js";
import { magicWord } from "./magicWord.js";
import { Cells, TEMPLATE } from "./template.js";

const KINDS = ["timeline", "streams", "metrics", "memory"];

export function addNotebookCommands(
  app: JupyterFrontEnd,
  links: KernelLinks,
  palette: ICommandPalette | null,
  launcher: ILauncher | null,
): void {
  const kind = { type: "string", enum: KINDS, description: "the timeline if none is named" };
  app.commands.addCommand(Commands.playground, {
    label: "Open Playground",
    icon: playgroundIcon,
    caption: "A form that sends requests to the model of this cell",
    describedBy: takes({ name: NAME }),
    isVisible: () => speaksTriton(links),
    isEnabled: (args) => target(links, args) !== null,
    execute: (args) => show(app, links, args, (name) => `%triton playground ${magicWord(name)}`),
  });
  app.commands.addCommand(Commands.view, {
    label: "Timeline",
    icon: timelineIcon,
    caption: "Watch the batches of the model of this cell form, and why each closed",
    describedBy: takes({ name: NAME, kind }),
    isVisible: () => speaksTriton(links),
    isEnabled: (args) => target(links, args) !== null,
    execute: (args) => {
      const chosen = typeof args.kind === "string" && KINDS.includes(args.kind) ? args.kind : KINDS[0];
      return show(app, links, args, (name) => `%triton view ${magicWord(name)} ${chosen}`);
    },
  });
  app.commands.addCommand(Commands.create, {
    label: (args) => (args.isPalette ? "New Notebook with a Triton Model" : "Triton model"),
    icon: tritonIcon,
    caption: "A new notebook with a model that works and a call of it",
    describedBy: takes({ cwd: { type: "string", description: "the directory of the new notebook" } }),
    execute: async (args) => ({ path: await create(app, typeof args.cwd === "string" ? args.cwd : "") }),
  });
  for (const command of [Commands.playground, Commands.view, Commands.create]) {
    palette?.addItem({ command, category: CATEGORY, args: { isPalette: true } });
  }
  launcher?.add({ command: Commands.create, category: "Notebook", rank: 20, kernelIconUrl: tritonImage });
}

/** The model that is named, else that of the active cell, else the only one that serves. */
function target(links: KernelLinks, args: ReadonlyPartialJSONObject): string | null {
  if (typeof args.name === "string") return args.name;
  const serving = (links.current?.models ?? []).filter((one) => one.state === "READY" || one.state === "NOT READY");
  const active = activeModel(links);
  if (active !== null) return serving.some((one) => one.name === active) ? active : null;
  return serving.length === 1 ? serving[0].name : null;
}

/** Runs the magic in the cell below the active one, which is a new one unless it holds this magic already. */
async function show(
  app: JupyterFrontEnd,
  links: KernelLinks,
  args: ReadonlyPartialJSONObject,
  magic: (name: string) => string,
): Promise<ReadonlyJSONObject> {
  const panel = links.tracker.currentWidget;
  const name = target(links, args);
  if (!panel || name === null) throw new Error("No model of this notebook serves yet: run a %%triton_model cell first.");
  const { content, sessionContext } = panel;
  const below = content.widgets[content.activeCellIndex + 1];
  if (below?.model.sharedModel.getSource() === magic(name)) content.activeCellIndex += 1;
  else {
    NotebookActions.insertBelow(content);
    content.activeCell?.model.sharedModel.setSource(magic(name));
  }
  const cell = content.activeCellIndex;
  app.shell.activateById(panel.id);
  const ran = await NotebookActions.run(content, sessionContext);
  reveal(panel, cell);
  return { name, cell, ran };
}

function reveal(panel: NotebookPanel, cell: number): void {
  panel.content.activeCellIndex = cell;
  void panel.content.scrollToItem(cell, "center");
}

/** Makes the notebook, opens it, and returns its path. */
async function create(app: JupyterFrontEnd, directory: string): Promise<string> {
  const path = await makeNotebook(app, directory, TEMPLATE);
  await app.commands.execute("docmanager:open", { path, factory: "Notebook" });
  return path;
}

/** Makes a notebook of these cells, with the kernel that JupyterLab prefers, and returns its path. */
export async function makeNotebook(app: JupyterFrontEnd, directory: string, texts: Cells): Promise<string> {
  const { contents, kernelspecs } = app.serviceManager;
  await kernelspecs.ready;
  const name = kernelspecs.specs?.default ?? "python3";
  const display_name = kernelspecs.specs?.kernelspecs[name]?.display_name ?? name;
  const cells = texts.map(([cell_type, source]) => ({
    cell_type,
    metadata: {},
    source,
    ...(cell_type === "code" ? { outputs: [], execution_count: null } : {}),
  }));
  const content = { cells, metadata: { kernelspec: { name, display_name } }, nbformat: 4, nbformat_minor: 4 };
  const { path } = await contents.newUntitled({ path: directory, type: "notebook" });
  await contents.save(path, { type: "notebook", format: "json", content: content as INotebookContent });
  return path;
}
