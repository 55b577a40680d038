// The dialog of *Export to repository*: where to, what that would change, how far it is, and what was written.
import { Dialog } from "@jupyterlab/apputils";
import { ReactWidget, UseSignal } from "@jupyterlab/ui-components";
import { Signal } from "@lumino/signaling";
import { useEffect, useState } from "react";

import { KernelError, KernelLink } from "./link.js";
import { modelsOf, treeOf } from "./exported.js";
import { Exported, Plan } from "./protocol.js";

const TYPING_MS = 250;

/** What an export did, and where its repository is in JupyterLab's own files; null if it is not below them. */
export interface Done extends Exported {
  contents: string | null;
}

/** What the dialog works with. `models`: those to export. `contentsPath`: where the kernel's relative path is. */
interface Task {
  link: KernelLink;
  models: string[];
  directory: string;
  contentsPath: (relative: string) => string | null;
  open: (contents: string) => void;
}

/** The state of one dialog; its widget draws it. */
class Export {
  directory: string;
  chosen: Set<string>;
  plan: { directory: string; models: Plan[] } | null = null;
  error = "";
  running = "";
  count = 0;
  done: Done[] = [];
  readonly changed = new Signal<this, void>(this);
  private _asked = 0;

  constructor(readonly task: Task) {
    this.directory = task.directory;
    this.chosen = new Set(task.models);
  }

  get names(): string[] {
    return this.task.models.filter((name) => this.chosen.has(name));
  }

  /** Whether something that is there would be replaced. */
  get replaces(): boolean {
    return this.plan?.models.some((one) => one.exists && one.differs) ?? false;
  }

  get finished(): boolean {
    return this.done.length > 0 && !this.running;
  }

  /** Asks what the export would do; of several answers the one to the last question counts. `failed`: why the last
   *  export failed, which stays to be read. */
  async ask(failed = ""): Promise<void> {
    const asked = ++this._asked;
    try {
      const plan = await this.task.link.ask("plan", { models: this.names, directory: this.directory });
      if (asked === this._asked) [this.plan, this.error] = [plan, failed];
    } catch (error) {
      if (asked === this._asked) [this.plan, this.error] = [null, text(error)];
    }
    this.changed.emit();
  }

  /** Writes the models one after the other, over what the plan has shown. */
  async run(): Promise<void> {
    if (this.running || !this.plan || !this.names.length) return;
    const overwrite = this.replaces;
    this.error = "";
    this.done = [];
    try {
      for (const [index, model] of this.names.entries()) {
        [this.running, this.count] = [model, index];
        this.changed.emit();
        const result = await this.task.link.ask("export", { model, directory: this.directory, overwrite });
        this.done.push({ ...result, contents: this.task.contentsPath(result.relative) });
      }
    } catch (error) {
      this.error = text(error);
    }
    this.running = "";
    if (this.error) void this.ask(this.error);
    this.changed.emit();
  }
}

/** Shows the dialog; what was exported when it is closed. */
export async function exportDialog(task: Task): Promise<Done[]> {
  const state = new Export(task);
  const dialog = new ExportDialog(state);
  await dialog.launch();
  return state.done;
}

class ExportDialog extends Dialog<void> {
  constructor(private readonly _state: Export) {
    super({
      title: _state.task.models.length === 1 ? `Export ${_state.task.models[0]}` : "Export to repository",
      body: ReactWidget.create(<UseSignal signal={_state.changed}>{() => <Body state={_state} />}</UseSignal>),
      focusNodeSelector: "input",
      buttons: [Dialog.cancelButton({ label: "Cancel" }), Dialog.okButton({ label: "Export" })],
    });
    this.addClass("tritonlab-export");
    _state.changed.connect(this._label, this);
    void _state.ask();
  }

  /** A button, or Enter: the first press writes, and the dialog stays to show what came of it. */
  override resolve(index?: number): void {
    if (index === 0 || this._state.finished) super.resolve(0);
    else void this._state.run();
  }

  private _label(): void {
    const { finished, plan, running, names } = this._state;
    const [cancel, accept] = this.node.querySelectorAll<HTMLButtonElement>(".jp-Dialog-footer .jp-Dialog-button");
    label(cancel, finished ? "Close" : "Cancel");
    label(accept, this._state.replaces ? "Replace, keep a backup" : "Export");
    accept.hidden = finished;
    accept.disabled = !plan || !names.length || running !== "";
    accept.classList.toggle("jp-mod-warn", this._state.replaces);
    if (finished) cancel.focus();
  }
}

function label(button: HTMLButtonElement, words: string): void {
  const node = button.querySelector(".jp-Dialog-buttonLabel") ?? button;
  if (node.textContent !== words) node.textContent = words;
}

function text(error: unknown): string {
  return error instanceof KernelError || error instanceof Error ? error.message : String(error);
}

