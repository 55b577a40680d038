// The button that shows the token of the notebook's ports. The token comes as a message and is kept in the page only:
// what is in a widget's state or in an output is saved with the notebook. `views/token_button.py` is the other half.
import { add, ask, goLive } from "./base.js";

export default {
  render({ model, el }) {
    const bar = add(el, "div", "tl-buttons");
    const show = add(bar, "button", "tl-button", "Show token");
    const copy = add(bar, "button", "tl-button", "Copy");
    const shown = add(bar, "code", "tl-token");
    Object.assign(show, { type: "button", title: "Shown on this page only, and not saved with the notebook" });
    Object.assign(copy, { type: "button", title: "Copy the header that clients send", hidden: true });

    const draw = (header) => {
      shown.textContent = header;
      copy.hidden = !header;
      show.textContent = header ? "Hide token" : "Show token";
    };
    const told = ({ authorization }) => {
      if (authorization !== undefined) draw(`Authorization: ${authorization}`);
    };
    show.onclick = () => (shown.textContent ? draw("") : ask(model, { do: "show" }));
    copy.onclick = () => navigator.clipboard.writeText(shown.textContent);
    model.on("msg:custom", told);
    const end = goLive(model, el);
    return () => {
      model.off("msg:custom", told);
      draw("");
      end();
    };
  },
};
