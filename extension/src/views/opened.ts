// The table of a repository that was opened. Where the extension is, each model has a button that brings it into cells.
import { Cleanup, RenderContext } from "./anywidget.js";
import { add, addButton, goLive } from "./base.js";

/** Asks the page for cells of a model, below the output in which the event begins. Who does that prevents its default. */
const CELLS = "tritonlab:cells";

function render({ model, el }: RenderContext<{ html: string }>): Cleanup {
  const panel = add(el, "div");
  const draw = (): void => {
    const focused = panel.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.model : undefined;
    panel.innerHTML = model.get("state").html;
    for (const place of panel.querySelectorAll<HTMLElement>("[data-cells]")) {
      const name = place.dataset.cells ?? "";
      const command = place.innerHTML;
      place.textContent = "";
      const button = addButton(place, "Bring into cells", `Insert cells that write ${name} below this one`);
      button.dataset.model = name;
      button.onclick = () => {
        const asked = new CustomEvent(CELLS, { bubbles: true, cancelable: true, detail: { model: name } });
        // without the extension, as in VS Code, the magic does it
        if (button.dispatchEvent(asked)) place.innerHTML = command;
      };
      if (name === focused) button.focus();
    }
  };
  draw();
  model.on("change:state", draw);
  const end = goLive(model, el);
  return () => {
    model.off("change:state", draw);
    end();
  };
}

export default { render };
