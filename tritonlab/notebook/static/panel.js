// HTML that the kernel draws. While somebody can see it, it asks once a second for what no change would tell of: counts.
import { ask, goLive } from "./base.js";

const REFRESH_MS = 1000;

export default {
  render({ model, el }) {
    const panel = el.appendChild(document.createElement("div"));
    let asked = false; // one question at a time: a kernel without subshells answers after the cell
    const draw = () => {
      panel.innerHTML = model.get("state").html;
    };
    const answered = () => (asked = false);
    const look = () => {
      if (asked || document.hidden || !panel.checkVisibility()) return;
      asked = true;
      ask(model, { do: "refresh" });
    };
    draw();
    model.on("change:state", draw);
    model.on("msg:custom", answered);
    const timer = setInterval(look, REFRESH_MS);
    const end = goLive(model, el);
    return () => {
      clearInterval(timer);
      model.off("change:state", draw);
      model.off("msg:custom", answered);
      end();
    };
  },
};
