// Keys of a form in a notebook's output: Ctrl+Enter sends, and no other key reaches the notebook, which would move to
// another cell at an arrow, run the cell at Enter, or cut it at "x". Its Copy button copies what its snippet says.
import { goLive } from "./base.js";

const MOST_DROPPED = 50_000_000; // bytes of a file; `views/input_pages.py` has the same number
const WRITTEN = "textarea, input[type=text], input[type=number]";

// What stands in the field: its own message may still be on its way, or not be sent before the field is left.
function written(field) {
  const label = field.matches(WRITTEN) ? field.labels?.[0]?.textContent : undefined;
  return label === undefined ? {} : { label, value: field.value };
}

function render({ model, el }) {
  let form = null;
  let waiting = 0;

  // on the way down, for ipywidgets keeps the keys of a text field to itself
  function onSend(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      event.stopPropagation();
      // the field's widget takes it over at once; what is typed next is newer than any answer of the kernel
      event.target.dispatchEvent(new Event("change", { bubbles: true }));
      model.send({ kind: "send", ...written(event.target) });
    }
  }

  function onKey(event) {
    if (event.key === "Enter" || !(event.ctrlKey || event.metaKey || event.altKey)) {
      event.stopPropagation();
    }
  }

  function onClick(event) {
    if (event.target.closest(".tl-copy")) {
      navigator.clipboard.writeText(form.querySelector(".tl-snippet textarea").value);
    }
  }

  // files dropped on an input; JupyterLab would open them in a tab
  function inputUnder(event) {
    return event.dataTransfer?.types.includes("Files") ? event.target.closest(".tl-input") : null;
  }

  function onDrag(event) {
    form.querySelectorAll(".tl-drop").forEach((row) => row.classList.remove("tl-drop"));
    const row = inputUnder(event);
    if (row && event.type === "dragover") {
      event.preventDefault();
      event.stopPropagation();
      event.dataTransfer.dropEffect = "copy";
      row.classList.add("tl-drop");
    }
  }

  async function onDrop(event) {
    const row = inputUnder(event);
    if (!row) return;
    event.preventDefault();
    event.stopPropagation();
    onDrag(event);
    const input = Number([...row.classList].find((name) => /^tl-input-\d+$/.test(name)).slice("tl-input-".length));
    const files = [...event.dataTransfer.files];
    const small = files.every((file) => file.size <= MOST_DROPPED);
    const contents = small ? await Promise.all(files.map((file) => file.arrayBuffer())) : [];
    const about = files.map((file) => ({ name: file.name, size: file.size }));
    model.send({ kind: "drop", input, files: about }, undefined, contents);
  }

  function attach() {
    form = el.closest(".tl-form");
    if (form === null) {
      waiting = requestAnimationFrame(attach); // not in the page yet
      return;
    }
    form.addEventListener("keydown", onSend, true);
    form.addEventListener("keydown", onKey);
    form.addEventListener("click", onClick);
    form.addEventListener("dragover", onDrag);
    form.addEventListener("dragleave", onDrag);
    form.addEventListener("drop", onDrop);
    form.dataset.keys = "on";
  }

  attach();
  const end = goLive(model, el);
  return () => {
    end();
    cancelAnimationFrame(waiting);
    form?.removeEventListener("keydown", onSend, true);
    form?.removeEventListener("keydown", onKey);
    form?.removeEventListener("click", onClick);
    form?.removeEventListener("dragover", onDrag);
    form?.removeEventListener("dragleave", onDrag);
    form?.removeEventListener("drop", onDrop);
  };
}

export default { render };
