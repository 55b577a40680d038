// The card of a model. `views/live_card.py` says what it shows: HTML, buttons, and what a button's failure was.
import { add, ask, goLive } from "./base.js";

const TICK_MS = 100;
const FOLDS = ["details.tl-printed", "details.tl-executing"];
const PRINTED = ".tl-printed .tl-lines";

export default {
  render({ model, el }) {
    const card = add(el, "div", "tl-card");
    const body = add(card, "div");
    const said = add(card, "div", "tl-note tl-bad-note tl-text");
    const bar = add(card, "div", "tl-buttons");
    said.setAttribute("role", "alert");

    const draw = () => {
      const state = model.get("state");
      card.dataset.state = state.state;
      drawBody(body, state.html);
      said.textContent = state.said;
      said.hidden = !state.said;
      drawButtons(bar, state, (button) => press(model, button));
    };
    draw();
    model.on("change:state", draw);
    const ticking = setInterval(() => tick(body), TICK_MS);
    const end = goLive(model, el);
    return () => {
      clearInterval(ticking);
      model.off("change:state", draw);
      end();
    };
  },
};

/** New HTML in the place of the old; an unfolded log stays so, and stays at its end if it was there. */
function drawBody(body, html) {
  if (body.dataset.html === html) return;
  const open = FOLDS.map((fold) => body.querySelector(fold)?.open);
  const lines = body.querySelector(PRINTED);
  const at = lines?.scrollTop;
  const atEnd = !lines || lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 4;
  body.innerHTML = body.dataset.html = html;
  FOLDS.forEach((fold, index) => {
    const found = body.querySelector(fold);
    if (found && open[index] !== undefined) found.open = open[index];
  });
  const after = body.querySelector(PRINTED);
  if (after) after.scrollTop = atEnd ? after.scrollHeight : at;
  body.querySelectorAll(".tl-clock").forEach((clock) => (clock.since = performance.now() - clock.dataset.age * 1000));
}

function tick(body) {
  for (const clock of body.querySelectorAll(".tl-clock")) {
    clock.textContent = `${((performance.now() - clock.since) / 1000).toFixed(1)} s`;
  }
}

/** Buttons are kept, not made anew, so that none loses the focus of the keyboard. */
function drawButtons(bar, state, onPress) {
  const wanted = new Map(state.buttons.map((button) => [button.do, button]));
  for (const button of [...bar.children]) if (!wanted.has(button.dataset.do)) button.remove();
  for (const [name, { label, title }] of wanted) {
    let button = bar.querySelector(`[data-do="${name}"]`);
    if (!button) {
      button = document.createElement("button");
      button.type = "button";
      button.dataset.do = name;
      button.className = "tl-button";
      button.onclick = () => onPress(button);
    }
    bar.append(button);
    button.textContent = label;
    button.title = title;
    button.disabled = state.busy === name && name !== "stop";
    if (["playground", "view", "export"].includes(name)) button.setAttribute("aria-expanded", state.open === name);
  }
}

async function press(model, button) {
  const kernel = model.widget_manager?.kernel;
  if (button.dataset.do === "stop" && kernel && !kernel.supportsSubshells) {
    // nobody in the kernel would hear of it before the load has ended
    await kernel.interrupt();
  } else {
    await ask(model, { do: button.dataset.do });
  }
}
