// A request and the calls made for it, and the slots of sequences. `views/graph_figure.py` draws both, here and in saved
// notebooks: some dozens of boxes are few enough for SVG, which is sharp and readable for screen readers as it is.
import { Cleanup, RenderContext } from "./anywidget.js";
import { addFrame, closest, factsTable, find, goLive, problemLine, send } from "./base.js";
import { GraphMessage, GraphStore } from "./graphStore.js";
import { elided } from "./legend.js";
import { FOREIGN, RecordState, ViewMessage, connect, recordOf } from "./recordLink.js";
import { RecordStore } from "./recordStore.js";

const HEAD = ["call", "request", "instance", "came at", "waited", "ran", "in batch of", "inputs", "failure"];
const HINT = "Click a box, or go with ↑ and ↓, to see its life; ← and → show another request.";
const MARKUP = `
  <div class="tl-bar2">
    <span class="tl-name"></span><span class="tl-dim tl-summary" aria-live="polite"></span><span class="tl-grow"></span>
    <button data-do="back" title="the request before, ←" aria-label="the request before">←</button><button data-do="on"
      title="the next request, →" aria-label="the next request">→</button><button data-do="slowest"
      title="the request that took longest, s">Slowest</button><button data-do="last" title="always the last request, f">Last</button>
  </div>
  <div class="tl-note tl-warn-note tl-report" hidden></div>
  <div class="tl-graph" tabindex="0" role="group"></div>
  <div class="tl-detail tl-dim" aria-live="polite"></div>
  <details class="tl-twin"><summary>Table</summary><div class="tl-scroll"></div></details>`;
/** Between the words in a box and its edge. */
const PAD = 4;
const STEPS: Partial<Record<string, number>> = { back: -1, on: 1 };

interface Page {
  root: HTMLElement;
  picture: HTMLElement;
  summary: HTMLElement;
  detail: HTMLElement;
  twin: HTMLElement;
  table: HTMLElement;
  last: HTMLElement;
  boxes: () => Element[];
  report: (text: string) => void;
}

function render({ model, el }: RenderContext<RecordState, ViewMessage>): Cleanup {
  const stop = goLive(model, el);
  const page = build(el, model.get("state").title ?? "");
  if (!recordOf(model, RecordStore)) {
    page.report(FOREIGN);
    page.picture.hidden = true;
    return stop;
  }
  const store = new GraphStore();
  const draw = (): void => show(page, store, model.get("state").label);
  const choose = (which: number | string): void => void send(model, { do: "choose", which });
  const keys: Partial<Record<string, () => void>> = {
    ArrowLeft: () => choose(-1),
    ArrowRight: () => choose(1),
    f: () => choose("last"),
    "0": () => choose("last"),
    s: () => choose("slowest"),
    ArrowUp: () => store.step(-1, page.boxes().length),
    ArrowDown: () => store.step(1, page.boxes().length),
    Escape: () => store.step(-Infinity, 0),
    Enter: () => page.twin.toggleAttribute("open"),
  };
  page.picture.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !act) return;
    event.preventDefault();
    event.stopPropagation(); // JupyterLab has commands on single keys
    act();
    draw();
  });
  page.root.addEventListener("click", (event) => {
    const pressed = closest(event, "[data-do]")?.dataset.do;
    if (pressed) choose(STEPS[pressed] ?? pressed);
    const box = closest(event, "[data-box]") ?? null;
    if (box) store.selected = Number(box.dataset.box);
    draw();
  });
  draw();
  const onMessage = (message: ViewMessage): void => {
    if (message.kind !== "graph") return;
    store.apply(message as GraphMessage);
    page.picture.innerHTML = [store.drawn.figure, ...store.drawn.slots].join("");
    for (const box of page.picture.querySelectorAll<SVGGElement>("[data-box]")) fitTexts(box);
    draw();
  };
  const disconnect = connect(model, onMessage, page.report);
  return () => {
    disconnect();
    stop();
  };
}

function build(el: HTMLElement, title: string): Page {
  const root = addFrame(el, MARKUP, title);
  return {
    root,
    picture: find(root, ".tl-graph"),
    summary: find(root, ".tl-summary"),
    detail: find(root, ".tl-detail"),
    twin: find(root, ".tl-twin"),
    table: find(root, ".tl-scroll"),
    last: find(root, "[data-do=last]"),
    boxes: () => [...root.querySelectorAll("[data-box]")],
    report: problemLine(find(root, ".tl-report")),
  };
}

/** Shortens the texts that are wider than their box in the font of this page. */
function fitTexts(box: SVGGElement): void {
  const frame = box.querySelector("rect");
  if (!frame) return;
  const right = frame.x.baseVal.value + frame.width.baseVal.value - PAD;
  for (const text of box.querySelectorAll("text")) {
    const words = text.textContent ?? "";
    const room = right - (text.x.baseVal.numberOfItems ? text.x.baseVal.getItem(0).value : 0);
    const width = (part: string): number => {
      text.textContent = part;
      return text.getComputedTextLength();
    };
    text.textContent = elided(words, room, width);
  }
}

function show(page: Page, store: GraphStore, label: string): void {
  const { drawn, selected } = store;
  const boxes = page.boxes();
  page.summary.textContent = drawn.summary;
  page.last.setAttribute("aria-pressed", String(store.following));
  for (const [number, box] of boxes.entries()) box.classList.toggle("tl-chosen", number === selected);
  const selection = boxes[selected]?.querySelector("title")?.textContent ?? "";
  page.detail.textContent = selection || (boxes.length ? HINT : "");
  page.picture.setAttribute("aria-label", `${label}. ${store.sentence()}`);
  const facts = { boxes: boxes.length, selection: selected, kept: drawn.kept, following: store.following };
  for (const [name, value] of Object.entries(facts)) page.picture.dataset[name] = String(value);
  page.table.replaceChildren(factsTable(HEAD, drawn.table, drawn.sequences));
}

export default { render };
