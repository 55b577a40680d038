// The card of a model. `views/live_card.py` decides what it shows: HTML, buttons, and how a button failed.
import { Cleanup, Model, RenderContext } from "./anywidget.js";
import { add, drawState, send } from "./base.js";

interface Button {
  do: string;
  label: string;
  title: string;
}

interface State {
  name: string;
  state: string;
  html: string;
  /** why the last button failed, or "" */
  problem: string;
  buttons: Button[];
  busy: string;
  open: string;
}

const TICK_MS = 100;
const FOLDS = ["details.tl-printed", "details.tl-executing"];
const PRINTED = ".tl-printed .tl-lines";
const CLOCK = ".tl-clock";
const EXPORT = "export";
const PANELS = ["playground", "view", EXPORT];
/** Whoever can show the export's panel, as our extension of JupyterLab, prevents its default: the form in the card. */
const EXPORTS = "tritonlab-export";

function render({ model, el }: RenderContext<State>): Cleanup {
  const card = add(el, "div", "tl-card");
  const body = add(card, "div");
  const problem = add(card, "div", "tl-note tl-bad-note tl-text");
  const bar = add(card, "div", "tl-buttons");
  problem.setAttribute("role", "alert");

  const draw = (): void => {
    const state = model.get("state");
    card.dataset.state = state.state;
    drawBody(body, state.html);
    problem.textContent = state.problem;
    problem.hidden = !state.problem;
    drawButtons(bar, state, (button) => void press(model, button));
  };
  const end = drawState(model, el, draw);
  const ticking = setInterval(() => tick(body), TICK_MS);
  return () => {
    clearInterval(ticking);
    end();
  };
}

/** New HTML in the place of the old; an unfolded log stays so, and stays at its end if it was there. */
function drawBody(body: HTMLElement, html: string): void {
  if (body.dataset.html === html) return;
  const open = FOLDS.map((fold) => body.querySelector<HTMLDetailsElement>(fold)?.open);
  const lines = body.querySelector(PRINTED);
  const top = lines?.scrollTop ?? 0;
  const atEnd = !lines || lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 4;
  body.innerHTML = body.dataset.html = html;
  for (const [place, fold] of FOLDS.entries()) {
    const details = body.querySelector<HTMLDetailsElement>(fold);
    if (details && open[place] !== undefined) details.open = open[place];
  }
  const after = body.querySelector(PRINTED);
  if (after) after.scrollTop = atEnd ? after.scrollHeight : top;
  for (const clock of body.querySelectorAll<HTMLElement>(CLOCK)) {
    clock.dataset.since = String(performance.now() - Number(clock.dataset.age) * 1000);
  }
}

function tick(body: HTMLElement): void {
  for (const clock of body.querySelectorAll<HTMLElement>(CLOCK)) {
    clock.textContent = `${((performance.now() - Number(clock.dataset.since)) / 1000).toFixed(1)} s`;
  }
}

/** Buttons are kept and changed, so that none loses the keyboard's focus. */
function drawButtons(bar: HTMLElement, state: State, onPress: (button: HTMLButtonElement) => void): void {
  const wanted = new Map(state.buttons.map((button) => [button.do, button]));
  for (const button of bar.querySelectorAll("button")) if (!wanted.has(button.dataset.do ?? "")) button.remove();
  for (const [name, { label, title }] of wanted) {
    let button = bar.querySelector<HTMLButtonElement>(`[data-do="${name}"]`);
    if (!button) {
      const made = (button = document.createElement("button"));
      made.type = "button";
      made.dataset.do = name;
      made.className = "tl-button";
      made.onclick = () => onPress(made);
    }
    bar.append(button);
    button.textContent = label;
    button.title = title;
    button.disabled = state.busy === name && name !== "stop";
    if (PANELS.includes(name) && (name !== EXPORT || state.open === name)) button.setAttribute("aria-expanded", String(state.open === name));
  }
}

async function press(model: Model<State>, button: HTMLButtonElement): Promise<void> {
  const kernel = model.widget_manager?.kernel;
  if (button.dataset.do === "stop" && kernel && !kernel.supportsSubshells) {
    await kernel.interrupt(); // a message would be read only once the load has ended
  } else if (button.dataset.do !== EXPORT || model.get("state").open === EXPORT || !showsExport(model, button)) {
    await send(model, { do: button.dataset.do });
  }
}

/** Whether a panel of the page shows the export. */
function showsExport(model: Model<State>, button: HTMLElement): boolean {
  const detail = { model: model.get("state").name };
  return !button.dispatchEvent(new CustomEvent(EXPORTS, { bubbles: true, composed: true, cancelable: true, detail }));
}

export default { render };
