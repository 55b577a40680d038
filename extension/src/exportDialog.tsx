// The panel of *Export…*: where to and for which Triton, with what beside it, what pre-flight says of each choice, how
// far it is, and what was written and proved.
import { Dialog } from "@jupyterlab/apputils";
import { ReactWidget, UseSignal } from "@jupyterlab/ui-components";
import { ReactNode, useEffect, useState } from "react";

import { artifactsOf, Fields, findingsAt, Found, Place, PREFIX, stops } from "./exportOptions.js";
import { Around, Done, ExportTask } from "./exportTask.js";
import { Choices, Plan, Refusal } from "./protocol.js";
import { size } from "./views/text.js";

const TYPING_MS = 250;

/** Shows the panel; what was exported when it is closed, null if nothing was. */
export async function exportDialog(around: Around): Promise<Done | null> {
  const task = new ExportTask(around);
  await new ExportDialog(task).launch();
  return task.done;
}

class ExportDialog extends Dialog<void> {
  private _wasRunning = false;

  constructor(private readonly _task: ExportTask) {
    super({
      title: _task.around.models.length === 1 ? `Export ${_task.around.models[0]}` : "Export to repository",
      body: ReactWidget.create(<UseSignal signal={_task.changed}>{() => <Body task={_task} />}</UseSignal>),
      focusNodeSelector: "input",
      buttons: [Dialog.cancelButton({ label: "Cancel" }), Dialog.okButton({ label: "Export" })],
    });
    this.addClass("tritonlab-export");
    _task.changed.connect(this._label, this);
    window.addEventListener("keydown", this._onKey, true);
    this.disposed.connect(() => window.removeEventListener("keydown", this._onKey, true));
    void _task.begin();
  }

  /** A button, or Enter: the first press writes, and the panel stays to show what came of it. */
  override resolve(index?: number): void {
    if (index === 0 && this._task.running) void this._task.cancel();
    else if (index === 0 || this._task.done) super.resolve(0);
    else void this._task.run();
  }

  /** Escape, or a click beside it: what runs is cancelled first, and its end is shown. */
  override reject(): void {
    if (this._task.running) void this._task.cancel();
    else super.reject();
  }

  /** JupyterLab enables its buttons at every input, as the form is valid. */
  override handleEvent(event: Event): void {
    super.handleEvent(event);
    if (event.type === "input") this._label();
  }

  /** JupyterLab's dialog hears the keys within it alone; once the control with the focus is gone, they go to the page. */
  private readonly _onKey = (event: KeyboardEvent): void => {
    if (event.key === "Escape" && this.isAttached && !this.node.contains(event.target as Node)) this.handleEvent(event);
  };

  private _label(): void {
    const { done, running, cancelling, replaces, allowed } = this._task;
    const [cancel, accept] = this.node.querySelectorAll<HTMLButtonElement>(".jp-Dialog-footer .jp-Dialog-button");
    label(cancel, done ? "Close" : cancelling ? "Cancelling…" : running ? "Cancel the export" : "Cancel");
    label(accept, replaces ? "Replace, keep a backup" : "Export");
    accept.hidden = done !== null;
    accept.disabled = !allowed;
    accept.classList.toggle("jp-mod-warn", replaces);
    // the field or the button that had the focus is disabled or gone, and keys would go nowhere
    if (done || (running && !this._wasRunning)) cancel.focus();
    this._wasRunning = running;
  }
}

function label(button: HTMLButtonElement, words: string): void {
  const node = button.querySelector(".jp-Dialog-buttonLabel") ?? button;
  if (node.textContent !== words) node.textContent = words;
}

interface Part {
  task: ExportTask;
}

interface Chosen extends Part {
  fields: Fields;
  choices: Choices;
}

function Body({ task }: Part): JSX.Element {
  const { done, fields, choices } = task;
  if (done) return <Result task={task} done={done} />;
  if (task.running) return <Running task={task} />;
  return (
    <div className="tritonlab-form">
      {task.error && (
        <p className="tritonlab-error" role="alert">
          {task.error}
        </p>
      )}
      <div className="tritonlab-fields">
        <Directory task={task} />
        {task.around.models.length > 1 && <Models task={task} />}
        {fields && choices && <Options task={task} fields={fields} choices={choices} />}
      </div>
      {task.plan && <Plans task={task} />}
      {!task.plan && !task.error && <p className="tritonlab-dim">Looking at what is there…</p>}
      {task.fields && <Python task={task} />}
    </div>
  );
}

