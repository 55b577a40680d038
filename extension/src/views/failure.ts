// The pane of a failure. `views/failure_pane.py` decides what it shows: HTML, the result of a replay, the test of it.
import { Cleanup, RenderContext } from "./anywidget.js";
import { add, addButton, drawState, send } from "./base.js";

interface State {
  html: string;
  /** the result of the last button, or "" */
  result: string;
  good: boolean;
  busy: string;
  snippet: string;
  files: { name: string; href: string }[];
}

const BUTTONS = [
  ["replay", "Replay", "Send the same request to the model as it is now"],
  ["pytest", "Copy as pytest", "A test that fails as long as the model does, with the tensors in a file beside it"],
] as const;

function render({ model, el }: RenderContext<State>): Cleanup {
  const pane = add(el, "div", "tl-card tl-failure");
  const body = add(pane, "div");
  const result = add(pane, "div", "tl-note tl-text tl-result");
  const bar = add(pane, "div", "tl-buttons");
  const program = add(pane, "div", "tl-program");
  result.setAttribute("role", "status");
  body.innerHTML = model.get("state").html;
  const buttons = BUTTONS.map(([name, label, title]) => {
    const button = addButton(bar, label, title);
    button.dataset.do = name;
    button.onclick = () => void send(model, { do: name });
    return button;
  });

  const draw = (): void => {
    const state = model.get("state");
    result.textContent = state.result;
    result.hidden = !state.result;
    result.classList.toggle("tl-good-note", state.good);
    result.classList.toggle("tl-bad-note", !state.good);
    for (const button of buttons) button.disabled = state.busy === button.dataset.do;
    drawProgram(program, state);
  };
  return drawState(model, el, draw);
}

/** The test as text, with a button that copies it and links to its files. */
function drawProgram(box: HTMLElement, { snippet, files }: State): void {
  if (box.dataset.text === snippet) return;
  box.dataset.text = snippet;
  box.replaceChildren();
  if (!snippet) return;
  add(box, "pre", "tl-lines").textContent = snippet;
  addButton(box, "Copy").onclick = () => void navigator.clipboard.writeText(snippet);
  for (const { name, href } of files) {
    const link = add(box, "a", "tl-file", name);
    link.download = name;
    link.href = href;
  }
}

export default { render };
