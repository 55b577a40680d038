// What a person, a key or a program can have done: each command says its arguments and answers with plain JSON.
import { JupyterFrontEnd } from "@jupyterlab/application";
import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import { PageConfig, PathExt, URLExt } from "@jupyterlab/coreutils";
import { NotebookPanel } from "@jupyterlab/notebook";
import { downloadIcon } from "@jupyterlab/ui-components";
import { CommandRegistry } from "@lumino/commands";
import { ReadonlyJSONObject, ReadonlyPartialJSONObject } from "@lumino/coreutils";

import { mentionsTriton, modelOf } from "./cells.js";
import { exportDialog } from "./exportDialog.js";
import { Done } from "./exportTask.js";
import { KernelError, KernelLink } from "./link.js";
import { cellTexts, KernelLinks } from "./links.js";
import { PANEL } from "./panel.js";
import { Calls, ExportOptions } from "./protocol.js";
import { Settings } from "./settings.js";

export const CATEGORY = "Triton";
export const Commands = {
  exportNotebook: "tritonlab:export",
  exportCell: "tritonlab:export-cell",
  playground: "tritonlab:playground",
  view: "tritonlab:view",
  create: "tritonlab:new",
  openRepository: "tritonlab:open-repository",
  panel: "tritonlab:panel",
  models: "tritonlab:models",
  overview: "tritonlab:overview",
  logs: "tritonlab:logs",
  cancel: "tritonlab:cancel",
  loadExtension: "tritonlab:load-extension",
  load: "tritonlab:load",
  unload: "tritonlab:unload",
  stop: "tritonlab:stop",
  kill: "tritonlab:kill",
  breakHere: "tritonlab:break-here",
};

export const NAME = { type: "string", description: "the model's name" };

const LEVEL = { type: "string", enum: ["VERBOSE", "INFO", "WARNING", "ERROR"], description: "this or worse" };

const TEXTS = { type: "array", items: { type: "string" } };

/** The options of an export: those of `tritonlab.export`. */
const OPTIONS = {
  alone: { type: "boolean", description: "without the models that it needs" },
  target: { type: "string", description: "a release of Triton, its container, or kserve" },
  env: { type: "string", description: "requirements, dir, archive, none, or the path of a prefix" },
  deploy: { ...TEXTS, description: "of docker, k8s, kserve" },
  capture: { type: "boolean", description: "write what other cells define in front of the model" },
  artifacts: { type: "object", description: "expressions of the notebook by the files that keep their values" },
  include: { ...TEXTS, description: "files that are otherwise left out" },
  verify: { ...TEXTS, description: "releases of Triton that have to prove it" },
};

function optionsOf(args: ReadonlyPartialJSONObject): ExportOptions {
  return Object.fromEntries(Object.entries(args).filter(([name]) => name in OPTIONS));
}

/** What is done to one model: command, call, label, caption. */
const ON_A_MODEL = [
  [Commands.load, "load", "Load Model…", "Load a model as it was written last"],
  [Commands.unload, "unload", "Unload Model…", "Take a model out of service"],
  [Commands.stop, "stop", "Stop Loading Model…", "End the load of a model; what served before goes on"],
  [Commands.kill, "kill", "Kill Old Processes of Model…", "End at once what serves no more"],
] as const;

/** An object schema, as the command registry and those who make tools of commands read it. */
export function takes(properties: ReadonlyJSONObject, ...required: string[]): { args: ReadonlyJSONObject } {
  return { args: { type: "object", properties, required, additionalProperties: false } };
}

