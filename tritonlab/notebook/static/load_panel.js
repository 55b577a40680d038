// A load test: the form that starts one, its progress with Stop, and its result. `views/load_panel.py` says what it shows.
import { add, ask, goLive } from "./base.js";

const MODES = [["concurrency", "Clients at once"], ["request_rate", "Requests per second"], ["arrivals", "As recorded"]];
const LEVELS = { concurrency: "1, 2, 4, 8", request_rate: "100, 500" };

export default {
  render({ model, el }) {
    const box = add(el, "div", "tl-view tl-load");
    const form = add(box, "form", "tl-fields");
    const bar = add(box, "div", "tl-bar2");
    const start = button(bar, "Start", "offer the load and measure");
    const stop = button(bar, "Stop", "end the test now, and keep what was measured");
    const share = add(bar, "progress", "tl-progress");
    const told = add(bar, "span", "tl-dim tl-clock");
    const figures = add(box, "div", "tl-figures");
    const problem = add(box, "div", "tl-note tl-bad-note tl-text");
    const result = add(box, "div");
    const fields = fill(form, model.get("state").form);
    problem.setAttribute("role", "alert");
    share.setAttribute("aria-label", `progress of the load test of ${model.get("state").title}`);
    share.max = 1;
    start.type = "submit";
    start.setAttribute("form", (form.id = `tl-load-${model.get("view")}`));

    const draw = () => {
      const state = model.get("state");
      const { running } = state;
      box.dataset.state = running ? "running" : state.html ? "ended" : "ready";
      form.hidden = start.hidden = !state.form;
      start.disabled = running;
      for (const field of form.elements) field.disabled = running;
      stop.hidden = share.hidden = told.hidden = figures.hidden = !running;
      if (!running) [stop.disabled, stop.textContent] = [false, "Stop"];
      problem.hidden = !(problem.textContent = state.problem);
      if (result.dataset.html !== state.html) result.innerHTML = result.dataset.html = state.html;
    };
    const progress = (message) => {
      if (message.kind !== "progress") return;
      share.value = message.share;
      told.textContent = message.text;
      box.dataset.looks = 1 + Number(box.dataset.looks ?? 0);
      figures.replaceChildren(...message.figures.map(([name, value]) => figure(name, value)));
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      if (!start.disabled) ask(model, { do: "start", ...fields() });
    };
    // Enter in a field must not run the cell, nor other keys be JupyterLab's commands
    form.onkeydown = (event) => event.stopPropagation();
    stop.onclick = async () => {
      [stop.disabled, stop.textContent] = [true, "Stopping…"];
      const kernel = model.widget_manager?.kernel;
      // nobody in such a kernel would hear of it before the cell that waits has ended
      if (kernel && !kernel.supportsSubshells && !model.get("state").form) await kernel.interrupt();
      else await ask(model, { do: "stop" });
    };
    draw();
    model.on("change:state", draw);
    model.on("msg:custom", progress);
    const end = goLive(model, el);
    return () => {
      model.off("change:state", draw);
      model.off("msg:custom", progress);
      end();
    };
  },
};

function button(parent, text, title) {
  const made = add(parent, "button", "tl-button", text);
  made.type = "button";
  made.title = title;
  return made;
}

function figure(name, value) {
  const box = document.createElement("div");
  add(box, "div", "tl-figure", value);
  add(box, "div", "tl-dim", name);
  return box;
}

/** Makes the fields; returns the function that reads them. */
function fill(form, said) {
  if (!said) return () => ({});
  const labelled = (text) => add(form, "label", "", `${text} `);
  const choice = (text, options) => {
    const select = add(labelled(text), "select");
    for (const [value, name] of options) add(select, "option", "", name).value = value;
    return select;
  };
  const input = (text, value, title, width) => {
    const made = add(labelled(text), "input");
    Object.assign(made, { value, title, type: "text" });
    made.style.width = width;
    return made;
  };
  const mode = choice("Load", MODES.filter(([name]) => name !== "arrivals" || said.arrivals).map(([name, text]) => [name, name === "arrivals" ? `${text} (${said.arrivals})` : text]));
  const levels = input("", LEVELS.concurrency, "one row of the result for each number", "9em");
  levels.setAttribute("aria-label", "levels of load, one row of the result for each");
  const distribution = choice("Spaced", [["poisson", "at random (Poisson)"], ["constant", "evenly"]]);
  const seconds = input("Seconds each", "", "how long each is measured; empty: until three windows of a second agree", "6.5em");
  seconds.placeholder = "until stable";
  const inputs = choice("Inputs", [["random", "random values"], ...(said.golden ? [["golden", `golden requests (${said.golden})`]] : [])]);
  const batch = said.batches ? input("Rows each", "1", `the batch size of a request, at most ${said.batches}`, "3em") : undefined;
  const shapes = said.shapes.map(({ name, dims }) => [name, input(`Shape of ${name}`, dims, "the dimensions of random values", "6em")]);
  const show = () => {
    if (levels.value === LEVELS.concurrency || levels.value === LEVELS.request_rate) levels.value = LEVELS[mode.value] ?? levels.value;
    levels.parentNode.hidden = mode.value === "arrivals";
    distribution.parentNode.hidden = mode.value !== "request_rate";
    for (const field of [batch, ...shapes.map(([, shape]) => shape)]) if (field) field.parentNode.hidden = inputs.value === "golden";
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
