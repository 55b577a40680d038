// The frame of a view over time: buttons, a canvas that is zoomed and moved with mouse, wheel and keys, a line of words,
// and a table twin. Subclasses draw.
import { Cleanup, Model, RenderContext } from "./anywidget.js";
import { Tone, addFrame, closest, colour, element, find, goLive, problemLine } from "./base.js";
import { Clock, axisBeforeNow } from "./clock.js";
import { Key, LINE, Placed, drawMark, elided, placeKeys } from "./legend.js";
import { FOREIGN, RecordState, ViewMessage, connect, recordOf } from "./recordLink.js";
import { BrowserRecord } from "./recordStore.js";
import { Span, TimeWindow } from "./timeWindow.js";

/** Empty at the left and at the right. */
export const EDGE = 8;
/** Below the picture: the marks of the axis, and its name. */
const AXIS = 36;
/** The least room for a mark of the axis, in pixels. */
const MARK = 96;
/** The most room for a column of names, in pixels and as a share of the picture. */
const NAMES = 150;
const NAMES_SHARE = 0.24;
const TONES: Tone[] = ["text", "dim", "line", "soft", "good", "warn", "bad", "accent"];
const FACTS_MS = 250;
const MARKUP = `
  <div class="tl-bar2">
    <span class="tl-name"></span><span class="tl-dim tl-summary" aria-live="polite"></span><span class="tl-grow"></span>
    <button data-do="follow" class="tl-follow" title="f" aria-pressed="true">Follow</button><button data-do="out" title="zoom out, -">−</button><button
      data-do="in" title="zoom in, +">+</button><button data-do="fit" title="all that is kept, 0">All</button>
  </div>
  <div class="tl-note tl-warn-note tl-report" hidden></div>
  <canvas class="tl-canvas" tabindex="0" role="img"></canvas>
  <div class="tl-facts"></div>
  <div class="tl-detail tl-dim" aria-live="polite"></div>
  <details class="tl-twin"><summary>Table</summary><div class="tl-scroll"></div></details>`;

/** A record as a canvas needs it. */
export interface CanvasRecord extends BrowserRecord {
  /** how many rows are kept, and how many events the kernel has dropped */
  readonly kept: number;
  readonly dropped: number;
}

export interface CanvasPage {
  root: HTMLElement;
  canvas: HTMLCanvasElement;
  summary: HTMLElement;
  facts: HTMLElement;
  detail: HTMLElement;
  twin: HTMLDetailsElement;
  table: HTMLElement;
  follow: HTMLElement;
  /** Shows what went wrong; "" for nothing. */
  report: (text: string) => void;
}

export type CanvasStore<R extends CanvasRecord> = TimeWindow & { readonly record: R };

/** anywidget's `render` of a view: `View` draws what `Store` finds in a `Record`; `kind` is a class of its frame. */
export function renderer<State extends RecordState, R extends CanvasRecord, S extends CanvasStore<R>>(
  View: new (model: Model<State, ViewMessage>, page: CanvasPage, store: S) => TimeCanvas<State, R, S>,
  Store: new (record: R) => S,
  Record: new (columns: Record<string, string[]>, capacity: number) => R,
  kind: string,
): (context: RenderContext<State, ViewMessage>) => Cleanup {
  return function render({ model, el }) {
    const stop = goLive(model, el);
    const page = build(el, model.get("state").title ?? "");
    page.root.classList.add(kind);
    const record = recordOf(model, Record);
    if (!record) {
      page.canvas.hidden = page.twin.hidden = true;
      page.report(FOREIGN);
      return stop;
    }
    const view = new View(model, page, new Store(record));
    const disconnect = connect(model, (message, buffers) => view.onMessage(message, buffers), page.report);
    return () => {
      view.close();
      disconnect();
      stop();
    };
  };
}

function build(el: HTMLElement, title: string): CanvasPage {
  const root = addFrame(el, MARKUP, title);
  return {
    root,
    canvas: find<HTMLCanvasElement>(root, "canvas"),
    summary: find(root, ".tl-summary"),
    facts: find(root, ".tl-facts"),
    detail: find(root, ".tl-detail"),
    twin: find<HTMLDetailsElement>(root, ".tl-twin"),
    table: find(root, ".tl-scroll"),
    follow: find(root, "[data-do=follow]"),
    report: problemLine(find(root, ".tl-report")),
  };
}

export abstract class TimeCanvas<
  State extends RecordState,
  R extends CanvasRecord,
  S extends CanvasStore<R>,
