// The pane of a failure. `views/failure_pane.py` says what it shows: HTML, what came of a replay, the test of it.
import { add, ask, goLive } from "./base.js";

const BUTTONS = [
  ["replay", "Replay", "Send the same request to the model as it is now"],
  ["pytest", "Copy as pytest", "A test that fails as long as the model does, with the tensors in a file beside it"],
];

export default {
  render({ model, el }) {
    const pane = add(el, "div", "tl-card tl-failure");
    const body = add(pane, "div");
    const said = add(pane, "div", "tl-note tl-text tl-said");
    const bar = add(pane, "div", "tl-buttons");
    const program = add(pane, "div", "tl-program");
    said.setAttribute("role", "status");
    body.innerHTML = model.get("state").html;
    const buttons = BUTTONS.map(([name, label, title]) => {
      const button = add(bar, "button", "tl-button");
      Object.assign(button, { type: "button", textContent: label, title });
      button.dataset.do = name;
      button.onclick = () => ask(model, { do: name });
      return button;
    });

    const draw = () => {
      const state = model.get("state");
      said.textContent = state.said;
      said.hidden = !state.said;
      said.classList.toggle("tl-good-note", state.good);
      said.classList.toggle("tl-bad-note", !state.good);
      for (const button of buttons) button.disabled = state.busy === button.dataset.do;
      drawProgram(program, state);
    };
    draw();
    model.on("change:state", draw);
    const end = goLive(model, el);
    return () => {
      model.off("change:state", draw);
      end();
    };
  },
};

/** The test as text, with a button that copies it and links to its files. */
function drawProgram(place, { snippet, files }) {
  if (place.dataset.text === snippet) return;
  place.dataset.text = snippet;
  place.replaceChildren();
  if (!snippet) return;
  add(place, "pre", "tl-lines").textContent = snippet;
  const copy = add(place, "button", "tl-button");
  copy.type = "button";
  copy.textContent = "Copy";
  copy.onclick = () => navigator.clipboard.writeText(snippet);
  for (const { name, href } of files) {
    const link = add(place, "a", "tl-file");
    Object.assign(link, { download: name, href, textContent: name });
  }
}
