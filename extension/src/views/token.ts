// The button that shows the token of the notebook's ports. The token comes as a message and is kept in the page only:
// what is in a widget's state or in an output is saved with the notebook. `views/token_button.py` is the other half.
import { Cleanup, RenderContext } from "./anywidget.js";
import { add, addButton, goLive, send } from "./base.js";

function render({ model, el }: RenderContext<unknown, { authorization?: string }>): Cleanup {
  const bar = add(el, "div", "tl-buttons");
  const show = addButton(bar, "Show token", "Shown on this page only, and not saved with the notebook");
  const copy = addButton(bar, "Copy", "Copy the header that clients send");
  const header = add(bar, "code", "tl-token");

  const draw = (text: string): void => {
    header.textContent = text;
    copy.hidden = !text;
    show.textContent = text ? "Hide token" : "Show token";
  };
  const onMessage = ({ authorization }: { authorization?: string }): void => {
    if (authorization !== undefined) draw(`Authorization: ${authorization}`);
  };
  show.onclick = () => (header.textContent ? draw("") : void send(model, { do: "show" }));
  copy.onclick = () => void navigator.clipboard.writeText(header.textContent ?? "");
  draw("");
  model.on("msg:custom", onMessage);
  const end = goLive(model, el);
  return () => {
    model.off("msg:custom", onMessage);
    draw("");
    end();
  };
}

export default { render };
