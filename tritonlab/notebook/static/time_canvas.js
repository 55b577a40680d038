// The frame of a view over time: buttons, a canvas that is zoomed and moved with mouse, wheel and keys, a line of words,
// and a table twin. Subclasses draw.
import { colour, goLive } from "./base.js";
import { connect, recordOf } from "./record_link.js";
import { ticks } from "./record_store.js";

export const AXIS = 20; // the scale
export const LEFT = 8; // and right: empty
const COLOURS = ["text", "dim", "line", "soft", "good", "warn", "bad", "accent"];
const FACTS_MS = 250;

/** anywidget's `render` of a view: `View` is a subclass of TimeCanvas, `Store` one of TimeWindow; `Record` keeps the data. */
export function renderer(View, Store, Record) {
  return function render({ model, el }) {
    const stop = goLive(model, el);
    const page = build(el, model.get("state"));
    const record = recordOf(model, Record);
    if (!record) {
      page.canvas.hidden = page.twin.hidden = true;
      page.say("This view is of another version of tritonlab. Run its cell again.");
      return stop;
    }
    const view = new View(model, page, new Store(record));
    const disconnect = connect(model, (message, buffers) => view.heard(message, buffers), page.say);
    return () => {
      view.close();
      disconnect();
      stop();
    };
  };
}

function build(el, state) {
  const root = document.createElement("div");
  root.className = "tl-view";
  root.innerHTML = `
    <div class="tl-bar2">
      <span class="tl-name"></span><span class="tl-dim tl-summary" aria-live="polite"></span><span class="tl-grow"></span>
      <button data-do="follow" title="f" aria-pressed="true">Follow</button><button data-do="out" title="zoom out, -">−</button><button
        data-do="in" title="zoom in, +">+</button><button data-do="fit" title="all that is kept, 0">All</button>
    </div>
    <div class="tl-note tl-warn-note tl-said" hidden></div>
    <canvas class="tl-canvas" tabindex="0" role="img"></canvas>
    <div class="tl-facts"></div>
    <div class="tl-detail tl-dim" aria-live="polite"></div>
    <details class="tl-twin"><summary>Table</summary><div class="tl-scroll"></div></details>`;
  root.querySelector(".tl-name").textContent = state.title ?? "";
  el.append(root);
  const find = (name) => root.querySelector(name);
  const said = find(".tl-said");
  return {
    root,
    canvas: find("canvas"),
    summary: find(".tl-summary"),
    facts: find(".tl-facts"),
    detail: find(".tl-detail"),
    twin: find(".tl-twin"),
    table: find(".tl-scroll"),
    say(text) {
      said.hidden = !text;
      said.textContent = text ?? "";
    },
  };
}

export class TimeCanvas {
  constructor(model, page, store) {
    Object.assign(this, { model, page, store, record: store.record, frames: 0, factsAt: 0, left: LEFT });
    this.canvas = page.canvas;
    this.context = this.canvas.getContext("2d");
    this.abort = new AbortController();
    const on = (target, names, act) => {
      for (const name of names.split(" ")) target.addEventListener(name, act, { signal: this.abort.signal, passive: false });
    };
    on(page.root, "click", (event) => this.press(event));
    on(this.canvas, "pointerdown", (event) => this.drag(event));
    on(this.canvas, "pointermove pointerleave", (event) => this.point(event));
    on(this.canvas, "wheel", (event) => this.wheel(event));
    on(this.canvas, "keydown", (event) => this.key(event));
    on(page.twin, "toggle", () => this.wake());
    this.resized = new ResizeObserver(() => this.wake());
    this.resized.observe(this.canvas);
    this.themed = new MutationObserver(() => this.recolour());
    this.themed.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name", "class"] });
    this.wake();
  }

  close() {
    this.abort.abort();
    this.resized.disconnect();
    this.themed.disconnect();
    cancelAnimationFrame(this.frame);
    this.closed = true;
  }

  /** Draws with the colours of another theme, once JupyterLab shows its page again: it hides it for a frame, and one that
   * was due before would find no room. */
  recolour() {
    this.colours = null;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.wake();
  }

  heard(message) {
    if (message.now && this.model.get("state").live) this.store.heardAt(message.now, performance.now() * 1e6);
    else if (this.store.following && this.store.last()) this.store.fit(0); // of a file: all of it
    this.wake();
  }

  now() {
    return this.store.now(performance.now() * 1e6);
  }

