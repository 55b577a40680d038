// Which kernel a notebook has, and its link. One link for each kernel of the window.
import { CodeCell } from "@jupyterlab/cells";
import { INotebookTracker, NotebookActions, NotebookPanel } from "@jupyterlab/notebook";
import { Kernel as Services } from "@jupyterlab/services";
import { ISignal, Signal } from "@lumino/signaling";

import { mentionsTriton } from "./cells.js";
import { Kernel, KernelLink } from "./link.js";

/** JupyterLab's class of an output that is a box for a line of input. */
const INPUT_BOX = "jp-OutputArea-stdin-item";

/** Guarantees: a notebook that never mentions Triton costs its kernel nothing. */
export class KernelLinks {
  private readonly _links = new Map<string, KernelLink>();
  private readonly _changed = new Signal<this, void>(this);

  constructor(readonly tracker: INotebookTracker) {
    tracker.widgetAdded.connect((_, panel) => this._follow(panel));
    tracker.forEach((panel) => this._follow(panel));
    tracker.currentChanged.connect(() => this._changed.emit());
    NotebookActions.executed.connect((_, { notebook, cell }) => {
      const panel = tracker.find((one) => one.content === notebook);
      if (panel && mentionsTriton(cell.model.sharedModel.getSource())) void this.of(panel)?.connect();
    });
    window.addEventListener("pagehide", () => this._links.forEach((link) => link.dispose()));
  }

  /** A link, or the current notebook, is another. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The link to the notebook's kernel; null while it has none. */
  of(panel: NotebookPanel | null): KernelLink | null {
    const kernel = panel?.sessionContext.session?.kernel;
    if (!kernel || kernel.isDisposed) return null;
    return this._links.get(kernel.id) ?? this._add(kernel);
  }

  get current(): KernelLink | null {
    return this.of(this.tracker.currentWidget);
  }

  /** An open link that can be asked what every kernel knows: the current notebook's, else any. */
  get listening(): KernelLink | null {
    const open = [...this._links.values()].filter((link) => link.state === "open");
    return open.find((link) => link === this.current) ?? open[0] ?? null;
  }

  private _add(kernel: Services.IKernelConnection): KernelLink {
    const link = new KernelLink(kernel as unknown as Kernel);
    link.inputBox = () => {
      const panels = this.tracker.filter((panel) => panel.sessionContext.session?.kernel?.id === kernel.id);
      const areas = panels.flatMap(areasThatWait);
      return { asked: areas.length > 0, shown: areas.some(showsInputBox) };
    };
    this._links.set(kernel.id, link);
    link.changed.connect(() => this._changed.emit());
    kernel.disposed.connect(() => {
      this._links.delete(kernel.id);
      link.dispose();
      this._changed.emit();
    });
    return link;
  }

  private _follow(panel: NotebookPanel): void {
    const greet = async (): Promise<void> => {
      await panel.revealed;
      const link = this.of(panel);
      if (link && cellTexts(panel).some(mentionsTriton)) await link.connect();
      this._changed.emit();
    };
    panel.sessionContext.kernelChanged.connect(() => void greet());
    void panel.sessionContext.ready.then(greet);
  }
}

/** The outputs of cells that wait for a line of input. */
function areasThatWait(panel: NotebookPanel): CodeCell["outputArea"][] {
  const areas = panel.content.widgets.map((cell) => (cell instanceof CodeCell ? cell.outputArea : null));
  return areas.filter((area) => area !== null).filter((area) => area.pendingInput);
}

/** Whether the box for the line is there. Clearing outputs takes it away; the box of a cell that has ended stays. */
function showsInputBox(area: CodeCell["outputArea"]): boolean {
  return area.widgets.some((child) => child.hasClass(INPUT_BOX));
}

/** The texts of a notebook's code cells. */
export function cellTexts(panel: NotebookPanel): string[] {
  const cells = [...(panel.content.model?.cells ?? [])];
  return cells.filter((cell) => cell.type === "code").map((cell) => cell.sharedModel.getSource());
}
