// A request and what was made for it, and the slots of sequences. `views/graph_figure.py` draws both, here and in saved
// notebooks: some dozens of boxes are little enough for SVG, which is sharp and readable for screen readers as it is.
import { ask, goLive } from "./base.js";
import { GraphStore } from "./graph_store.js";
import { connect, recordOf } from "./record_link.js";

const HEAD = ["call", "request", "instance", "came at", "waited", "ran", "in batch of", "inputs", "failure"];

function render({ model, el }) {
  const stop = goLive(model, el);
  const page = build(el, model.get("state"));
  if (!recordOf(model)) {
    page.say("This view is of another version of tritonlab. Run its cell again.");
    page.picture.hidden = true;
    return stop;
  }
  const store = new GraphStore();
  const draw = () => show(page, store, model.get("state").label);
  const choose = (which) => ask(model, { do: "choose", which });
  const keys = {
    ArrowLeft: () => choose(-1), ArrowRight: () => choose(1), f: () => choose("last"), 0: () => choose("last"), s: () => choose("slowest"),
    ArrowUp: () => store.step(-1, page.boxes().length), ArrowDown: () => store.step(1, page.boxes().length),
    Escape: () => store.step(-Infinity, 0), Enter: () => page.twin.toggleAttribute("open"),
  };
  page.picture.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    event.stopPropagation(); // JupyterLab has commands on single keys
    keys[event.key]();
    draw();
  });
  page.root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) choose({ back: -1, on: 1 }[button.dataset.do] ?? button.dataset.do);
    const box = event.target.closest("[data-box]");
    if (box) store.selected = Number(box.dataset.box);
    draw();
  });
  draw();
  const heard = (message) => {
    if (message.kind !== "graph") return;
    store.apply(message);
    page.figure.innerHTML = [message.figure, ...message.slots].join("");
    draw();
  };
  const disconnect = connect(model, heard, page.say);
  return () => {
    disconnect();
    stop();
  };
}

function build(el, state) {
  const root = document.createElement("div");
  root.className = "tl-view";
  root.innerHTML = `
    <div class="tl-bar2">
      <span class="tl-name"></span><span class="tl-dim tl-summary" aria-live="polite"></span><span class="tl-grow"></span>
      <button data-do="back" title="the request before, ←" aria-label="the request before">←</button><button data-do="on"
        title="the next request, →" aria-label="the next request">→</button><button data-do="slowest"
        title="the request that took longest, s">Slowest</button><button data-do="last" title="always the last request, f">Last</button>
    </div>
    <div class="tl-note tl-warn-note tl-said" hidden></div>
    <div class="tl-graph" tabindex="0" role="group"></div>
    <div class="tl-detail tl-dim" aria-live="polite"></div>
    <details class="tl-twin"><summary>Table</summary><div class="tl-scroll"></div></details>`;
  root.querySelector(".tl-name").textContent = state.title ?? "";
  el.append(root);
  const find = (name) => root.querySelector(name);
  const said = find(".tl-said");
  return {
    root,
    picture: find(".tl-graph"),
    figure: find(".tl-graph"),
    summary: find(".tl-summary"),
    detail: find(".tl-detail"),
    twin: find(".tl-twin"),
    table: find(".tl-scroll"),
    last: find("[data-do=last]"),
    boxes: () => [...root.querySelectorAll("[data-box]")],
    say(text) {
      said.hidden = !text;
      said.textContent = text ?? "";
    },
  };
}

function show(page, store, label) {
  const { drawn, selected } = store;
  const boxes = page.boxes();
  page.summary.textContent = drawn.said;
  page.last.setAttribute("aria-pressed", String(store.following));
  for (const [number, box] of boxes.entries()) box.classList.toggle("tl-chosen", number === selected);
  const told = boxes[selected]?.querySelector("title").textContent ?? "";
  const hint = boxes.length ? "Click a box, or go with ↑ and ↓, to see its life; ← and → show another request." : "";
  page.detail.textContent = told || hint;
  page.picture.setAttribute("aria-label", `${label}. ${store.sentence()}`);
  Object.assign(page.picture.dataset, { boxes: boxes.length, selection: selected, kept: drawn.kept, following: store.following });
  page.table.replaceChildren(table(drawn));
}

function table(drawn) {
  const made = document.createElement("table");
  made.className = "tl-tensors";
  const line = (values, tag) => {
    const row = document.createElement("tr");
    for (const value of values) row.append(Object.assign(document.createElement(tag), { textContent: String(value) }));
    made.append(row);
  };
  line(HEAD, "th");
  for (const call of drawn.table) line(call, "td");
  for (const text of drawn.sequences) line([text], "td");
  return made;
}

export default { render };
