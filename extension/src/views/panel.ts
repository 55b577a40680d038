// HTML that the kernel draws. While it is in sight, it requests once a second what no change would report: counts.
import { Cleanup, RenderContext } from "./anywidget.js";
import { add, drawState, send } from "./base.js";

const REFRESH_MS = 1000;

function render({ model, el }: RenderContext<{ html: string }>): Cleanup {
  const panel = add(el, "div");
  let isWaiting = false; // one request at a time: a kernel without subshells answers after the cell
  const draw = (): void => {
    panel.innerHTML = model.get("state").html;
  };
  const onReply = (): void => {
    isWaiting = false;
  };
  const refresh = (): void => {
    if (isWaiting || document.hidden || !panel.checkVisibility()) return;
    isWaiting = true;
    void send(model, { do: "refresh" });
  };
  const end = drawState(model, el, draw);
  model.on("msg:custom", onReply);
  const timer = setInterval(refresh, REFRESH_MS);
  return () => {
    clearInterval(timer);
    model.off("msg:custom", onReply);
    end();
  };
}

export default { render };