> {
  protected readonly record: R;
  protected readonly canvas: HTMLCanvasElement;
  protected readonly context: CanvasRenderingContext2D;
  /** where the time begins, how wide it is, and what is free at its right, in pixels */
  protected left = EDGE;
  protected width = 0;
  protected right = EDGE;
  /** how wide the canvas is */
  protected outer = 0;
  /** where the picture begins and ends, between the legend and the axis */
  protected top = 0;
  protected bottom = 0;
  /** the time that is drawn */
  protected view: Span = [0, 1];
  protected clock: Clock;
  private _colours: Record<Tone, string> | null = null;
  private _face = "";
  private readonly _abort = new AbortController();
  private readonly _resized = new ResizeObserver(() => this.wake());
  private readonly _themed = new MutationObserver(() => this._recolour());
  private _frame = 0;
  private _frames = 0;
  private _factsAt = 0;
  private _isClosed = false;

  constructor(
    protected readonly model: Model<State, ViewMessage>,
    protected readonly page: CanvasPage,
    protected readonly store: S,
  ) {
    this.record = store.record;
    this.canvas = page.canvas;
    const context = this.canvas.getContext("2d");
    if (!context) throw new Error("this browser has no canvas");
    this.context = context;
    this.clock = new Clock(model.get("state").wall ?? null);
    this._listen();
    this._resized.observe(this.canvas);
    this._themed.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name", "class"] });
    this.wake();
  }

  close(): void {
    this._abort.abort();
    this._resized.disconnect();
    this._themed.disconnect();
    cancelAnimationFrame(this._frame);
    this._isClosed = true;
  }

  onMessage(message: ViewMessage, _buffers: DataView[]): void {
    const { store } = this;
    const { live } = this.model.get("state");
    if (message.now && live) store.synchronize(message.now, performance.now() * 1e6);
    if (!live && (store.following || store.isFitted) && store.last()) store.fit(0); // of a file: all of it
    if (!live || store.following) this.wake(); // what is paused changes only when a person moves it
  }

  // -- for subclasses

  /** What the colours and marks stand for; the same ones at any time, or the picture would jump. */
  protected keys(): Key[] {
    return [];
  }

  /** Sets `left` and `right`, for the time `this.view`. */
  protected abstract divide(): void;

  /** How high the picture is between legend and axis, in pixels; called before `paint`. */
  protected abstract measure(): number;

  /** Draws what lies below the lines of the axis. */
  protected paintGround(): void {}

  /** Draws between `this.top` and `this.bottom`, for the time `this.view`. */
  protected abstract paint(now: number): void;

  /** Draws the words and bars below the canvas; returns the sentence that stands for the canvas. */
  protected abstract drawFacts(): string;

  /** The table twin of what is in view. */
  protected abstract table(): HTMLTableElement;

  /** A click at a place of the canvas. */
  protected click(_x: number, _y: number): void {}

  /** Moves the selection: by one along the time, or by one within it; (0, 0) clears it. */
  protected step(_along: number, _within: number): void {}

  /** The words for what is below the pointer. */
  protected tip(_x: number, _y: number): string {
    return "";
  }

  /** A press of a button. */
  protected press(what: string, _button: HTMLElement): void {
    const { store } = this;
    const now = this.now();
    if (what === "follow") this._toggleFollowing(now);
    else if (what === "in") store.zoomAtSelected(0.5, now);
    else if (what === "out") store.zoomAtSelected(2, now);
    else if (what === "fit") store.fit(now);
    else return;
    this.wake();
  }

  protected now(): number {
    return this.store.now(performance.now() * 1e6);
  }

  /** Draws with the next frame. */
  protected wake(): void {
    if (this._isClosed || this._frame) return;
    this._frame = requestAnimationFrame(() => {
      this._frame = 0;
      if (this._isClosed) return;
      const moves = this._moves(); // asked once: the frame at which it comes to rest has its words
      this._draw(moves);
      if (moves) this.wake();
    });
  }

  protected x(time: number): number {
    const [from, to] = this.view;
    return this.left + ((time - from) / (to - from)) * this.width;
  }

  protected tone(name: Tone): string {
    this._colours ??= Object.fromEntries(TONES.map((one) => [one, colour(this.page.root, one)])) as Record<Tone, string>;
    return this._colours[name];
  }

  /** Sets the font of the page for texts of the canvas. */
  protected font(size = 11): void {
    this._face ||= getComputedStyle(this.page.root).fontFamily;
    this.context.font = `${size}px ${this._face}`;
  }

  /** A text of at most `room` pixels: its begin or, for names, which differ there, its end. */
  protected fitting(text: string, room: number, end = false, size = 11): string {
    this.font(size);
    return elided(text, room, (part) => this.context.measureText(part).width, end);
  }

  /** The width of a column for these names. */
  protected column(names: string[]): number {
    this.font();
    const widest = Math.max(0, ...names.map((name) => this.context.measureText(name).width));
    return EDGE + Math.min(widest, NAMES, this.outer * NAMES_SHARE) + 10;
  }

  /** Writes a name into the column before the time. */
  protected name(name: string, y: number, tone: Tone = "dim"): void {
    this.text(this.fitting(name, this.left - EDGE - 8, true), EDGE, y, tone);
  }

  /** Writes the line beside the title: that the view is paused, `facts`, and how many events were not kept. */
  protected summarize(facts: string[]): void {
    const { dropped } = this.record;
    const { live } = this.model.get("state");
    const paused = live && !this.store.following ? [`paused at ${this.clock.text(this.store.pausedAt, 1e9)}`] : [];
    const lost = dropped ? [`${dropped.toLocaleString("en")} events not kept`] : [];
    this.page.summary.textContent = this.page.summary.title = [...paused, ...facts, ...lost].filter(Boolean).join(" · ");
  }

  /** Whether the picture moves with the time, so that its axis is that before now. */
  protected get isMoving(): boolean {
    return this.model.get("state").live && this.store.moves(this.now());
  }

  protected text(text: string, x: number, y: number, tone: Tone = "dim", size = 11, align: CanvasTextAlign = "left"): void {
    const { context } = this;
    context.fillStyle = this.tone(tone);
    this.font(size);
    context.textAlign = align;
    context.fillText(text, x, y);
  }

  /** Draws what stands at times, and nothing of it beside them. */
  protected clipped(draw: () => void): void {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(this.left, this.top, this.width, this.bottom - this.top);
    context.clip();
    draw();
    context.restore();
  }

  // -- what a person does

  private _listen(): void {
    const { canvas, page } = this;
    const { signal } = this._abort;
    page.root.addEventListener(
      "click",
      (event) => {
        const button = closest(event, "[data-do]");
        if (button?.dataset.do) this.press(button.dataset.do, button);
      },
      { signal },
    );
    canvas.addEventListener("pointerdown", (event) => this._drag(event), { signal });
    canvas.addEventListener("pointermove", (event) => (canvas.title = this.tip(...this._place(event))), { signal });
    canvas.addEventListener("pointerleave", () => (canvas.title = ""), { signal });
    canvas.addEventListener("wheel", (event) => this._wheel(event), { signal, passive: false });
    canvas.addEventListener("keydown", (event) => this._key(event), { signal });
    page.twin.addEventListener("toggle", () => this.wake(), { signal });
  }

  private _toggleFollowing(now: number): void {
    if (this.store.following) this.store.pause(now);
    else this.store.follow();
  }

  private _place(event: MouseEvent): [x: number, y: number] {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  private _drag(event: PointerEvent): void {
    if (event.button) return;
    const { canvas } = this;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    let [at] = this._place(event);
    const begun = at;
    let hasMoved = false;
    const move = (next: PointerEvent): void => {
      const [x] = this._place(next);
      if (!hasMoved && Math.abs(x - begun) < 4) return;
      hasMoved = true;
      this.store.pan((at - x) / this.width, this.now());
      at = x;
      this.wake();
    };
    const up = (last: PointerEvent): void => {
      canvas.removeEventListener("pointermove", move);
      if (!hasMoved && last.type === "pointerup") this.click(...this._place(last));
    };
    const { signal } = this._abort;
    canvas.addEventListener("pointermove", move, { signal });
    canvas.addEventListener("pointerup", up, { once: true, signal });
    canvas.addEventListener("pointercancel", up, { once: true, signal });
  }

  private _wheel(event: WheelEvent): void {
    const isMeant = event.ctrlKey || event.metaKey || event.shiftKey || document.activeElement === this.canvas;
    if (!isMeant) return; // the page scrolls
    event.preventDefault();
    const [x] = this._place(event);
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.store.pan((event.deltaX || event.deltaY) / this.width, this.now());
    } else this.store.zoom(1.0015 ** event.deltaY, (x - this.left) / this.width, this.now());
    this.wake();
  }

  private _key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const now = this.now();
    const { store } = this;
    const keys: Partial<Record<string, () => void>> = {
      a: () => store.pan(-0.2, now),
      d: () => store.pan(0.2, now),
      w: () => store.zoomAtSelected(0.7, now),
      s: () => store.zoomAtSelected(1 / 0.7, now),
      "+": () => store.zoomAtSelected(0.5, now),
      "=": () => store.zoomAtSelected(0.5, now),
      "-": () => store.zoomAtSelected(2, now),
      "0": () => store.fit(now),
      f: () => store.follow(),
      " ": () => this._toggleFollowing(now),
      ArrowLeft: () => this.step(-1, 0),
      ArrowRight: () => this.step(1, 0),
      ArrowUp: () => this.step(0, -1),
      ArrowDown: () => this.step(0, 1),
      Enter: () => this.page.twin.toggleAttribute("open"),
      Escape: () => this.step(0, 0),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation(); // JupyterLab has commands on single keys
    act();
    this.wake();
  }

  // -- drawing

  /** Draws with the colours of another theme, once JupyterLab shows its page again: it hides it for a frame, and one that
   * was due before would find no room. */
  private _recolour(): void {
    this._colours = null;
    this._face = "";
    cancelAnimationFrame(this._frame);
    this._frame = 0;
    this.wake();
  }

  /** Whether the next frame is another one even if nothing comes. */
  private _moves(): boolean {
    if (!this.model.get("state").live || !(this.store.busy || this.store.last())) return false;
    return this.store.moves(this.now());
  }

  private _draw(moves: boolean): void {
    const { canvas, context, store, record } = this;
    const ratio = window.devicePixelRatio || 1;
    const outer = canvas.clientWidth;
    if (!outer) return;
    const now = this.now();
    this.view = store.window(now);
    this.outer = outer;
    this.divide();
    this.width = Math.max(outer - this.left - this.right, 50);
    const keys = this._placedKeys();
    this.top = keys.length ? keys[keys.length - 1].y + LINE : 4;
    this.bottom = Math.ceil(this.top + this.measure());
    const height = this.bottom + AXIS;
    if (canvas.width !== Math.round(outer * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(outer * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, outer, height);
    this._drawLegend(keys);
    this.paintGround();
    this._drawAxis(now);
    this.paint(now);
    this._frames += 1;
    const facts = { frames: this._frames, kept: record.kept, dropped: record.dropped, following: store.following };
    for (const [name, value] of Object.entries(facts)) canvas.dataset[name] = String(value);
    const time = performance.now();
    if (time - this._factsAt > FACTS_MS || !moves) {
      this._factsAt = time;
      this._drawWords();
    }
  }

  private _placedKeys(): Placed[] {
    this.font();
    return placeKeys(this.keys(), EDGE, this.outer - EDGE, (text) => this.context.measureText(text).width);
  }

  private _drawLegend(keys: Placed[]): void {
    for (const { key, x, y } of keys) {
      drawMark(this.context, key, this.tone(key.tone), x, y);
      this.text(key.text, x + 20, y + 4);
    }
  }

  /** The lines of the axis, its marks and its name. */
  private _drawAxis(now: number): void {
    const { context, bottom } = this;
    const [from, to] = this.view;
    const count = Math.max(Math.floor(this.width / MARK), 2);
    const axis = this.isMoving ? axisBeforeNow(from, to, now, count) : this.clock.axis(from, to, count);
    let free = this.left - 20;
    for (const { time, text } of axis.ticks) {
      const x = Math.round(this.x(time));
      context.fillStyle = this.tone("line");
      context.fillRect(x, this.top, 1, bottom - this.top + 4);
      const half = context.measureText(text).width / 2;
      const middle = Math.min(Math.max(x, half + 2), this.outer - half - 2);
      if (middle - half < free) continue;
      this.text(text, middle, bottom + 16, "dim", 11, "center");
      free = middle + half + 8;
    }
    this.text(this.fitting(axis.name, this.outer - 2 * EDGE), this.left + this.width / 2, bottom + 31, "dim", 11, "center");
    this.canvas.dataset.axis = [...axis.ticks.map(({ text }) => text), axis.name].join(" | ");
  }

  private _drawWords(): void {
    const { store, page, canvas } = this;
    page.follow.setAttribute("aria-pressed", String(store.following));
    page.follow.textContent = store.following ? "Pause" : "Follow";
    canvas.setAttribute("aria-label", `${this.model.get("state").label}. ${this.drawFacts()}`);
    if (page.twin.open) page.table.replaceChildren(this.table());
  }
}

/** The most bars of a chart; what does not fit is one bar. */
const BARS = 7;

/** Bars of how often each key came. */
export function bars(title: string, entries: [string | number, number][], tone: "accent" | "warn"): HTMLElement {
  const box = element("div", "", "tl-chart");
  box.append(element("div", title, "tl-dim"));
  const rest = entries.slice(BARS - 1).reduce((sum, [, count]) => sum + count, 0);
  const shown = entries.length > BARS ? [...entries.slice(0, BARS - 1), ["others", rest] as const] : entries;
  const most = Math.max(...shown.map(([, count]) => count), 1);
  for (const [key, count] of shown) {
    const line = element("div", "", "tl-line");
    const filled = element("span", "", `tl-fill tl-fill-${tone}`);
    filled.style.width = `${Math.max((count / most) * 100, 1)}%`;
    const room = element("span", "", "tl-room");
    room.append(filled);
    const number = element("span", count.toLocaleString("en"), "tl-count");
    line.append(element("span", String(key) || "unknown", "tl-key2"), room, number);
    box.append(line);
  }
  if (!entries.length) box.append(element("div", "–", "tl-dim"));
  return box;
}