export function addCommands(
  app: JupyterFrontEnd,
  links: KernelLinks,
  settings: Settings,
  palette: ICommandPalette | null,
): void {
  const add = (id: string, options: CommandRegistry.ICommandOptions): void => {
    app.commands.addCommand(id, options);
    palette?.addItem({ command: id, category: CATEGORY });
  };
  addExports(app, links, settings, add);
  add(Commands.panel, {
    label: "Show Triton Panel",
    caption: "What the current notebook's server does: models, requests, log",
    describedBy: takes({}),
    execute: async () => {
      // the palette, when it closes, gives the focus back to the notebook
      await new Promise((resolve) => setTimeout(resolve));
      app.shell.activateById(PANEL);
      return { shown: PANEL };
    },
  });
  add(Commands.models, {
    label: "Models of This Notebook",
    caption: "The Triton models of the current notebook's kernel and their states",
    describedBy: takes({}),
    execute: async () => ({ models: (await open(links)).models as never }),
  });
  add(Commands.overview, {
    label: "What Happens Now",
    caption: "Models, instances, rates, requests in flight and ports of the current notebook's server",
    describedBy: takes({}),
    execute: () => ask(links, "overview", {}),
  });
  add(Commands.logs, {
    label: "Log of the Models",
    caption: "The last lines that models printed and logged",
    describedBy: takes({ model: NAME, level: LEVEL, search: { type: "string" }, limit: { type: "integer" } }),
    execute: (args) => ask(links, "logs", args),
  });
  add(Commands.cancel, {
    label: "Cancel Request…",
    caption: "Ask for the cancellation of a request in flight",
    describedBy: takes({ serial: { type: "integer", description: "as the overview tells it" } }, "serial"),
    isVisible: (args) => typeof args.serial === "number",
    execute: (args) => ask(links, "cancel", { serial: args.serial as number }),
  });
  for (const [id, call, label, caption] of ON_A_MODEL) {
    add(id, {
      label,
      caption,
      describedBy: takes({ name: NAME }, "name"),
      isVisible: (args) => typeof args.name === "string",
      execute: (args) => ask(links, call, { name: named(args) }),
    });
  }
  add(Commands.loadExtension, {
    label: "Load tritonlab into This Kernel",
    caption: "What a cell with %load_ext tritonlab does",
    describedBy: takes({}),
    isVisible: () => links.current !== null && links.current.state !== "open",
    execute: async () => ({ loaded: await loadExtension(links) }),
  });
  links.tracker.activeCellChanged.connect(() =>
    [Commands.exportCell, Commands.playground, Commands.view].forEach((id) => app.commands.notifyCommandChanged(id)),
  );
  links.changed.connect(() => Object.values(Commands).forEach((id) => app.commands.notifyCommandChanged(id)));
}

function addExports(
  app: JupyterFrontEnd,
  links: KernelLinks,
  settings: Settings,
  add: (id: string, options: CommandRegistry.ICommandOptions) => void,
): void {
  const directory = { type: "string", description: "the repository; relative to the notebook's directory" };
  const overwrite = { type: "boolean", description: "replace what is there and keep it as a backup" };
  const run = async (models: string[] | null, args: ReadonlyPartialJSONObject): Promise<ReadonlyJSONObject> => {
    const panel = links.tracker.currentWidget;
    const link = panel && (await reach(links, panel));
    if (!panel || !link) return { exported: [], error: "no kernel that knows tritonlab" };
    const serving = link.models.filter((one) => one.state === "READY" || one.state === "NOT READY");
    const names = models ?? (args.model ? [named(args, "model")] : serving.map((one) => one.name));
    if (!names.length) return refuse("No model of this notebook serves yet: run a %%triton_model cell first.");
    const target = typeof args.directory === "string" ? args.directory : null;
    const contentsPath = (relative: string): string | null => below(panel, relative);
    if (target !== null) {
      const given = { models: names, directory: target, overwrite: args.overwrite === true };
      const found = await link.ask("export", { ...given, ...optionsOf(args) });
      const page = found.verification && contentsPath(found.verification.relative);
      const done: Done = { ...found, contents: contentsPath(found.relative), page };
      return { exported: [done] as never };
    }
    const open = (path: string): void => void app.commands.execute("filebrowser:open-path", { path });
    const downloadUrl = (path: string): string => URLExt.join(PageConfig.getBaseUrl(), "files", URLExt.encodeParts(path));
    const around = { link, models: names, directory: settings.directory, contentsPath, open, downloadUrl };
    const done = await exportDialog(around);
    return { exported: (done ? [done] : []) as never };
  };
  add(Commands.exportNotebook, {
    label: "Export to Repository…",
    icon: downloadIcon,
    caption: "Write the notebook's models as a Triton model repository, with what it takes to run and to prove them",
    describedBy: takes({ model: NAME, directory, overwrite, ...OPTIONS }),
    isVisible: () => speaksTriton(links),
    execute: (args) => run(null, args),
  });
  add(Commands.exportCell, {
    label: "Export This Model to Repository…",
    icon: downloadIcon,
    caption: "Write the model of this cell as a Triton model repository",
    describedBy: takes({ directory, overwrite, ...OPTIONS }),
    isVisible: () => activeModel(links) !== null,
    execute: (args) => {
      const name = activeModel(links);
      if (name === null) return refuse("The active cell is no %%triton_model cell.");
      const known = links.current?.models.find((one) => one.name === name);
      if (!known || !["READY", "NOT READY"].includes(known.state)) {
        return refuse(`${name} does not serve yet: run its cell first.`);
      }
      return run([name], args);
    },
  });
}

