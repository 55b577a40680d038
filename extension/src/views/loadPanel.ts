// A load test: the form that starts one, its progress with Stop, and its result (`views/load_panel.py`).
import { Cleanup, RenderContext } from "./anywidget.js";
import { add, addButton, drawState, element, send } from "./base.js";

interface FormFacts {
  /** what is recorded, or "" */
  arrivals: string;
  golden: string;
  /** the largest batch of a request, or 0 */
  batches: number;
  shapes: { name: string; dims: string }[];
}

interface State {
  title: string;
  form: FormFacts | null;
  running: boolean;
  problem: string;
  html: string;
}

interface Progress {
  kind: string;
  share: number;
  text: string;
  figures: [string, string][];
}

const MODES = { concurrency: "Clients at once", request_rate: "Requests per second", arrivals: "As recorded" };
const LEVELS: Partial<Record<string, string>> = { concurrency: "1, 2, 4, 8", request_rate: "100, 500" };

function render({ model, el }: RenderContext<State, Progress>): Cleanup {
  const box = add(el, "div", "tl-view tl-load");
  const form = add(box, "form", "tl-fields");
  const bar = add(box, "div", "tl-bar2");
  const start = addButton(bar, "Start", "offer the load and measure");
  const stop = addButton(bar, "Stop", "end the test now, and keep what was measured");
  const share = add(bar, "progress", "tl-progress");
  const progress = add(bar, "span", "tl-dim tl-clock");
  const figures = add(box, "div", "tl-figures");
  const problem = add(box, "div", "tl-note tl-bad-note tl-text");
  const result = add(box, "div");
  const fields = fill(form, model.get("state").form);
  problem.setAttribute("role", "alert");
  share.setAttribute("aria-label", `progress of the load test of ${model.get("state").title}`);
  share.max = 1;
  start.type = "submit";
  form.id = `tl-load-${model.get("view")}`;
  start.setAttribute("form", form.id);

  const draw = (): void => {
    const state = model.get("state");
    const { running } = state;
    box.dataset.state = running ? "running" : state.html ? "ended" : "ready";
    form.hidden = start.hidden = !state.form;
    start.disabled = running;
    for (const field of form.querySelectorAll<HTMLInputElement | HTMLSelectElement>("input, select")) field.disabled = running;
    stop.hidden = share.hidden = progress.hidden = figures.hidden = !running;
    if (!running) [stop.disabled, stop.textContent] = [false, "Stop"];
    problem.textContent = state.problem;
    problem.hidden = !state.problem;
    if (result.dataset.html !== state.html) result.innerHTML = result.dataset.html = state.html;
  };
  const onProgress = (message: Progress): void => {
    if (message.kind !== "progress") return;
    share.value = message.share;
    progress.textContent = message.text;
    box.dataset.looks = String(1 + Number(box.dataset.looks ?? 0));
    figures.replaceChildren(...message.figures.map(([name, value]) => figure(name, value)));
  };
  form.onsubmit = (event) => {
    event.preventDefault();
    if (!start.disabled) void send(model, { do: "start", ...fields() });
  };
  // Enter in a field must not run the cell, nor other keys be JupyterLab's commands
  form.onkeydown = (event) => event.stopPropagation();
  stop.onclick = async () => {
    [stop.disabled, stop.textContent] = [true, "Stopping…"];
    const kernel = model.widget_manager?.kernel;
    // such a kernel would read a message only after the cell that waits has ended
    if (kernel && !kernel.supportsSubshells && !model.get("state").form) await kernel.interrupt();
    else await send(model, { do: "stop" });
  };
  const end = drawState(model, el, draw);
  model.on("msg:custom", onProgress);
  return () => {
    model.off("msg:custom", onProgress);
    end();
  };
}

function figure(name: string, value: string): HTMLElement {
  const box = element("div");
  add(box, "div", "tl-figure", value);
  add(box, "div", "tl-dim", name);
  return box;
}

/** Makes the fields; returns the function that reads them. */
function fill(form: HTMLFormElement, facts: FormFacts | null): () => object {
  if (!facts) return () => ({});
  const labelled = (text: string): HTMLElement => add(form, "label", "", `${text} `);
  const choice = (text: string, options: [string, string][]): HTMLSelectElement => {
    const select = add(labelled(text), "select");
    for (const [value, name] of options) add(select, "option", "", name).value = value;
    return select;
  };
  const input = (text: string, value: string, title: string, width: string): HTMLInputElement => {
    const made = add(labelled(text), "input");
    Object.assign(made, { value, title, type: "text" });
    made.style.width = width;
    return made;
  };
  const modes = Object.entries(MODES).filter(([name]) => name !== "arrivals" || facts.arrivals);
  const recorded = (name: string, text: string): string => (name === "arrivals" ? `${text} (${facts.arrivals})` : text);
  const mode = choice("Load", modes.map(([name, text]) => [name, recorded(name, text)]));
  const levels = input("", LEVELS.concurrency ?? "", "one row of the result for each number", "9em");
  levels.setAttribute("aria-label", "levels of load, one row of the result for each");
  const distribution = choice("Spaced", [["poisson", "at random (Poisson)"], ["constant", "evenly"]]);
  const seconds = input("Seconds each", "", "how long each is measured; empty: until three windows of a second agree", "6.5em");
  seconds.placeholder = "until stable";
  const golden: [string, string][] = facts.golden ? [["golden", `golden requests (${facts.golden})`]] : [];
  const inputs = choice("Inputs", [["random", "random values"], ...golden]);
  const rows = `the batch size of a request, at most ${facts.batches}`;
  const batch = facts.batches ? input("Rows each", "1", rows, "3em") : undefined;
  const shapes = facts.shapes.map(({ name, dims }) => {
    return [name, input(`Shape of ${name}`, dims, "the dimensions of random values", "6em")] as const;
  });
  const hide = (field: HTMLElement | undefined, hidden: boolean): void => {
    if (field?.parentElement) field.parentElement.hidden = hidden;
  };
  const show = (): void => {
    const isDefault = levels.value === LEVELS.concurrency || levels.value === LEVELS.request_rate;
    if (isDefault) levels.value = LEVELS[mode.value] ?? levels.value;
    hide(levels, mode.value === "arrivals");
    hide(distribution, mode.value !== "request_rate");
    for (const field of [batch, ...shapes.map(([, shape]) => shape)]) hide(field, inputs.value === "golden");
  };
  mode.onchange = inputs.onchange = show;
  show();
  return () => ({
    mode: mode.value,
    levels: levels.value,
    distribution: distribution.value,
    seconds: seconds.value.trim(),
    inputs: inputs.value,
    batch: batch?.value.trim(),
    shapes: Object.fromEntries(shapes.map(([name, shape]) => [name, shape.value])),
  });
}

export default { render };
