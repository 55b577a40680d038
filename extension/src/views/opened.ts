// The table of a repository that was opened. Where the extension is, each model has a button that brings it into cells;
// one whose backend is missing has buttons that choose what answers in its place.
import { Cleanup, Model, RenderContext } from "./anywidget.js";
import { add, addButton, drawState, element, send } from "./base.js";

/** Asks the page for cells of a model, below the output in which the event begins. Who does that prevents its default. */
const CELLS = "tritonlab:cells";

/** Makes the buttons of a row. `typed`: the address that was typed last, and what keeps it. */
function offer(model: Model, place: HTMLElement, typed: Map<string, string>): void {
  const name = place.dataset.choose ?? "";
  const button = (text: string, title: string, choice: () => string): HTMLButtonElement => {
    const made = addButton(place, text, title);
    Object.assign(made.dataset, { model: `${name} ${text}`, row: name });
    made.onclick = () => {
      const chosen = choice();
      if (!chosen) return address.focus();
      if (place.dataset.busy) return;
      place.dataset.busy = place.style.opacity = "0.6"; // disabled buttons would lose the focus
      void send(model, { do: "choose", model: name, choice: chosen });
    };
    return made;
  };
  if (place.dataset.real !== undefined) button("Real", `Let ${name}'s own backend answer`, () => "real");
  button("Stand-in", `Invent answers of ${name}'s shapes`, () => "stand-in");
  button("Recorded", `Repeat answers of ${name} that were recorded`, () => "recorded");
  const address = element("input");
  Object.assign(address, { type: "text", placeholder: "HOST:8001", value: typed.get(name) ?? "" });
  address.style.width = "11em";
  Object.assign(address.dataset, { model: `${name} address`, row: name });
  address.setAttribute("aria-label", `gRPC address of the server to borrow ${name} from`);
  const borrow = button("Borrow from", `Ask a running server for ${name}'s answers`, () => address.value.trim() && `borrow:${address.value.trim()}`);
  address.oninput = () => typed.set(name, address.value);
  address.onkeydown = (event) => {
    if (event.key === "Enter") borrow.click();
    event.stopPropagation(); // JupyterLab would take letters for commands
  };
  place.append(address);
}

/** Gives the focus to what had it before the table was drawn again; where that is gone, as buttons are while a model
 * loads, to its row until it comes back. */
function focusAgain(panel: HTMLElement, { model, row }: DOMStringMap): void {
  const same = [...panel.querySelectorAll<HTMLElement>("[data-model]")].find((each) => each.dataset.model === model);
  const name = [...panel.querySelectorAll<HTMLElement>("td.tl-tensor")].find((each) => each.textContent === row);
  if (same) same.focus();
  else if (name) focusCell(name, row, model);
}

/** Focuses a cell of a row in the place of `model`, what is focused else. */
function focusCell(cell: HTMLElement, row = "", model = ""): void {
  cell.tabIndex = -1;
  Object.assign(cell.dataset, { row, model });
  cell.focus();
}

function render({ model, el }: RenderContext<{ html: string }>): Cleanup {
  const panel = add(el, "div");
  const typed = new Map<string, string>();
  const draw = (): void => {
    const focused = panel.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset : {};
    panel.innerHTML = model.get("state").html;
    for (const place of panel.querySelectorAll<HTMLElement>("[data-cells]")) {
      const name = place.dataset.cells ?? "";
      const command = place.innerHTML;
      place.textContent = "";
      const button = addButton(place, "Bring into cells", `Insert cells that write ${name} below this one`);
      Object.assign(button.dataset, { model: name, row: name });
      button.onclick = () => {
        const asked = new CustomEvent(CELLS, { bubbles: true, cancelable: true, detail: { model: name } });
        // without the extension, as in VS Code, the magic does it
        if (!button.dispatchEvent(asked)) return;
        place.innerHTML = command;
        focusCell(place, name);
      };
    }
    for (const place of panel.querySelectorAll<HTMLElement>("[data-choose]")) offer(model, place, typed);
    if (focused.row) focusAgain(panel, focused);
  };
  return drawState(model, el, draw);
}

export default { render };
