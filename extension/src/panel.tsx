// The panel: all that happens in the current notebook's server, and the buttons to change it.
import { bugIcon, downloadIcon, LabIcon, ReactWidget, refreshIcon, stopIcon, UseSignal } from "@jupyterlab/ui-components";
import { ISignal, Signal } from "@lumino/signaling";

import { modelOf } from "./cells.js";
import { ejectIcon } from "./icons.js";
import { KernelError, KernelLink } from "./link.js";
import { cellTexts, KernelLinks } from "./links.js";
import { Calls, Log, ModelNow, Overview, RequestNow } from "./protocol.js";
import { duration, seconds, short } from "./views/text.js";

/** The id of the panel. */
export const PANEL = "tritonlab-panel";
const PACE_MS = 1000;
const LEVELS = { VERBOSE: "all", INFO: "info", WARNING: "warnings", ERROR: "errors" };

/** What the panel's buttons have the rest of JupyterLab do. */
export interface Around {
  exportModel: (name: string) => void;
  breakHere: (name: string) => void;
  loadExtension: () => void;
}

/** The last overview of the current notebook's kernel; it asks again and again while somebody looks. */
class PanelModel {
  overview: Overview | null = null;
  log: Log | null = null;
  /** why a button failed, until the next one, or until the model that it was for serves again */
  problem = "";
  private _problemOf: { name: string; state?: string } | null = null;
  shown = { model: "", level: "VERBOSE", search: "" };
  readonly changed = new Signal<this, void>(this);
  private _link: KernelLink | null = null;
  private _due = 0;
  private _watching = false;
  private _asking = false;

  constructor(readonly links: KernelLinks) {
    links.changed.connect(() => {
      if (links.current !== this._link) [this.overview, this.log, this._link] = [null, null, links.current];
      this.changed.emit();
      if (this._watching) void this.look();
    });
  }

  get link(): KernelLink | null {
    return this.links.current;
  }

  watch(watching: boolean): void {
    this._watching = watching;
    window.clearTimeout(this._due);
    if (watching) void this.look();
  }

  /** Asks once, and soon again; one question at a time, so that a slow kernel is not asked more than it answers. */
  async look(): Promise<void> {
    window.clearTimeout(this._due);
    if (this._asking) return;
    this._asking = true;
    const link = this.link;
    try {
      if (link?.state === "open") {
        const [overview, log] = await Promise.all([link.ask("overview", {}), link.ask("logs", this.shown)]);
        if (link === this.link) [this.overview, this.log] = [overview, log];
        this._forget(overview);
      } else {
        [this.overview, this.log] = [null, null];
      }
    } catch (error) {
      if (!(error instanceof KernelError)) throw error;
      this.overview = null; // the kernel went; its status tells of the next one
    } finally {
      this._asking = false;
    }
    this.changed.emit();
    if (this._watching) this._due = window.setTimeout(() => void this.look(), PACE_MS);
  }

  /** Have the kernel do something; a failure is shown in the panel. */
  async press<K extends keyof Calls>(call: K, given: Calls[K]["with"]): Promise<void> {
    [this.problem, this._problemOf] = ["", null];
    const link = this.link;
    try {
      // without subshells (ipykernel 6) the kernel would hear of it after the load
      if (call === "stop" && link && !link.kernel.supportsSubshells) await link.kernel.interrupt();
      else await link?.ask(call, given);
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
      if ("name" in given) this._problemOf = { name: given.name };
    }
    await this.look();
  }

  /** Takes the error of a button away once its model serves, as it did not when the error came. */
  private _forget(overview: Overview): void {
    const state = overview.models.find(({ name }) => name === this._problemOf?.name)?.state;
    if (!this._problemOf || state === undefined) return;
    if (this._problemOf.state === undefined) this._problemOf.state = state;
    else if (state !== this._problemOf.state && state === "READY") [this.problem, this._problemOf] = ["", null];
  }

  show(shown: Partial<PanelModel["shown"]>): void {
    Object.assign(this.shown, shown);
    this.changed.emit();
    void this.look();
  }
}

/** The widget for JupyterLab's left side. */
export class TritonPanel extends ReactWidget {
  private readonly _model: PanelModel;

  constructor(
    links: KernelLinks,
    private readonly _around: Around,
    icon: LabIcon,
  ) {
    super();
    this._model = new PanelModel(links);
    this.id = PANEL;
    this.title.icon = icon;
    this.title.caption = "Triton models";
    this.addClass("tritonlab-panel");
    this.node.setAttribute("role", "region");
    this.node.setAttribute("aria-label", "Triton models");
    this.node.tabIndex = -1;
    keepFocus(this.node, this._model.changed);
  }