function Options(given: Chosen): JSX.Element {
  return (
    <>
      <Target {...given} />
      <Environments {...given} />
      <Deploy {...given} />
      <Capture {...given} />
      <Files {...given} />
      <Verify {...given} />
    </>
  );
}

/** A text that the task takes once nobody types; until then it does not export. */
function useTyped(
  task: ExportTask,
  shown: string,
  take: (typed: string) => void
): [string, (typed: string) => void] {
  const [typed, setTyped] = useState(shown);
  useEffect(() => {
    if (typed === shown) return undefined;
    task.setTyping(setTyped, true);
    const due = setTimeout(() => {
      task.setTyping(setTyped, false);
      take(typed);
    }, TYPING_MS);
    return () => {
      clearTimeout(due);
      task.setTyping(setTyped, false);
    };
  }, [typed]);
  useEffect(() => setTyped(shown), [shown]);
  return [typed, setTyped];
}

function Directory({ task }: Part): JSX.Element {
  const [typed, setTyped] = useTyped(task, task.directory, (directory) => task.moveTo(directory));
  return (
    <div className="tritonlab-field">
      <label>
        <span>Repository directory</span>
        <input
          className="jp-mod-styled"
          type="text"
          spellCheck={false}
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
      </label>
      <span className="tritonlab-dim">{typed === task.directory ? task.plan?.repository ?? " " : " "}</span>
      <Findings task={task} place="directory" />
    </div>
  );
}

function Models({ task }: Part): JSX.Element {
  return (
    <fieldset className="tritonlab-choice">
      <legend>Models</legend>
      {task.around.models.map((name) => (
        <Check key={name} checked={task.chosen.has(name)} toggle={() => task.toggleModel(name)}>
          {name}
        </Check>
      ))}
    </fieldset>
  );
}

function Check(given: { checked: boolean; toggle: () => void; children: ReactNode }): JSX.Element {
  return (
    <label className="tritonlab-check">
      <input type="checkbox" checked={given.checked} onChange={given.toggle} /> <span>{given.children}</span>
    </label>
  );
}

/** One choice: its name on the left, its controls, and below them what there is to know of it. */
function Option(given: { name: string; children: ReactNode; note?: ReactNode }): JSX.Element {
  return (
    <div className="tritonlab-option" role="group" aria-label={given.name}>
      <span aria-hidden="true">{given.name}</span>
      <div>{given.children}</div>
      <div className="tritonlab-note" aria-live="polite">
        {given.note}
      </div>
    </div>
  );
}

function Findings({ task, place }: Part & { place: Place }): JSX.Element | null {
  const found = findingsAt(place, task.plan?.models ?? []);
  const several = (task.plan?.models.length ?? 0) > 1;
  if (!found.length) return null;
  return (
    <ul className="tritonlab-findings">
      {found.map((one) => (
        <li key={one.model + one.row + one.sentence} data-row={one.row} data-stops={stops(one)}>
          {several && <b>{one.model}: </b>}
          <Prose text={several ? one.sentence : capitalised(one.sentence)} />
          <Source found={one} />. <span className="tritonlab-dim">Fix: <Prose text={one.remedy} />.</span>
        </li>
      ))}
    </ul>
  );
}