function Body({ state }: { state: Export }): JSX.Element {
  if (state.finished && !state.error) return <Result state={state} />;
  return (
    <div className="tritonlab-form">
      <Directory state={state} />
      {state.task.models.length > 1 && <Choice state={state} />}
      {state.plan && <Plans plan={state.plan} />}
      {!state.plan && !state.error && <p className="tritonlab-dim">Looking at what is there…</p>}
      {state.running && <Progress state={state} />}
      {state.error && (
        <p className="tritonlab-error" role="alert">
          {state.error}
        </p>
      )}
    </div>
  );
}

function Directory({ state }: { state: Export }): JSX.Element {
  const [typed, setTyped] = useState(state.directory);
  useEffect(() => {
    if (typed === state.directory) return undefined;
    const due = setTimeout(() => {
      state.directory = typed;
      void state.ask();
    }, TYPING_MS);
    return () => clearTimeout(due);
  }, [typed, state]);
  return (
    <label className="tritonlab-field">
      <span>Repository directory</span>
      <input
        className="jp-mod-styled"
        type="text"
        spellCheck={false}
        disabled={state.running !== ""}
        value={typed}
        onChange={(event) => {
          state.plan = null;
          state.changed.emit();
          setTyped(event.target.value);
        }}
      />
      <span className="tritonlab-dim">{state.plan?.directory ?? " "}</span>
    </label>
  );
}

function Choice({ state }: { state: Export }): JSX.Element {
  const toggle = (name: string): void => {
    if (!state.chosen.delete(name)) state.chosen.add(name);
    state.changed.emit();
    void state.ask();
  };
  return (
    <fieldset className="tritonlab-choice">
      <legend>Models</legend>
      {state.task.models.map((name) => (
        <label key={name}>
          <input type="checkbox" checked={state.chosen.has(name)} onChange={() => toggle(name)} /> {name}
        </label>
      ))}
    </fieldset>
  );
}

function Plans({ plan }: { plan: { models: Plan[] } }): JSX.Element {
  return (
    <>
      {plan.models.map((one) => (
        <section key={one.name} className="tritonlab-plan">
          <h3>
            {one.name} <span className="tritonlab-dim">{verdict(one)}</span>
          </h3>
          <ul>
            {(["added", "changed", "removed"] as const).flatMap((kind) =>
              one[kind].map((file) => (
                <li key={kind + file} data-kind={kind}>
                  <span className="tritonlab-verb">{VERBS[kind]}</span> {file}
                </li>
              )),
            )}
          </ul>
          {one.warnings.map((warning) => (
            <p key={warning} className="tritonlab-warning">
              {warning}.
            </p>
          ))}
        </section>
      ))}
    </>
  );
}

const VERBS = { added: "add", changed: "change", removed: "remove" };

function verdict(plan: Plan): string {
  const why = plan.needed_by ? `, which ${plan.needed_by} needs` : "";
  if (!plan.exists) return `is new${why}`;
  if (!plan.differs) return `is up to date${why}`;
  return `is there and differs${why}; the former directory is kept as a backup`;
}

function Progress({ state }: { state: Export }): JSX.Element {
  const names = state.names;
  return (
    <label className="tritonlab-field">
      <span>
        Writing {state.running} ({state.count + 1} of {names.length})
      </span>
      <progress max={names.length} value={state.count} />
    </label>
  );
}

function Result({ state }: { state: Export }): JSX.Element {
  const last = state.done[state.done.length - 1];
  const { contents } = last;
  const models = modelsOf(state.done);
  return (
    <div className="tritonlab-form" role="status">
      <p>
        {state.done.length === 1 ? "Written to " : `${models.length} models written to `}
        {contents === null ? (
          <code>{last.repository}</code>
        ) : (
          <a href="#" onClick={(event) => (event.preventDefault(), state.task.open(contents))}>
            {last.repository}
          </a>
        )}
      </p>
      <pre className="tritonlab-tree">{[last.repository + "/", ...treeOf(state.done)].join("\n")}</pre>
      {models
        .filter((one) => one.backup)
        .map((one) => (
          <p key={one.name}>
            The former {one.name} is now {one.backup}
          </p>
        ))}
      {models
        .flatMap((one) => one.warnings)
        .map((warning) => (
          <p key={warning} className="tritonlab-warning">
            {warning}.
          </p>
        ))}
      <Command title="Serve it with Triton:" line={last.commands[0]} />
      <Command title="or here:" line={last.commands[1]} />
    </div>
  );
}

function Command({ title, line }: { title: string; line: string }): JSX.Element {
  return (
    <div>
      <p>
        {title}{" "}
        <button type="button" className="tritonlab-link" onClick={() => void navigator.clipboard?.writeText(line)}>
          copy
        </button>
      </p>
      <pre className="tritonlab-command">{line}</pre>
    </div>
  );
}