  protected override onActivateRequest(): void {
    this.node.focus();
  }

  protected override onAfterShow(): void {
    this._model.watch(true);
  }

  protected override onAfterHide(): void {
    this._model.watch(false);
  }

  render(): JSX.Element {
    return <UseSignal signal={this._model.changed}>{() => <Content model={this._model} around={this._around} />}</UseSignal>;
  }
}

/** Keeps the focus in the panel when the button that had it goes, such as Unload once the model is unloaded: it goes to
 * the first one of the same model. */
function keepFocus(panel: HTMLElement, changed: ISignal<unknown, void>): void {
  let within: string | null = null;
  panel.addEventListener("focusin", (event) => {
    within = (event.target as HTMLElement).closest<HTMLElement>("[data-model]")?.dataset.model ?? "";
  });
  panel.addEventListener("focusout", (event) => {
    const left = event.target as HTMLElement;
    window.setTimeout(() => left.isConnected && !panel.contains(document.activeElement) && (within = null));
  });
  changed.connect(() =>
    window.requestAnimationFrame(() => {
      if (within === null || document.activeElement !== document.body) return;
      const model = [...panel.querySelectorAll<HTMLElement>("[data-model]")].find((one) => one.dataset.model === within);
      ((model ?? panel).querySelector<HTMLElement>("button, summary") ?? panel).focus();
    }),
  );
}

function Content({ model, around }: { model: PanelModel; around: Around }): JSX.Element {
  const { link, overview } = model;
  if (!link) return <Hint>Open a notebook: its Triton models are shown here.</Hint>;
  if (link.state === "foreign") return <Hint>This extension does not understand tritonlab {link.version}.</Hint>;
  if (link.state !== "open") {
    return (
      <Hint>
        This notebook&apos;s kernel has not loaded tritonlab.
        <button type="button" className="tritonlab-button" onClick={around.loadExtension}>
          %load_ext tritonlab
        </button>
      </Hint>
    );
  }
  if (!overview) return <Hint>Asking the kernel…</Hint>;
  return (
    <>
      {model.problem && (
        <p className="tritonlab-error" role="alert">
          {model.problem}
        </p>
      )}
      <h2>Models</h2>
      {overview.models.length === 0 && <p className="tritonlab-dim">None yet: run a %%triton_model cell.</p>}
      {overview.models.map((one) => (
        <ModelRow key={one.name} one={one} model={model} around={around} />
      ))}
      {overview.draining.map((one) => (
        <div key={one.text} className="tritonlab-row">
          <p className="tritonlab-warning">{one.text}</p>
          <Button label={`Kill the old processes of ${one.name}`} icon={stopIcon} press={() => model.press("kill", { name: one.name })} />
        </div>
      ))}
      <h2>
        Requests in flight <span className="tritonlab-dim">{overview.requests.length + overview.more}</span>
      </h2>
      <ul>
        {overview.requests.map((one) => (
          <RequestRow key={one.serial} one={one} model={model} />
        ))}
      </ul>
      {overview.more > 0 && <p className="tritonlab-dim">and {overview.more} younger ones</p>}
      <LogView model={model} />
      <h2>Server</h2>
      <div className="tritonlab-small">
        {overview.memory.split("\n").map((line) => (
          <p key={line}>{line}</p>
        ))}
        {overview.gpus && <p>{overview.gpus}</p>}
        <p>{ports(overview.ports)}</p>
      </div>
    </>
  );
}

function Hint({ children }: { children: React.ReactNode }): JSX.Element {
  return <div className="tritonlab-hint">{children}</div>;
}

