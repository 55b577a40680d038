// Keys of a form in a notebook's output: Ctrl+Enter sends, and no other key reaches the notebook, which would move to
// another cell at an arrow, run the cell at Enter, or cut it at "x". Its Copy button copies its snippet.
import { Cleanup, RenderContext } from "./anywidget.js";
import { closest, find, goLive, sendItself } from "./base.js";

const MOST_DROPPED = 50_000_000; // bytes of a file; `views/input_pages.py` has the same number
const FIELDS = "textarea, input[type=text], input[type=number]";
const INPUT = "tl-input-"; // a row's class, with the number of its input

/** The text in the field: its own message may still be on its way, or not be sent before the field is left. */
function fieldText(target: EventTarget | null): { label?: string; value?: string } {
  const isField = target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement;
  const label = isField && target.matches(FIELDS) ? target.labels?.[0]?.textContent : undefined;
  return isField && typeof label === "string" ? { label, value: target.value } : {};
}

/** The row of an input below dropped files, which JupyterLab would open in a tab. */
function rowUnder(event: DragEvent): HTMLElement | null {
  return event.dataTransfer?.types.includes("Files") ? closest(event, ".tl-input") : null;
}

function render({ model, el }: RenderContext): Cleanup {
  const abort = new AbortController();
  let waiting = 0;

  // on the way down, for ipywidgets keeps the keys of a text field to itself
  function onSend(event: KeyboardEvent): void {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    event.stopPropagation();
    // the field's widget takes it over at once; what is typed next is newer than any answer of the kernel
    event.target?.dispatchEvent(new Event("change", { bubbles: true }));
    sendItself(model, { kind: "send", ...fieldText(event.target) });
  }

  function onKey(event: KeyboardEvent): void {
    if (event.key === "Enter" || !(event.ctrlKey || event.metaKey || event.altKey)) event.stopPropagation();
  }

  function onClick(form: HTMLElement, event: Event): void {
    if (!closest(event, ".tl-copy")) return;
    void navigator.clipboard.writeText(find<HTMLTextAreaElement>(form, ".tl-snippet textarea").value);
  }

  function onDrag(form: HTMLElement, event: DragEvent): void {
    form.querySelectorAll(".tl-drop").forEach((row) => row.classList.remove("tl-drop"));
    const row = rowUnder(event);
    if (!row || event.type !== "dragover" || !event.dataTransfer) return;
    event.preventDefault();
    event.stopPropagation();
    event.dataTransfer.dropEffect = "copy";
    row.classList.add("tl-drop");
  }

  async function onDrop(form: HTMLElement, event: DragEvent): Promise<void> {
    const row = rowUnder(event);
    if (!row || !event.dataTransfer) return;
    event.preventDefault();
    event.stopPropagation();
    onDrag(form, event);
    const input = Number([...row.classList].find((name) => /^tl-input-\d+$/.test(name))?.slice(INPUT.length));
    const files = [...event.dataTransfer.files];
    const small = files.every((file) => file.size <= MOST_DROPPED);
    const contents = small ? await Promise.all(files.map((file) => file.arrayBuffer())) : [];
    const facts = files.map((file) => ({ name: file.name, size: file.size }));
    sendItself(model, { kind: "drop", input, files: facts }, contents);
  }

  function attach(): void {
    const form = el.closest<HTMLElement>(".tl-form");
    if (form === null) {
      waiting = requestAnimationFrame(attach); // not in the page yet
      return;
    }
    const { signal } = abort;
    form.addEventListener("keydown", onSend, { capture: true, signal });
    form.addEventListener("keydown", onKey, { signal });
    form.addEventListener("click", (event) => onClick(form, event), { signal });
    form.addEventListener("dragover", (event) => onDrag(form, event), { signal });
    form.addEventListener("dragleave", (event) => onDrag(form, event), { signal });
    form.addEventListener("drop", (event) => void onDrop(form, event), { signal });
    form.dataset.keys = "on";
  }

  attach();
  const end = goLive(model, el);
  return () => {
    end();
    cancelAnimationFrame(waiting);
    abort.abort();
  };
}

export default { render };
