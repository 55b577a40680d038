// Keys of a form in a notebook's output: Ctrl+Enter sends, and no other key reaches the notebook, which would move to
// another cell at an arrow, run the cell at Enter, or cut it at "x". Its Copy button copies what its snippet says.
import { goLive } from "./base.js";

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

  function attach() {
    form = el.closest(".tl-form");
    if (form === null) {
      waiting = requestAnimationFrame(attach); // not in the page yet
      return;
    }
    form.addEventListener("keydown", onSend, true);
    form.addEventListener("keydown", onKey);
    form.addEventListener("click", onClick);
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
  };
}

export default { render };
