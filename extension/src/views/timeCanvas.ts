// The frame of a view over time: buttons, a canvas that is zoomed and moved with mouse, wheel and keys, a line of words,
// and a table twin. Subclasses draw.
import { Cleanup, Model, RenderContext } from "./anywidget.js";
import { Tone, closest, colour, element, find, goLive, problemLine } from "./base.js";
import { FOREIGN, RecordState, ViewMessage, connect, recordOf } from "./recordLink.js";
import { BrowserRecord } from "./recordStore.js";
import { ticks } from "./text.js";
import { Span, TimeWindow } from "./timeWindow.js";

export const AXIS = 20; // the scale
export const LEFT = 8; // and right: empty
const TONES: Tone[] = ["text", "dim", "line", "soft", "good", "warn", "bad", "accent"];
const FACTS_MS = 250;
const MARKUP = `
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

/** anywidget's `render` of a view: `View` draws what `Store` finds in a `Record`. */
export function renderer<State extends RecordState, R extends CanvasRecord, S extends CanvasStore<R>>(
  View: new (model: Model<State, ViewMessage>, page: CanvasPage, store: S) => TimeCanvas<State, R, S>,
  Store: new (record: R) => S,
  Record: new (columns: Record<string, string[]>, capacity: number) => R,
): (context: RenderContext<State, ViewMessage>) => Cleanup {
  return function render({ model, el }) {
    const stop = goLive(model, el);
    const page = build(el, model.get("state").title ?? "");
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
  const root = element("div", "", "tl-view");
  root.innerHTML = MARKUP;
  find(root, ".tl-name").textContent = title;
  el.append(root);
  return {
    root,
    canvas: find<HTMLCanvasElement>(root, "canvas"),
    summary: find(root, ".tl-summary"),
    facts: find(root, ".tl-facts"),
    detail: find(root, ".tl-detail"),
    twin: find<HTMLDetailsElement>(root, ".tl-twin"),
    table: find(root, ".tl-scroll"),
    follow: find(root, "[data-do=follow]"),
    report: problemLine(find(root, ".tl-said")),
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
  /** where the time begins, and how wide it is, in pixels */
  protected left = LEFT;
  protected width = 0;
  /** the time that is drawn */
  protected view: Span = [0, 1];
  private _colours: Record<Tone, string> | null = null;
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
    if (message.now && this.model.get("state").live) this.store.synchronize(message.now, performance.now() * 1e6);
    else if (this.store.following && this.store.last()) this.store.fit(0); // of a file: all of it
    this.wake();
  }

  // -- for subclasses

  /** How high the canvas is, in pixels; called before `paint`. */
  protected abstract measure(): number;

  /** Draws below the scale, for the time `this.view`. */
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
      this._draw();
      if (this._moves()) this.wake();
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
    this.context.font = `${size}px ${getComputedStyle(this.page.root).fontFamily}`;
  }

  protected text(text: string, x: number, y: number, tone: Tone = "dim", size = 11, align: CanvasTextAlign = "left"): void {
    const { context } = this;
    context.fillStyle = this.tone(tone);
    this.font(size);
    context.textAlign = align;
    context.fillText(text, x, y);
  }

  /** Draws what stands at times, and nothing of it beside them. */
  protected clipped(bottom: number, draw: () => void): void {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(this.left, 0, this.width, bottom);
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
    cancelAnimationFrame(this._frame);
    this._frame = 0;
    this.wake();
  }

  /** Whether the next frame is another one even if nothing comes. */
  private _moves(): boolean {
    if (!this.model.get("state").live || !(this.store.busy || this.store.last())) return false;
    return this.store.moves(this.now());
  }

  private _draw(): void {
    const { canvas, context, store, record } = this;
    const ratio = window.devicePixelRatio || 1;
    const outer = canvas.clientWidth;
    if (!outer) return;
    this.width = Math.max(outer - this.left - LEFT, 50);
    const height = this.measure();
    if (canvas.width !== Math.round(outer * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(outer * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, outer, height);
    const now = this.now();
    this.view = store.window(now);
    this._drawScale(height);
    this.paint(now);
    this._frames += 1;
    const facts = { frames: this._frames, kept: record.kept, dropped: record.dropped, following: store.following };
    for (const [name, value] of Object.entries(facts)) canvas.dataset[name] = String(value);
    const time = performance.now();
    if (time - this._factsAt > FACTS_MS || !this._moves()) {
      this._factsAt = time;
      this._drawWords();
    }
  }

  private _drawScale(height: number): void {
    const { context } = this;
    const [from, to] = this.view;
    for (const { time, text } of ticks(from, to, this.store.zero(), this.width / 110)) {
      const x = Math.round(this.x(time));
      context.fillStyle = this.tone("line");
      context.fillRect(x, AXIS - 4, 1, height - AXIS);
      if (x < this.left + this.width - 46) this.text(text, x + 3, AXIS - 8);
    }
  }

  private _drawWords(): void {
    const { store, page, canvas } = this;
    page.follow.setAttribute("aria-pressed", String(store.following));
    page.follow.textContent = store.following ? "Pause" : "Follow";
    canvas.setAttribute("aria-label", `${this.model.get("state").label}. ${this.drawFacts()}`);
    if (page.twin.open) page.table.replaceChildren(this.table());
  }
}

/** Bars of how often each key came. */
export function bars(title: string, entries: [string | number, number][], tone: "accent" | "warn"): HTMLElement {
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
