// What every live view needs: to take the place of its static form, to send messages to the kernel, and the colours of
// the theme. `views/widget.py` is the other half.
import { Cleanup, Comm, Kernel, Model } from "./anywidget.js";

const TARGET = "tritonlab.view";
const SUBSHELL_MS = 2000;
// what JupyterLab's comms throw once they are closed
const CLOSED = "Cannot send";
// a page of nbconvert's, which may hold the widgets' last state and no kernel
const SAVED_PAGE = 'script[type="application/vnd.jupyter.widget-state+json"]';

export type Tone = "text" | "dim" | "line" | "soft" | "good" | "warn" | "bad" | "accent";

/**
 * Makes `el` the live form of a view: the static form, which lies in the output before it, is hidden for as long as a
 * kernel stands behind the view. Returns what ends that; to be returned by the view's `render`.
 */
export function goLive(model: Model, el: HTMLElement): Cleanup {
  const form = `tl-static-${model.get("view")}`;
  const hiding = document.createElement("style");
  hiding.textContent = `.${form}, .jp-OutputArea-child:has(.${form}) { display: none !important; }`;
  el.classList.add("tl-live");
  el.prepend(hiding);
  // of all that happens to the connection, ipywidgets reports only the end to a drawn view
  const end = (): void => {
    hiding.remove();
    el.classList.add("tl-dead");
  };
  if (document.querySelector(SAVED_PAGE) || model.widget_manager?.kernel === null) end();
  void endIfRestored(model, end);
  model.on("comm_live_update", end);
  return () => {
    model.off("comm_live_update", end);
    hiding.remove();
  };
}

/** Draws a view's state now and at each change, and makes `el` its live form. Returns what ends both. */
export function drawState(model: Model, el: HTMLElement, draw: () => void): Cleanup {
  draw();
  model.on("change:state", draw);
  const end = goLive(model, el);
  return () => {
    model.off("change:state", draw);
    end();
  };
}

/** Calls `end` for a model that a notebook has kept (papermill and nbconvert store them): it has no kernel. */
async function endIfRestored(model: Model, end: () => void): Promise<void> {
  const id = model.get("own_id");
  const known = id ? await model.widget_manager?.get_model?.(id) : undefined;
  if (known?.comm_live === false) end();
}

let channel: Promise<Comm> | undefined;

/**
 * Sends `content` to the view in the kernel, `LiveView.on_message`.
 *
 * A widget's own messages wait for the running cell (ipykernel 7.4: for all cells of Run All). A comm that is opened
 * here is served by a subshell, at once; where there are none (ipykernel 6, VS Code), the widget's own way is taken.
 */
export async function send(model: Model, content: unknown): Promise<void> {
  try {
    const kernel = model.widget_manager?.kernel;
    if (!channel && !kernel) throw new Error("no kernel connection here");
    channel ??= open(kernel as Kernel);
    (await channel).send({ view: model.get("view"), content });
  } catch {
    channel = undefined;
    sendItself(model, content);
  }
}

/** Sends by the widget's own comm. After a restart it is closed, and there is nobody who would hear of it. */
export function sendItself(model: Model, content: unknown, buffers: ArrayBuffer[] = []): void {
  try {
    model.send(content, undefined, buffers);
  } catch (error) {
    if (!(error instanceof Error && error.message === CLOSED)) throw error;
  }
}

async function open(kernel: Kernel): Promise<Comm> {
  const comm = kernel.createComm(TARGET);
  comm.onClose = () => {
    channel = undefined;
  };
  const late = new Promise((resolve) => setTimeout(resolve, SUBSHELL_MS));
  if (kernel.supportsSubshells) await Promise.race([comm.subshellStarted, late]);
  comm.open({});
  return comm;
}

/** Makes an element. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  text = "",
  classes = "",
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  made.textContent = text;
  if (classes) made.className = classes;
  return made;
}

/** Appends a new element and returns it. */
export function add<K extends keyof HTMLElementTagNameMap>(
  parent: HTMLElement,
  tag: K,
  classes = "",
  text = "",
): HTMLElementTagNameMap[K] {
  return parent.appendChild(element(tag, text, classes));
}

/** Appends a button. */
export function addButton(parent: HTMLElement, text: string, title = ""): HTMLButtonElement {
  const button = add(parent, "button", "tl-button", text);
  button.type = "button";
  button.title = title;
  return button;
}

/** Appends the frame of a view, the HTML text `markup` with its title. */
export function addFrame(parent: HTMLElement, markup: string, title: string): HTMLElement {
  const frame = add(parent, "div", "tl-view");
  frame.innerHTML = markup;
  find(frame, ".tl-name").textContent = title;
  return frame;
}

/** The element of an HTML text that has it. */
export function find<E extends HTMLElement = HTMLElement>(parent: HTMLElement, selector: string): E {
  const found = parent.querySelector<E>(selector);
  if (!found) throw new Error(`no ${selector}`);
  return found;
}

/** The element with this attribute at or above the target of an event. */
export function closest(event: Event, selector: string): HTMLElement | null {
  return event.target instanceof Element ? event.target.closest<HTMLElement>(selector) : null;
}

/** A line for problems above a picture; "" hides it. */
export function problemLine(line: HTMLElement): (text: string) => void {
  return (text) => {
    line.hidden = !text;
    line.textContent = text;
  };
}

/** A theme colour as a canvas takes it, for `el` now. */
export function colour(el: HTMLElement, tone: Tone): string {
  const probe = document.createElement("span");
  probe.style.color = `var(--tl-${tone})`;
  el.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const NUMBER = /^[−-]?[\d.,]+[MB]?( (µs|ms|s|B|[KMGT]iB))?$/;

/** The columns whose cells are all numbers, or missing. */
export function numberColumns(rows: string[][]): boolean[] {
  const isNumber = (text: string): boolean => text === "–" || text === "" || NUMBER.test(text);
  const columns = Array.from({ length: Math.max(0, ...rows.map((row) => row.length)) }, (_, place) => place);
  return columns.map((place) => rows.every((row) => isNumber(row[place] ?? "")) && rows.some((row) => NUMBER.test(row[place] ?? "")));
}

/** A table, with its numbers at the right of their columns; below it are `lines` of words. */
export function factsTable(head: string[], rows: (string | number)[][], lines: string[] = []): HTMLTableElement {
  const table = element("table", "", "tl-tensors");
  const texts = rows.map((row) => row.map((value) => (typeof value === "number" ? value.toLocaleString("en") : value)));
  const right = numberColumns(texts);
  const line = (values: string[], tag: "td" | "th"): HTMLTableRowElement => {
    const row = element("tr");
    row.append(...values.map((value, place) => element(tag, value, right[place] ? "tl-right" : "")));
    return row;
  };
  table.append(line(head, "th"), ...texts.map((values) => line(values, "td")));
  for (const text of lines) {
    const cell = element("td", text);
    cell.colSpan = head.length;
    table.insertRow().append(cell);
  }
  return table;
}

/** "3 batches" */
export function counted(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? "" : word.endsWith("ch") ? "es" : "s"}`;
}