/** A sentence, with the words between backticks as code. */
function Prose({ text }: { text: string }): JSX.Element {
  return <>{text.split(/`([^`]+)`/).map((part, n) => (n % 2 ? <code key={n}>{part}</code> : part))}</>;
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function Source({ found }: { found: Found }): JSX.Element | null {
  return found.source_line ? <span className="tritonlab-dim"> ({found.source_line})</span> : null;
}

function Refused({ why }: { why?: Refusal }): JSX.Element | null {
  if (!why) return null;
  return (
    <p className="tritonlab-error" role="alert">
      <Prose text={why.text} />
      {why.fix && !why.is_place && !why.text.includes(why.fix) && <>: <Prose text={why.fix} /></>}.
    </p>
  );
}

function Target({ task, fields, choices }: Chosen): JSX.Element {
  const notes = [...new Set((task.plan?.models ?? []).flatMap((one) => one.notes))];
  const note = (
    <>
      <Findings task={task} place="target" />
      {notes.map((note) => (
        <p key={note} className="tritonlab-dim">
          <Prose text={capitalised(note)} />.
        </p>
      ))}
    </>
  );
  return (
    <Option name="Target" note={note}>
      <select
        className="jp-mod-styled"
        aria-label="Target"
        value={fields.target}
        onChange={(event) => task.choose({ target: event.target.value })}
      >
        {choices.targets.map((one) => (
          <option key={one.name} value={one.name}>
            {one.text}
            {one.started ? "" : ", by its table only"}
          </option>
        ))}
      </select>
    </Option>
  );
}

const ENVIRONMENTS: Record<string, string> = {
  none: "None: the Python of the target",
  requirements: "A lock of pinned packages, for an image",
  dir: "A relocatable directory in each model",
  archive: "A relocatable archive in each model",
  [PREFIX]: "My own prefix (conda, or a whole Python)",
};

function Environments({ task, fields, choices }: Chosen): JSX.Element {
  const [typed, setTyped] = useTyped(task, fields.prefix, (prefix) => task.choose({ prefix }));
  const found = task.plan?.environment;
  const kinds = ["none", ...choices.environments.filter((one) => one !== "none"), PREFIX];
  const note = (
    <>
      {found?.text && (
        <p>
          {found.text}.{found.packages.length > 0 && <span className="tritonlab-dim"> {found.packages.join(", ")}</span>}
        </p>
      )}
      {found?.warnings.map((warning) => (
        <p key={warning} className="tritonlab-warning">
          <Prose text={warning} />.
        </p>
      ))}
      <Refused why={task.plan?.refused.env} />
      <Findings task={task} place="environment" />
    </>
  );
  return (
    <Option name="Environment" note={note}>
      <select
        className="jp-mod-styled"
        aria-label="Environment"
        value={fields.env}
        onChange={(event) => task.choose({ env: event.target.value })}
      >
        {kinds.map((kind) => (
          <option key={kind} value={kind}>
            {ENVIRONMENTS[kind] ?? kind}
          </option>
        ))}
      </select>
      {fields.env === PREFIX && (
        <input
          className="jp-mod-styled"
          type="text"
          aria-label="Path of the prefix"
          placeholder="/path/of/the/prefix"
          spellCheck={false}
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
      )}
    </Option>
  );
}

const KINDS: Record<string, string> = { docker: "Docker and compose", k8s: "Kubernetes", kserve: "KServe", ray: "Ray Serve" };

function Deploy({ task, fields, choices }: Chosen): JSX.Element {
  const toggle = (kind: string): void => {
    const others = fields.deploy.filter((one) => one !== kind);
    task.choose({ deploy: others.length < fields.deploy.length ? others : [...fields.deploy, kind] });
  };
  const why = task.plan?.refused.deploy;
  const note = (
    <>
      <Refused why={why} />
      {why?.is_place && (
        <button type="button" className="tritonlab-button" onClick={() => task.moveTo(why.fix)}>
          Export to {why.fix}
        </button>
      )}
    </>
  );
  return (
    <Option name="Deploy files" note={note}>
      {choices.kinds.map((kind) => (
        <Check key={kind} checked={fields.deploy.includes(kind)} toggle={() => toggle(kind)}>
          {KINDS[kind] ?? kind}
        </Check>
      ))}
    </Option>
  );
}

function Capture({ task, fields }: Chosen): JSX.Element {
  const written = (task.plan?.models ?? []).filter((one) => one.captured.length);
  const note = (
    <>
      {written.map((one) => (
        <p key={one.name}>
          Written in front of {one.name}: {one.captured.join(", ")}. It is loaded again.
        </p>
      ))}
      <Refused why={task.plan?.refused.capture} />
      <Findings task={task} place="capture" />
    </>
  );
  return (
    <Option name="Other cells" note={note}>
      <Check checked={fields.capture} toggle={() => task.choose({ capture: !fields.capture })}>
        Write what other cells define, and a model uses, in front of it
      </Check>
    </Option>
  );
}

function Files({ task, fields }: Chosen): JSX.Element {
  const [typed, setTyped] = useTyped(task, fields.artifacts, (artifacts) => task.choose({ artifacts }));
  const lines = artifactsOf(typed);
  const plans = task.plan?.models ?? [];
  const left = new Map(plans.flatMap((one) => one.left_out).map((one) => [one.path, one]));
  const toggle = (path: string): void => {
    const others = fields.include.filter((one) => one !== path);
    task.choose({ include: others.length < fields.include.length ? others : [...fields.include, path] });
  };
  const note = (
    <>
      {lines.problem && (
        <p className="tritonlab-error" role="alert">
          {lines.problem}
        </p>
      )}
      {!lines.problem &&
        task.plan?.artifacts.map((one) => (
          <p key={one.file} className={one.problem ? "tritonlab-error" : ""} role={one.problem ? "alert" : undefined}>
            {one.file}: {one.problem || (one.bytes === null ? "its size is known once it is written" : size(one.bytes))}
          </p>
        ))}
      <Findings task={task} place="files" />
    </>
  );
  return (
    <Option name="Files" note={note}>
      {[...left.values()].map((one) => (
        <Check key={one.path} checked={fields.include.includes(one.path)} toggle={() => toggle(one.path)}>
          Also {one.path}, which is {one.bytes === null ? one.why : `large: ${size(one.bytes)}`}
        </Check>
      ))}
      <details>
        <summary>Keep values of the notebook as files beside model.py</summary>
        <textarea
          className="jp-mod-styled"
          aria-label="Values of the notebook as files, one on a line"
          placeholder="weights.npy = weights"
          spellCheck={false}
          rows={2}
          value={typed}
          onKeyDown={(event) => event.key === "Enter" && event.stopPropagation()}
          onChange={(event) => setTyped(event.target.value)}
        />
      </details>
    </Option>
  );
}

function Verify({ task, fields }: Chosen): JSX.Element {
  const [typed, setTyped] = useTyped(task, fields.releases, (releases) => task.choose({ releases }));
  const requests = task.plan?.requests;
  const note = (
    <>
      {requests && <p>Requests: {requests.text}.</p>}
      {requests?.problem && <p className="tritonlab-warning"><Prose text={capitalised(requests.problem)} />.</p>}
      {task.plan?.verify.map((one) => (
        <p key={one.release} className={one.problem ? "tritonlab-warning" : ""}>
          <Prose text={one.problem ? `${one.release}: ${one.problem}` : one.text} />.
        </p>
      ))}
    </>
  );
  return (
    <Option name="Proof" note={note}>
      <Check checked={fields.verify} toggle={() => task.choose({ verify: !fields.verify })}>
        Start real Triton servers on a copy, and compare their answers
      </Check>
      {fields.verify && (
        <input
          className="jp-mod-styled"
          type="text"
          aria-label="Releases of Triton, such as 2.51, 2.41"
          spellCheck={false}
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
      )}
      {fields.verify && requests && requests.kept > 0 && (
        <label className="tritonlab-check">
          <span>Last requests of each model to send:</span>{" "}
          <select
            className="jp-mod-styled"
            value={Math.min(fields.last ?? requests.kept, requests.kept)}
            onChange={(event) => task.choose({ last: lastOf(Number(event.target.value), requests.kept) })}
          >
            {[...Array(requests.kept + 1).keys()].reverse().map((count) => (
              <option key={count} value={count}>
                {count === requests.kept ? `all ${count}` : count || "none"}
              </option>
            ))}
          </select>
        </label>
      )}
    </Option>
  );
}

/** What is chosen: a number, or null for all that are kept. */
function lastOf(count: number, kept: number): number | null {
  return count === kept ? null : count;
}

function Plans({ task }: Part): JSX.Element {
  const plan = task.plan!;
  const { beside } = plan;
  return (
    <div className="tritonlab-plans" aria-busy={task.looking}>
      {plan.models.map((one) => (
        <section key={one.name} className="tritonlab-plan">
          <h3>
            {one.name} <span className="tritonlab-dim">{verdict(one)}</span>
          </h3>
          <Changes of={one} />
          {one.warnings.map((warning) => (
            <p key={warning} className="tritonlab-warning">
              <Prose text={warning} />.
            </p>
          ))}
        </section>
      ))}
      {beside && (
        <section className="tritonlab-plan">
          <h3>
            Beside it <span className="tritonlab-dim">in {beside.path}</span>
          </h3>
          <Changes of={{ ...beside, removed: [] }} />
        </section>
      )}
      {plan.bytes > 0 && <p className="tritonlab-dim">The models have {size(plan.bytes)} in all.</p>}
    </div>
  );
}

function Changes({ of }: { of: Pick<Plan, "added" | "changed" | "removed"> }): JSX.Element {
  return (
    <ul>
      {(["added", "changed", "removed"] as const).flatMap((kind) =>
        of[kind].map((file) => (
          <li key={kind + file} data-kind={kind}>
            <span className="tritonlab-verb">{VERBS[kind]}</span> {file}
          </li>
        )),
      )}
    </ul>
  );
}

const VERBS = { added: "add", changed: "change", removed: "remove" };

function verdict(plan: Plan): string {
  const why = plan.needed_by ? `, which ${plan.needed_by} needs` : "";
  if (!plan.exists) return `is new${why}`;
  if (!plan.differs) return `is up to date${why}`;
  return `is there and differs${why}; the former directory is kept as a backup`;
}

function Python({ task }: Part): JSX.Element {
  return (
    <details className="tritonlab-python">
      <summary>The same in Python</summary>
      <Command title="" line={task.python} />
    </details>
  );
}

function Running({ task }: Part): JSX.Element {
  const { bytes, lines, cancelling } = task;
  const now = cancelling ? "Cancelling…" : lines.at(-1)?.trim() || `Writing ${task.names.join(", ")}`;
  const done = bytes && bytes.done < bytes.total && !lines.length ? bytes.done / bytes.total : undefined;
  return (
    <div className="tritonlab-form tritonlab-field">
      <p className="tritonlab-dim">
        {task.names.join(", ")} to {task.plan?.repository ?? task.directory}
      </p>
      <label>
        <span className="tritonlab-now" aria-live="polite">
          {now}
        </span>
        <progress max={1} value={done} />
      </label>
      {bytes && (
        <span className="tritonlab-dim">
          {size(bytes.done)} of {size(bytes.total)} copied
        </span>
      )}
      {lines.length > 1 && <pre className="tritonlab-command tritonlab-steps">{lines.join("\n")}</pre>}
    </div>
  );
}

function Result({ task, done }: Part & { done: Done }): JSX.Element {
  const { models, verification } = done;
  const warnings = models.flatMap((one) => one.warnings.map((each) => (models.length > 1 ? `${one.name}: ${each}` : each)));
  return (
    <div className="tritonlab-form" role="status">
      <p>
        {models.length === 1 ? "Written to " : `${models.length} models written to `}
        <Place task={task} contents={done.contents} path={done.repository} />
      </p>
      {verification && <Verdict task={task} done={done} />}
      <pre className="tritonlab-tree" tabIndex={0} aria-label="What was written">
        {done.tree}
      </pre>
      <Zip task={task} />
      {done.environment?.text && <p>Environment: {done.environment.text}.</p>}
      {models
        .filter((one) => one.backup)
        .map((one) => (
          <p key={one.name}>
            The former {one.name} is now {one.backup}
          </p>
        ))}
      {[...warnings, ...(done.environment?.warnings ?? [])].map((warning) => (
        <p key={warning} className="tritonlab-warning">
          <Prose text={warning} />.
        </p>
      ))}
      <Command title="Serve it with Triton:" line={done.commands[0]} />
      <Command title="or here:" line={done.commands[1]} />
      <Command title="The same in Python:" line={task.python} />
    </div>
  );
}

function Zip({ task }: Part): JSX.Element {
  const { zipped, error } = task;
  if (error) return <p className="tritonlab-error">{error}</p>;
  if (!zipped) {
    return (
      <div>
        <button type="button" className="tritonlab-button" onClick={() => void task.zip()}>
          Zip
        </button>
      </div>
    );
  }
  const name = zipped.path.slice(zipped.path.lastIndexOf("/") + 1);
  const url = zipped.contents === null ? null : task.around.downloadUrl(zipped.contents);
  return (
    <p>
      {url === null ? <code>{zipped.path}</code> : <a href={url} download={name}>{zipped.path}</a>} ({size(zipped.bytes)})
    </p>
  );
}

function Place({ task, contents, path }: Part & { contents: string | null; path: string }): JSX.Element {
  if (contents === null) return <code>{path}</code>;
  return (
    <a href="#" onClick={(event) => (event.preventDefault(), task.around.open(contents))}>
      {path}
    </a>
  );
}

function Verdict({ task, done }: Part & { done: Done }): JSX.Element {
  const found = done.verification!;
  return (
    <section className="tritonlab-verdict" data-passed={found.passed}>
      <h3>{found.passed ? "Proved on real Triton" : "Not proved on real Triton"}</h3>
      <ul>
        {found.verified.map((one) => (
          <li key={one.triton} data-passed={one.passed}>
            <span aria-hidden="true">{one.passed ? "✓" : one.verified ? "✗" : "–"}</span> {one.triton}: {one.verdict}
          </li>
        ))}
        {found.not_verified
          .filter((each) => !found.verified.some((one) => each.startsWith(`Triton ${one.triton}:`)))
          .map((each) => (
            <li key={each}>
              <span aria-hidden="true">–</span> not proved: {each}
            </li>
          ))}
      </ul>
      <p>
        The page to send: <Place task={task} contents={done.page} path={found.page} />
      </p>
    </section>
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
      <pre className="tritonlab-command" tabIndex={0}>
        {line}
      </pre>
    </div>
  );
}