  wake() {
    if (this.closed || this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.closed) return;
      this.draw();
      if (this.moves()) this.wake();
    });
  }

  /** Whether the next frame is another one even if nothing comes. */
  moves() {
    if (!this.model.get("state").live || !(this.store.busy || this.store.last())) return false;
    return this.store.moves(this.now());
  }

  // -- for subclasses

  /** How high the canvas is, in pixels; called before `paint`. */
  get height() {
    return AXIS;
  }

  /** Draws below the scale, for the time `this.view`. */
  paint(now) {}

  /** Draws the words and bars below the canvas; returns the sentence that stands for the canvas. */
  facts() {
    return "";
  }

  /** The table twin of what is in view. */
  rows() {
    return element("table");
  }

  /** A click at a place of the canvas. */
  click(event) {}

  /** Moves what is selected: by one along the time, or by one within it. */
  step(along, within) {}

  /** The words for what is below the pointer. */
  tip(x, y) {
    return "";
  }

  // -- what a person does

  press(event) {
    const what = event.target.closest("[data-do]")?.dataset.do;
    const now = this.now();
    if (what === "follow") this.store.following ? this.store.pause(now) : this.store.follow();
    else if (what === "in") this.store.zoomAtSelected(0.5, now);
    else if (what === "out") this.store.zoomAtSelected(2, now);
    else if (what === "fit") this.store.fit(now);
    else return;
    this.wake();
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  drag(event) {
    if (event.button) return;
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    let [at] = this.place(event);
    const begun = at;
    let moved = false;
    const move = (next) => {
      const [x] = this.place(next);
      if (!moved && Math.abs(x - begun) < 4) return;
      moved = true;
      this.store.pan((at - x) / this.width, this.now());
      at = x;
      this.wake();
    };
    const up = (last) => {
      this.canvas.removeEventListener("pointermove", move);
      if (!moved && last.type === "pointerup") this.click(last);
    };
    this.canvas.addEventListener("pointermove", move, { signal: this.abort.signal });
    this.canvas.addEventListener("pointerup", up, { once: true, signal: this.abort.signal });
    this.canvas.addEventListener("pointercancel", up, { once: true, signal: this.abort.signal });
  }

  point(event) {
    this.canvas.title = (event.type !== "pointerleave" && this.tip(...this.place(event))) || "";
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey && document.activeElement !== this.canvas) return; // the page scrolls
    event.preventDefault();
    const [x] = this.place(event);
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.store.pan((event.deltaX || event.deltaY) / this.width, this.now());
    } else this.store.zoom(1.0015 ** event.deltaY, (x - this.left) / this.width, this.now());
    this.wake();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const now = this.now();
    const { store } = this;
    const act = {
      a: () => store.pan(-0.2, now), d: () => store.pan(0.2, now),
      w: () => store.zoomAtSelected(0.7, now), s: () => store.zoomAtSelected(1 / 0.7, now),
      "+": () => store.zoomAtSelected(0.5, now), "=": () => store.zoomAtSelected(0.5, now), "-": () => store.zoomAtSelected(2, now),
      0: () => store.fit(now), f: () => store.follow(), " ": () => (store.following ? store.pause(now) : store.follow()),
      ArrowLeft: () => this.step(-1, 0), ArrowRight: () => this.step(1, 0),
      ArrowUp: () => this.step(0, -1), ArrowDown: () => this.step(0, 1),
      Enter: () => this.page.twin.toggleAttribute("open"), Escape: () => this.step(0, 0),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation(); // JupyterLab has commands on single keys
    act();
    this.wake();
  }

  // -- drawing

  x(time) {
    const [from, to] = this.view;
    return this.left + ((time - from) / (to - from)) * this.width;
  }

  draw() {
    const { canvas, context, store, record } = this;
    const ratio = window.devicePixelRatio || 1;
    const outer = canvas.clientWidth;
    if (!outer) return;
    this.width = Math.max(outer - this.left - LEFT, 50);
    const height = this.height;
    if (canvas.width !== Math.round(outer * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(outer * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, outer, height);
    this.colours ??= Object.fromEntries(COLOURS.map((name) => [name, colour(this.page.root, name)]));
    const now = this.now();
    this.view = store.window(now);
    this.drawScale(height);
    this.paint(now);
    this.frames += 1;
    const data = canvas.dataset;
    data.frames = this.frames;
    data.kept = Object.values(record.tables).reduce((sum, table) => sum + table.length, 0);
    data.dropped = record.dropped;
    data.following = store.following;
    const time = performance.now();
    if (time - this.factsAt > FACTS_MS || !this.moves()) {
      this.factsAt = time;
      this.drawFacts();
    }
  }

  text(text, x, y, tone = "dim", size = 11, align = "left") {
    const { context } = this;
    context.fillStyle = this.colours[tone];
    context.font = `${size}px ${getComputedStyle(this.page.root).fontFamily}`;
    context.textAlign = align;
    context.fillText(text, x, y);
  }

  drawScale(height) {
    const { context } = this;
    const [from, to] = this.view;
    context.fillStyle = this.colours.line;
    for (const { time, text } of ticks(from, to, this.store.zero(), this.width / 110)) {
      const x = Math.round(this.x(time));
      context.fillRect(x, AXIS - 4, 1, height - AXIS);
      if (x < this.left + this.width - 46) this.text(text, x + 3, AXIS - 8);
      context.fillStyle = this.colours.line;
    }
  }

  drawFacts() {
    const { store, page, canvas } = this;
    const pressed = page.root.querySelector("[data-do=follow]");
    pressed.setAttribute("aria-pressed", String(store.following));
    pressed.textContent = store.following ? "Pause" : "Follow";
    canvas.setAttribute("aria-label", `${this.model.get("state").label}. ${this.facts()}`);
    if (page.twin.open) page.table.replaceChildren(this.rows());
  }
}

export function element(tag, text = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

export function cells(values, tag = "td") {
  const row = element("tr");
  row.append(...values.map((value) => element(tag, String(value))));
  return row;
}

export function counted(number, word) {
  return `${number} ${word}${number === 1 ? "" : word.endsWith("ch") ? "es" : "s"}`;
}

/** Bars of how often each key came. */
export function bars(title, entries, tone) {
  const box = element("div", "", "tl-chart");
  box.append(element("div", title, "tl-dim"));
  const most = Math.max(...entries.map(([, count]) => count), 1);
  for (const [key, count] of entries.slice(0, 8)) {
    const line = element("div", "", "tl-line");
    const filled = element("span", "", `tl-fill tl-fill-${tone}`);
    filled.style.width = `${Math.max((count / most) * 100, 1)}%`;
    const room = element("span", "", "tl-room");
    room.append(filled);
    line.append(element("span", String(key) || "unknown", "tl-key2"), room, element("span", String(count), "tl-count"));
    box.append(line);
  }
  if (!entries.length) box.append(element("div", "–", "tl-dim"));
  return box;
}
