// What every live view needs: to be seen instead of its static form, to ask the kernel, and the colours of the theme.
// `views/widget.py` is the other half; it puts this text in the place of the `import` of a view's module.

const TARGET = "tritonlab.view";
const SUBSHELL_MS = 2000;
// a page of nbconvert's, which may hold the widgets' last state and no kernel
const SAVED_PAGE = 'script[type="application/vnd.jupyter.widget-state+json"]';

/**
 * Makes `el` the live form of a view: the static form, which lies in the output before it, is hidden for as long as a
 * kernel stands behind the view. Returns what ends that; to be returned by the view's `render`.
 */
export function goLive(model, el) {
  const form = `tl-static-${model.get("view")}`;
  const hiding = document.createElement("style");
  hiding.textContent = `.${form}, .jp-OutputArea-child:has(.${form}) { display: none !important; }`;
  el.classList.add("tl-live");
  el.prepend(hiding);
  // of all that becomes of the connection, ipywidgets tells a drawn view the end alone
  const end = () => {
    hiding.remove();
    el.classList.add("tl-dead");
  };
  if (document.querySelector(SAVED_PAGE) || model.widget_manager?.kernel === null) end();
  endIfRestored(model, end);
  model.on("comm_live_update", end);
  return () => {
    model.off("comm_live_update", end);
    hiding.remove();
  };
}

/** Calls `end` for a model that a notebook has kept (papermill and nbconvert store them): no kernel stands behind it. */
async function endIfRestored(model, end) {
  const id = model.get("own_id");
  const known = id && (await model.widget_manager?.get_model?.(id));
  if (known?.comm_live === false) end();
}

let channel;

/**
 * Sends `content` to the view in the kernel, `LiveView.on_message`.
 *
 * A widget's own messages wait for the running cell (ipykernel 7.4: for all cells of Run All). A comm that is opened
 * here is served by a subshell, at once; where there are none (ipykernel 6, VS Code), the widget's own way is taken.
 */
export async function ask(model, content) {
  try {
    channel ??= open(model.widget_manager.kernel);
    (await channel).send({ view: model.get("view"), content });
  } catch {
    channel = undefined;
    model.send(content);
  }
}

async function open(kernel) {
  const comm = kernel.createComm(TARGET);
  comm.onClose = () => (channel = undefined);
  const late = new Promise((resolve) => setTimeout(resolve, SUBSHELL_MS));
  if (kernel.supportsSubshells) await Promise.race([comm.subshellStarted, late]);
  comm.open({});
  return comm;
}

/** Appends a new element and returns it. */
export function add(parent, kind, classes = "", text = "") {
  const element = document.createElement(kind);
  element.className = classes;
  element.textContent = text;
  return parent.appendChild(element);
}

/** A theme colour ("good", "warn", "bad", "text", "dim", "line", "soft", "accent") as a canvas takes it, for `el` now. */
export function colour(el, name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--tl-${name})`;
  el.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