function ModelRow({ one, model, around }: { one: ModelNow; model: PanelModel; around: Around }): JSX.Element {
  const { name } = one;
  const serves = one.state === "READY" || one.state === "NOT READY";
  const does = (call: "load" | "unload" | "stop") => () => model.press(call, { name });
  const notebook = model.links.tracker.currentWidget;
  const isOfCell = notebook !== null && cellTexts(notebook).some((text) => modelOf(text) === name);
  return (
    <section className="tritonlab-model" data-model={name} data-state={one.state}>
      <div className="tritonlab-row">
        <h3 title={name}>{name}</h3>
        <div className="tritonlab-row">
          <span className="tritonlab-state">{state(one)}</span>
          {one.state === "LOADING" ? (
            <Button label={`Stop loading ${name}`} icon={stopIcon} press={does("stop")} />
          ) : (
            <Button label={`${serves ? "Reload" : "Load"} ${name}`} icon={refreshIcon} press={does("load")} />
          )}
          {isOfCell && <Button label={`Break ${name} at the line with the cursor, or no longer`} icon={bugIcon} press={() => around.breakHere(name)} />}
          {serves && <Button label={`Export ${name} to a repository…`} icon={downloadIcon} press={() => around.exportModel(name)} />}
          {serves && <Button label={`Unload ${name}`} icon={ejectIcon} press={does("unload")} />}
        </div>
      </div>
      {one.reason && <p className="tritonlab-reason">{one.reason.split("\n")[0]}</p>}
      {serves && <p className="tritonlab-small">{traffic(one)}</p>}
      {serves && one.instances.length > 0 && ( // an ensemble has none
        <details>
          <summary>{one.instances.length === 1 ? "1 instance" : `${one.instances.length} instances`}</summary>
          <ul>
            {one.instances.map((each, number) => (
              <li key={number}>
                {each.name} <span className="tritonlab-dim">{instance(each)}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function RequestRow({ one, model }: { one: RequestNow; model: PanelModel }): JSX.Element {
  const name = one.request_id || `#${one.serial}`;
  const by = one.called_by ? `, called by ${one.called_by}` : "";
  return (
    <li className="tritonlab-row" data-serial={one.serial}>
      <span className="tritonlab-long" title={`${one.model} ${name}`}>
        {one.model} {name}
      </span>
      <span className="tritonlab-dim tritonlab-state">
        {one.state} {seconds(one.age)}
        {by}
      </span>
      {one.ends === "" && (
        <Button label={`Cancel request ${name} of ${one.model}`} icon={stopIcon} press={() => model.press("cancel", { serial: one.serial })} />
      )}
      {one.ends !== "" && (
        <p className="tritonlab-warning">
          {one.ends}
          <button type="button" className="tritonlab-button" onClick={() => void model.press("kill", { name: one.model })}>
            Kill the process of {one.model}
          </button>
        </p>
      )}
    </li>
  );
}

function LogView({ model }: { model: PanelModel }): JSX.Element {
  const { shown, log, overview } = model;
  return (
    <>
      <h2>Log</h2>
      <div className="tritonlab-row tritonlab-filter">
        <select aria-label="Model" value={shown.model} onChange={(event) => model.show({ model: event.target.value })}>
          <option value="">all models</option>
          {overview?.models.map(({ name }) => <option key={name}>{name}</option>)}
        </select>
        <select aria-label="Level" value={shown.level} onChange={(event) => model.show({ level: event.target.value })}>
          {Object.entries(LEVELS).map(([level, words]) => (
            <option key={level} value={level}>
              {words}
            </option>
          ))}
        </select>
        <input
          type="search"
          aria-label="Search the log"
          placeholder="search"
          value={shown.search}
          onChange={(event) => model.show({ search: event.target.value })}
        />
      </div>
      <div className="tritonlab-log" role="log" tabIndex={0} aria-label="Log lines">
        <div>
          {log?.lines.map((line, index) => (
            <div key={log.count - log.lines.length + index} data-level={line.level}>
              <span className="tritonlab-dim">
                {line.time} {line.instance || line.model}
              </span>{" "}
              {line.text}
            </div>
          ))}
          {log?.count === 0 && <span className="tritonlab-dim">no lines</span>}
        </div>
      </div>
    </>
  );
}

function Button({ label, icon, press }: { label: string; icon: LabIcon; press: () => unknown }): JSX.Element {
  return (
    <button type="button" className="tritonlab-icon" title={label} aria-label={label} onClick={() => void press()}>
      <icon.react tag="span" width="14px" height="14px" />
    </button>
  );
}

function state(one: ModelNow): string {
  return one.loading === null ? one.state : `${one.state} ${seconds(one.loading)}`;
}

function traffic(one: ModelNow): string {
  const failed = one.failed ? `, ${one.failed} failed` : "";
  const total = `version ${one.version} · ${one.answered.toLocaleString("en")} answered${failed}`;
  if (one.p50_ms === null || one.p99_ms === null) return `${total} · none in the last 10 s`;
  return `${total} · ${short(one.rate)}/s · p50 ${duration(one.p50_ms * 1e6)} · p99 ${duration(one.p99_ms * 1e6)}`;
}

function instance(each: ModelNow["instances"][number]): string {
  const restarts = each.restarts ? `, restarted ${each.restarts} times` : "";
  const place = each.kind === "GPU" ? `, ${each.place}` : "";
  const holds = each.holds && `, holds ${each.holds}`;
  return `${each.state}${place}${holds}${each.pid ? `, process ${each.pid}` : ""}${restarts}${each.failure ? `: ${each.failure}` : ""}`;
}

function ports(open: Record<string, string>): string {
  const places = Object.entries(open).map(([name, place]) => `${name} ${place}`);
  return places.length ? `open ports: ${places.join(", ")}` : "no open ports: %triton serve lets other clients in";
}