/** Shows the export's panel for the button of a card, wherever our extension reaches the kernel of its notebook. */
export function exportFromCards(app: JupyterFrontEnd, links: KernelLinks): void {
  document.addEventListener("tritonlab-export", (event) => {
    const panel = links.tracker.find((one) => one.node.contains(event.target as Node));
    if (!(event instanceof CustomEvent) || !panel || links.of(panel)?.state !== "open") return;
    event.preventDefault();
    app.shell.activateById(panel.id);
    const { model } = event.detail as { model: string };
    void app.commands.execute(Commands.exportNotebook, { model });
  });
}

/** Whether the current notebook is one of ours: in others nothing of ours is seen. */
export function speaksTriton(links: KernelLinks): boolean {
  const panel = links.tracker.currentWidget;
  return panel !== null && (links.current?.state === "open" || cellTexts(panel).some(mentionsTriton));
}

/** The name of the model that the active cell writes. */
export function activeModel(links: KernelLinks): string | null {
  const cell = links.tracker.activeCell;
  return cell?.model.type === "code" ? modelOf(cell.model.sharedModel.getSource()) : null;
}

function named(args: ReadonlyPartialJSONObject, key = "name"): string {
  if (typeof args[key] !== "string") throw new Error(`${key}: the model's name is missing`);
  return args[key];
}

function refuse(error: string): ReadonlyJSONObject {
  Notification.warning(error, { autoClose: 6000 });
  return { exported: [], error };
}

/** The notebook's open link. Without tritonlab in the kernel it says how to get it, and the answer is null. */
async function reach(links: KernelLinks, panel: NotebookPanel): Promise<KernelLink | null> {
  const link = links.of(panel);
  if (link && (await link.connect())) return link;
  if (link?.state === "foreign") {
    Notification.error(
      `The kernel has tritonlab ${link.version}, which this extension does not understand. ` +
        "Upgrade it: pip install -U tritonlab",
    );
  } else if (link) {
    Notification.warning("This kernel has not loaded tritonlab. Not installed yet? pip install 'tritonlab[lab]'", {
      autoClose: 10_000,
      actions: [{ label: "%load_ext tritonlab", callback: () => void loadExtension(links) }],
    });
  } else {
    Notification.warning("This notebook has no kernel.");
  }
  return null;
}

/** Loads tritonlab into the kernel, as a cell with `%load_ext tritonlab` does; whether that went well. */
async function loadExtension(links: KernelLinks): Promise<boolean> {
  const kernel = links.tracker.currentWidget?.sessionContext.session?.kernel;
  const reply = await kernel?.requestExecute({ code: "%load_ext tritonlab", silent: false, store_history: false }).done;
  const loaded = reply?.content.status === "ok" && ((await links.current?.connect()) ?? false);
  if (!loaded) Notification.error("tritonlab could not be loaded. Run in a cell: %pip install 'tritonlab[lab]'");
  return loaded;
}

async function open(links: KernelLinks): Promise<KernelLink> {
  const link = links.current;
  if (!link || !(await link.connect())) throw new KernelError("absent", "no kernel that knows tritonlab");
  return link;
}

async function ask<K extends keyof Calls>(links: KernelLinks, call: K, given: Calls[K]["with"]): Promise<never> {
  return (await (await open(links)).ask(call, given)) as never;
}

/** The path in JupyterLab's files of what the kernel calls so, seen from the notebook; null if it is above them. */
function below(panel: NotebookPanel, relative: string): string | null {
  const path = PathExt.join(PathExt.dirname(panel.context.localPath), relative);
  return path.startsWith("..") || path.startsWith("/") ? null : path;
}
