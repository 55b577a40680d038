// One export in its panel: what is chosen, what it would do, how far it is, and what it did. No drawing here.
import { Signal } from "@lumino/signaling";

import { KernelError, KernelLink } from "./link.js";
import { defaults, Fields, optionsOf, pythonCall } from "./exportOptions.js";
import { Choices, Exported, ExportOptions, Plans, Progress } from "./protocol.js";

const LINES = 200;

/** What an export did, and where its repository and its page are in JupyterLab's own files; null if not below them. */
export interface Done extends Exported {
  contents: string | null;
  page: string | null;
}

/** What the panel works with. `models`: those to export. `contentsPath`: where the kernel's relative path is. */
export interface Around {
  link: KernelLink;
  models: string[];
  directory: string;
  contentsPath: (relative: string) => string | null;
  open: (contents: string) => void;
  downloadUrl: (contents: string) => string;
}

/** Guarantees: of several answers about what would be done the one to the last question counts; one export runs at a
 *  time. */
export class ExportTask {
  directory: string;
  chosen: Set<string>;
  choices: Choices | null = null;
  fields: Fields | null = null;
  plan: Plans | null = null;
  /** a question is under way, after a change */
  looking = true;
  error = "";
  running = false;
  cancelling = false;
  bytes: { done: number; total: number } | null = null;
  lines: string[] = [];
  done: Done | null = null;
  zipped: { path: string; bytes: number; contents: string | null } | null = null;
  readonly changed = new Signal<this, void>(this);
  private _asked = 0;
  private _job = "";
  private readonly _typing = new Set<unknown>();

  constructor(readonly around: Around) {
    this.directory = around.directory;
    this.chosen = new Set(around.models);
  }

  get names(): string[] {
    return this.around.models.filter((name) => this.chosen.has(name));
  }

  get options(): ExportOptions {
    return this.fields && this.choices ? optionsOf(this.fields, this.choices) : {};
  }

  /** Whether something that is there would be replaced. */
  get replaces(): boolean {
    const others = this.plan?.beside?.changed.length ?? 0;
    return others > 0 || (this.plan?.models.some((one) => one.exists && one.differs) ?? false);
  }

  /** Whether it may be written: what it would do is known, and nothing is refused. */
  get allowed(): boolean {
    const { plan } = this;
    if (this.running || this.looking || this._typing.size || !plan || !this.names.length) return false;
    return !Object.keys(plan.refused).length && !plan.artifacts.some((one) => one.problem);
  }

  get python(): string {
    return pythonCall(this.names, this.directory, this.options, this.replaces);
  }

  async begin(): Promise<void> {
    try {
      this.choices = await this.around.link.ask("export_choices", {});
      this.fields = defaults(this.choices);
    } catch (error) {
      this.error = text(error);
    }
    this.changed.emit();
    if (this.fields) await this.ask();
  }

  /** Changes fields, and asks what would be done then. */
  choose(fields: Partial<Fields>): void {
    if (!this.fields || this.running) return;
    this.fields = { ...this.fields, ...fields };
    void this.ask();
  }

  moveTo(directory: string): void {
    this.directory = directory;
    void this.ask();
  }

  /** Keeps the export back while a `field` has a text that is not taken yet. */
  setTyping(field: unknown, typing: boolean): void {
    if (this._typing.has(field) === typing) return;
    if (typing) this._typing.add(field);
    else this._typing.delete(field);
    this.changed.emit();
  }

  toggleModel(name: string): void {
    if (!this.chosen.delete(name)) this.chosen.add(name);
    void this.ask();
  }

  /** Asks what the export would do. `failed`: why the last export failed, which stays to be read. */
  async ask(failed = ""): Promise<void> {
    const asked = ++this._asked;
    this.looking = true;
    this.changed.emit();
    try {
      const given = { models: this.names, directory: this.directory, ...this.options };
      const plan = this.names.length ? await this.around.link.ask("plan", given) : null;
      if (asked !== this._asked) return;
      [this.plan, this.error] = [plan, failed];
    } catch (error) {
      if (asked !== this._asked) return;
      [this.plan, this.error] = [null, text(error)];
    }
    this.looking = false;
    this.changed.emit();
  }

  /** Writes what the plan has shown, and proves it if that is chosen. */
  async run(): Promise<void> {
    if (!this.allowed) return;
    const { link, contentsPath } = this.around;
    this._job = crypto.randomUUID();
    [this.running, this.cancelling, this.error, this.bytes, this.lines] = [true, false, "", null, []];
    this.changed.emit();
    const given = { models: this.names, directory: this.directory, overwrite: this.replaces, job: this._job };
    try {
      const found = await link.ask("export", { ...given, ...this.options }, (progress) => this._receive(progress));
      const page = found.verification && contentsPath(found.verification.relative);
      this.done = { ...found, contents: contentsPath(found.relative), page };
    } catch (error) {
      this.error = text(error);
    }
    [this.running, this.cancelling] = [false, false];
    if (this.error) void this.ask(this.error);
    this.changed.emit();
  }

  /** Asks the export that runs to end. */
  async cancel(): Promise<void> {
    if (!this.running || this.cancelling) return;
    this.cancelling = true;
    this.changed.emit();
    await this.around.link.ask("cancel_export", { job: this._job }).catch(() => undefined); // it has ended already
  }

  /** Packs what was written, beside the repository. */
  async zip(): Promise<void> {
    const { link, contentsPath } = this.around;
    try {
      const found = await link.ask("zip_export", { job: this._job });
      this.zipped = { ...found, contents: contentsPath(found.relative) };
      this.error = "";
    } catch (error) {
      this.error = text(error);
    }
    this.changed.emit();
  }

  private _receive(progress: Progress): void {
    if ("line" in progress) this.lines = [...this.lines, progress.line].slice(-LINES);
    else this.bytes = progress;
    this.changed.emit();
  }
}

function text(error: unknown): string {
  return error instanceof KernelError || error instanceof Error ? error.message : String(error);
}
