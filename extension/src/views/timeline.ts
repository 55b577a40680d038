// The timeline of a model: a lane for each instance, its executions as blocks that grow while they run, the requests
// that waited for them, and what happened besides.
import { Model } from "./anywidget.js";
import { Tone, counted, element, factsTable, send } from "./base.js";
import { Key, drawTriangle } from "./legend.js";
import { RecordState, ViewMessage } from "./recordLink.js";
import { Mark, RecordStore, RunningBatch } from "./recordStore.js";
import { duration } from "./text.js";
import { CanvasPage, EDGE, TimeCanvas, bars, renderer } from "./timeCanvas.js";
import { Selection, TimelineFacts, TimelineStore, byNumbers } from "./timelineStore.js";
import { WhatIf, WhatIfMessage } from "./whatIf.js";
import { WhatIfStore } from "./whatIfStore.js";

/** The room of all lanes: one is high, several share it, and only more than five take more. */
const LANES = 136;
const LEAST_LANE = 27;
/** The least height of a block with words in it. */
const WORDS = 14;
/** Of a lane while the sliders are open: the batches of the replay. */
const REPLAYED = 18;
const MARKS = 20;
const MOST_ROWS = 16;
/** The most height of a request that waits. */
const ROW = 8;
const TABLE_ROWS = 200;
const HEAD = ["batch", "instance", "began at", "took", "requests", "size", "longest wait", "closed because"];
const MARK_TONES: Partial<Record<string, Tone>> = {
  error: "bad",
  timeout: "warn",
  cancelled: "warn",
  restart: "bad",
  waits: "warn",
  state: "dim",
};
/** The number of the reason "queue full" (REJECTIONS of `profile/model_record.py`). */
const FULL = 0;
const ON_BLOCK = "#fff";
const HINT = "Click a block or a waiting request; two requests say why they were not batched.";

const KEYS: Key[] = [
  { shape: "block", tone: "accent", text: "execution, with its batch size" },
  { shape: "block", tone: "accent", text: "its input and output", alpha: 0.55 },
  { shape: "block", tone: "good", text: "runs now", alpha: 0.75 },
  { shape: "block", tone: "bad", text: "failed" },
  { shape: "bar", tone: "warn", text: "a request that waits" },
  { shape: "tick", tone: "warn", text: "refused: queue full" },
  { shape: "triangle", tone: "bad", text: "error, restart" },
  { shape: "triangle", tone: "warn", text: "timeout, cancelled" },
  { shape: "dot", tone: "dim", text: "state of the model" },
];
const REPLAY_KEY: Key = { shape: "frame", tone: "warn", text: "what would have been" };
/** Keeps room for a usual name while there is none. */
const NO_NAME = "model_0_0";

interface State extends RecordState {
  /** its lines can be looked at */
  lines?: boolean;
  /** there are what-if questions */
  tunable?: boolean;
  /** the reasons why requests end in the queue */
  rejections?: string[];
}

/** The values of a request, or why two requests were not batched. */
interface Answer extends ViewMessage {
  row?: number;
  values?: string[];
  why?: string;
}

/** The lines of batches of a size: a sentence, and a table. */
interface LinesMessage extends ViewMessage {
  size: number;
  title: string;
  head?: string[];
  rows: string[][];
}

/** Of each pixel of a lane how long it was busy, and whether batches failed or did not. */
interface Density {
  busy: Float32Array;
  kinds: Uint8Array;
}
const GOOD = 1;
const FAILED = 2;

class Timeline extends TimeCanvas<State, RecordStore, TimelineStore> {
  private readonly _whatIf: WhatIf | null;
  private _lanes: string[] = [];
  /** the height of all lanes, which never becomes less */
  private _area = LANES;
  private _values: Answer | null = null;
  private _why = "";
  private _batchLines: LinesMessage | null = null;

  constructor(model: Model<State, ViewMessage>, page: CanvasPage, store: TimelineStore) {
    super(model, page, store);
    const window = (): number[] => store.window(this.now());
    this._whatIf = model.get("state").tunable ? new WhatIf(model, page.root, window, () => this.wake()) : null;
  }

  override onMessage(message: ViewMessage, buffers: DataView[]): void {
    if (message.kind === "what if") return this._whatIf?.onMessage(message as WhatIfMessage, buffers);
    super.onMessage(message, buffers);
    if (message.kind === "lines") {
      this._batchLines = message as LinesMessage;
      return this._describeSelected();
    }
    if (message.kind !== "answer") return;
    const answer = message as Answer;
    if (answer.values) this._values = answer;
    else this._why = answer.why ?? "";
    this._describeSelected();
  }

  protected override keys(): Key[] {
    return this._replay ? [...KEYS, REPLAY_KEY] : KEYS;
  }

  protected divide(): void {
    this.store.refresh();
    const lanes = this.store.lanes(...this.view);
    const more = this._replay?.lanes.filter((name) => !lanes.includes(name)) ?? [];
    this._lanes = [...lanes, ...more.sort(byNumbers)];
    this.left = this.column(this._lanes.length ? this._lanes : [NO_NAME]);
    this.canvas.dataset.lanes = this._lanes.join(" ");
  }

  protected measure(): number {
    this._area = Math.max(this._area, this._lanes.length * LEAST_LANE);
    return this._area + (this._replay ? this._lanes.length * (REPLAYED + 2) : 0) + MARKS;
  }

  // -- what a person does

  protected override press(what: string, button: HTMLElement): void {
    if (what !== "what-if") return super.press(what, button);
    const { store } = this;
    store.pause(this.now()); // it is about the past
    if (store.visible(...store.window(this.now())).next().done) store.fit(this.now());
    this._whatIf?.toggle();
  }

  protected override click(x: number, y: number): void {
    this.store.select(this._hit(x, y));
    this._onSelected();
  }

  protected override step(along: number, within: number): void {
    if (along) this.store.step(along, this.now());
    else if (within) this.store.stepRequest(within);
    else this.store.select(null);
    this._onSelected();
  }

  protected override tip(x: number, y: number): string {
    const mark = this._markAt(x, y);
    if (mark) return `${mark.kind}: ${mark.text}`;
    const full = y < this._marks ? 0 : this._full().filter((place) => Math.abs(place - x) < 6).length;
    if (full) return `${counted(full, "request")} refused: the queue was full`;
    const lane = Math.floor((y - this.top) / this._stride);
    const replay = this._replay;
    if (!replay || !this._lanes[lane] || y - this._laneTop(lane) < this._waiting + this._block) return "";
    for (const batch of replay.visible(...this.view)) {
      if (replay.lanes[batch.lane] !== this._lanes[lane] || this.x(batch.end) < x || this.x(batch.start) > x) continue;
      const took = duration(batch.end - batch.start);
      return `would have been: ${counted(batch.count, "request")}, size ${batch.size}, ${took}, closed because: ${batch.reason}`;
    }
    return "";
  }

  private _onSelected(): void {
    this._why = "";
    this._values = null;
    const { selected, other } = this.store;
    const request = selected?.request ?? null;
    if (request !== null) void send(this.model, { do: "values", row: request });
    if (other !== null && request !== null) void send(this.model, { do: "why", rows: [other, request] });
    this._describeSelected();
    this.wake();
  }

  // -- places

  /** The replay of the sliders, while they are open. */
  private get _replay(): WhatIfStore | null {
    return this._whatIf?.isOpen ? this._whatIf.store : null;
  }

  private get _stride(): number {
    return this._laneHeight + (this._replay ? REPLAYED + 2 : 0);
  }

  /** A lane: requests that wait, executions, and a gap. */
  private get _laneHeight(): number {
    return this._area / Math.max(this._lanes.length, 1);
  }

  private get _block(): number {
    return Math.min(Math.max(Math.round(this._laneHeight * 0.36), 10), 28);
  }

  private get _gap(): number {
    return Math.min(Math.round(this._laneHeight * 0.12), 8);
  }

  private get _waiting(): number {
    return this._laneHeight - this._block - this._gap;
  }

  /** The height of each of the requests that wait in one lane. */
  private _rowHeight(count: number): number {
    return Math.min(this._waiting / Math.min(Math.max(count, 4), MOST_ROWS), ROW);
  }

  private _laneTop(lane: number): number {
    return this.top + lane * this._stride;
  }

  /** Below the lanes, where the marks are. */
  private get _marks(): number {
    return this.bottom - MARKS;
  }

  /** The batch or the waiting request at a place. */
  private _hit(x: number, y: number): Selection | null {
    const lane = Math.floor((y - this.top) / this._stride);
    const name = this._lanes[lane];
    const within = y - this._laneTop(lane);
    const waiting = this._waiting;
    if (name === undefined || within >= waiting + this._block) return null;
    const { batches, requests } = this.record.tables;
    let best: (Selection & { far: number }) | null = null;
    for (const row of this.store.visible(...this.view)) {
      if (this.record.words.instance[batches.instance(row)] !== name) continue;
      const [left, right] = [this.x(batches.start(row)), this.x(batches.end(row))];
      if (within >= waiting) {
        const far = Math.max(left - x, x - right, 0);
        if (far < 5 && (!best || far < best.far)) best = { batch: row, request: null, far };
        continue;
      }
      const [first, end] = this.store.requestsOf(row);
      const request = first + Math.floor((waiting - within) / this._rowHeight(end - first));
      if (request >= Math.min(end, first + MOST_ROWS)) continue;
      const far = Math.max(this.x(requests.queued(request)) - x, x - left, 0);
      if (far < 4 && (!best || far < best.far)) best = { batch: row, request, far };
    }
    return best && { batch: best.batch, request: best.request };
  }

  private _markAt(x: number, y: number): Mark | null {
    if (y < this._marks) return null;
    return this.record.marks.filter((mark) => Math.abs(this.x(mark.time) - x) < 6).at(-1) ?? null;
  }

  // -- drawing

  protected override paintGround(): void {
    for (const lane of this._lanes.keys()) this._drawLane(lane);
  }

  protected paint(now: number): void {
    const { canvas, store, record } = this;
    this.clipped(() => this._drawBlocks(now));
    const replay = this._replay;
    canvas.dataset.replayed = String(replay?.length ?? 0);
    canvas.dataset.replayedPart = replay?.part ?? "";
    canvas.dataset.replayedLanes = String(replay?.lanes.length ?? 0);
    if (replay) this.clipped(() => this._drawReplay(replay));
    this.clipped(() => this._drawMarks());
    if (!record.tables.batches.length) {
      this.text("No request has been executed yet.", this.left + EDGE, this.top + 20);
    }
    const selected = store.selected;
    canvas.dataset.batches = String(record.tables.batches.length);
    canvas.dataset.selection = selected ? [selected.batch, selected.request].filter((row) => row !== null).join("/") : "";
  }

  private _drawLane(lane: number): void {
    const { context } = this;
    const top = this._laneTop(lane) + this._waiting;
    const block = this._block;
    context.fillStyle = this.tone("soft");
    context.fillRect(this.left, top, this.width, block);
    if (this._replay) context.fillRect(this.left, top + block + 2, this.width, REPLAYED);
    this.name(this._lanes[lane], top + block / 2 + 4);
  }

  /** Draws the replayed batches below the executed ones. */
  private _drawReplay(replay: WhatIfStore): void {
    const { context } = this;
    const places = replay.lanes.map((name) => this._lanes.indexOf(name));
    this.font();
    context.textAlign = "left";
    for (const batch of replay.visible(...this.view)) {
      const top = this._laneTop(places[batch.lane]) + this._waiting + this._block + 2;
      const [left, width] = this._extent(batch.start, batch.end);
      context.globalAlpha = 0.3;
      context.fillStyle = this.tone("warn");
      context.fillRect(left, top, width, REPLAYED);
      context.globalAlpha = 1;
      if (width > 4) {
        context.strokeStyle = this.tone("warn");
        context.lineWidth = 1;
        context.strokeRect(left + 0.5, top + 0.5, width - 1, REPLAYED - 1);
      }
      if (width <= 14) continue;
      context.fillStyle = this.tone("text");
      context.fillText(this._label(batch.size, batch.reason, width), Math.max(left, this.left) + 4, top + 13);
    }
  }

  /** The left edge and the width of a block; wider ones leave a pixel to the next. */
  private _extent(start: number, end: number): [left: number, width: number] {
    const [left, right] = [this.x(start), this.x(end)];
    return [left, Math.max(right - left - (right - left > 3 ? 1 : 0), 1)];
  }

  /** The size of a batch, with its reason if that fits into the width. */
  private _label(size: number, reason: string, width: number): string {
    const whole = reason ? `${size} · ${reason}` : String(size);
    return this.context.measureText(whole).width < width - 8 ? whole : String(size);
  }

  /** Executions that are narrower than a pixel are drawn as how busy each pixel was. */
  private _drawBlocks(now: number): void {
    const { store, record } = this;
    const { batches } = record.tables;
    const [from, to] = this.view;
    const perPixel = (to - from) / this.width;
    const dense: (Density | null)[] = this._lanes.map(() => null);
    const places = record.words.instance.map((name) => this._lanes.indexOf(name));
    const pixels = Math.ceil(this.width) + 2;
    for (const row of store.visible(from, to)) {
      const lane = places[batches.instance(row)] ?? -1;
      if (lane < 0) continue;
      const [start, end] = [batches.start(row), batches.end(row)];
      if (end - start >= perPixel) {
        this._drawBatch(lane, row, start, end);
        continue;
      }
      const density = (dense[lane] ??= { busy: new Float32Array(pixels), kinds: new Uint8Array(pixels) });
      const pixel = Math.min(Math.max(Math.floor((start - from) / perPixel), 0), pixels - 1);
      density.busy[pixel] += end - start;
      density.kinds[pixel] |= batches.failed(row) ? FAILED : GOOD;
    }
    for (const [lane, density] of dense.entries()) if (density) this._drawDensity(lane, density, perPixel);
    for (const one of record.live.running ?? []) this._drawRunning(one, now);
    this._drawWaiting(now);
  }

  private _drawDensity(lane: number, { busy, kinds }: Density, perPixel: number): void {
    const { context } = this;
    const block = this._block;
    const bottom = this._laneTop(lane) + this._waiting + block;
    context.globalAlpha = 0.85;
    for (const kind of [GOOD, FAILED]) {
      context.fillStyle = this.tone(kind === FAILED ? "bad" : "accent");
      for (let pixel = 0; pixel < busy.length; pixel++) {
        if (!busy[pixel] || (kinds[pixel] & FAILED || GOOD) !== kind) continue;
        const height = Math.max(Math.min(busy[pixel] / perPixel, 1) * block, 2);
        context.fillRect(this.left + pixel, bottom - height, 1, height);
      }
    }
    context.globalAlpha = 1;
  }

  private _drawBatch(lane: number, row: number, start: number, end: number): void {
    const { context, store } = this;
    const { batches } = this.record.tables;
    const block = this._block;
    const top = this._laneTop(lane) + this._waiting;
    const [left, width] = this._extent(start, end);
    context.fillStyle = this.tone(batches.failed(row) ? "bad" : "accent");
    context.globalAlpha = 0.55;
    context.fillRect(left, top, width, block);
    context.globalAlpha = 1;
    const inner = this.x(start + batches.compute_input(row));
    const infer = this.x(start + batches.compute_input(row) + batches.compute_infer(row));
    context.fillRect(inner, top, Math.max(Math.min(infer, left + width) - inner, 0), block);
    if (width > 16 && block >= WORDS) this._drawLabel(row, left, width, top);
    this._drawRequests(row, left, top);
    if (store.selected?.batch !== row) return;
    context.strokeStyle = this.tone("text");
    context.lineWidth = 2;
    context.strokeRect(left, top + 1, width, block - 2);
  }

  /** The requests of a batch, from when they came to the queue until it began. */
  private _drawRequests(row: number, left: number, bottom: number): void {
    const { context, store } = this;
    const [first, end] = store.requestsOf(row);
    const height = this._rowHeight(end - first);
    for (let one = first; one < Math.min(end, first + MOST_ROWS); one++) {
      const isSelected = store.selected?.request === one || store.other === one;
      const wide = Math.max(left - this.x(this.record.tables.requests.queued(one)), 1.5);
      context.fillStyle = this.tone(isSelected ? "text" : "warn");
      context.globalAlpha = isSelected ? 1 : 0.6;
      context.fillRect(left - wide, bottom - (one - first + 1) * height, wide, Math.max(height - 1, 1));
    }
    context.globalAlpha = 1;
  }

  private _drawLabel(row: number, left: number, width: number, top: number): void {
    const { context, record } = this;
    const { batches } = record.tables;
    const reason = record.words.reason[batches.reason(row)] ?? "";
    context.save();
    context.beginPath();
    context.rect(left, top, width, this._block);
    context.clip();
    context.fillStyle = ON_BLOCK;
    this.font();
    context.textAlign = "left";
    const words = this._label(batches.size(row), reason, width);
    context.fillText(words, Math.max(left, this.left) + 4, top + this._block / 2 + 4);
    context.restore();
  }

  private _drawRunning(one: RunningBatch, now: number): void {
    const lane = this._lanes.indexOf(one.instance);
    if (lane < 0) return;
    const { context } = this;
    const block = this._block;
    const top = this._laneTop(lane) + this._waiting;
    const left = this.x(one.start);
    const width = Math.max(this.x(Math.max(now, one.start)) - left, 2);
    context.fillStyle = this.tone("good");
    context.globalAlpha = 0.75;
    context.fillRect(left, top, width, block);
    context.globalAlpha = 1;
    if (width <= 50 || block < WORDS) return;
    context.fillStyle = ON_BLOCK;
    context.textAlign = "left";
    this.font();
    context.fillText(`${one.size} · runs ${duration(now - one.start)}`, Math.max(left, this.left) + 4, top + block / 2 + 4);
  }

  /** Draws the requests in the queue above the first lane: it is not known yet which instance gets them. */
  private _drawWaiting(now: number): void {
    const { context } = this;
    const waiting = this.record.live.waiting ?? [];
    const height = this._rowHeight(waiting.length);
    context.fillStyle = this.tone("warn");
    for (const [place, queued] of waiting.slice(0, MOST_ROWS).entries()) {
      const left = this.x(queued);
      const top = this._laneTop(0) + this._waiting - (place + 1) * height;
      context.fillRect(left, top, Math.max(this.x(now) - left, 1.5), Math.max(height - 1, 1));
    }
  }

  /** Where requests in view found the queue full; others that ended in it have a mark. */
  private _full(): number[] {
    const rejected = [...this.store.rejected(...this.view)];
    return rejected.filter(([, reason]) => reason === FULL).map(([time]) => this.x(time));
  }

  private _drawMarks(): void {
    const { context } = this;
    const y = this._marks + 9;
    context.fillStyle = this.tone("warn");
    for (const x of new Set(this._full().map(Math.round))) context.fillRect(x - 1, y - 5, 2, 9);
    for (const mark of this.record.marks) {
      const x = this.x(mark.time);
      context.fillStyle = this.tone(MARK_TONES[mark.kind] ?? "dim");
      context.beginPath();
      if (mark.kind === "state") context.arc(x, y, 3, 0, 7);
      else drawTriangle(context, x, y);
      context.fill();
    }
  }

  // -- words

  protected drawFacts(): string {
    const { store, record, page } = this;
    const facts = store.facts(...this.view);
    if (!store.selected) this._describeSelected();
    const { waiting_count: waiting, running } = record.live;
    const now = [waiting ? `${waiting} waiting` : "", running?.length ? `${running.length} running` : ""];
    this.summarize(store.following ? now : []);
    const reasons = this.model.get("state").rejections ?? [];
    const lost = [...facts.lost].map(([number, count]): [string, number] => [reasons[number], count]);
    page.facts.replaceChildren(
      sizeBars(facts),
      wordBars("Closed because", [...facts.reasons].sort(byCount), "accent"),
      wordBars("Ended in the queue", lost, "warn"),
      splitBar(facts),
    );
    const ended = lost.map(([reason, count]) => ` ${counted(count, "request")} ended in the queue: ${reason}.`);
    return factsText(facts) + ended.join("");
  }

  protected table(): HTMLTableElement {
    const { record, store } = this;
    const { batches, requests } = record.tables;
    const rows = [...store.visible(...this.view)].slice(-TABLE_ROWS).map((row) => {
      const [start, end] = [batches.start(row), batches.end(row)];
      const [first, stop] = store.requestsOf(row);
      let longest = 0;
      for (let one = first; one < stop; one++) longest = Math.max(longest, start - requests.queued(one));
      const instance = record.words.instance[batches.instance(row)];
      const times = [this.clock.text(start, 1e6), duration(end - start)];
      const reason = record.words.reason[batches.reason(row)] ?? "";
      return [row, instance, ...times, batches.count(row), batches.size(row), duration(longest), reason];
    });
    return factsTable(HEAD, rows);
  }

  private _describeSelected(): void {
    const { store, record, page } = this;
    const { selected } = store;
    if (!selected) {
      const hint = record.tables.batches.length ? HINT : "";
      if (page.detail.textContent !== hint) page.detail.textContent = hint;
      return;
    }
    const lines = [this._batchText(selected.batch)];
    for (const one of [store.other, selected.request]) {
      if (one !== null && one >= record.tables.requests.oldest) lines.push(this._requestText(one));
    }
    if (this._values && this._values.row === selected.request) lines.push(...(this._values.values ?? []));
    page.detail.replaceChildren(...lines.map((line) => element("div", line)));
    if (this._why) page.detail.append(element("div", this._why, "tl-why"));
    if (this.model.get("state").lines) page.detail.append(...this._linesOf(record.tables.batches.size(selected.batch)));
  }

  /** A button for the lines of batches of a size, and what is known of them. */
  private _linesOf(size: number): HTMLElement[] {
    const button = element("button", `Lines of batches of size ${size}`, "tl-button");
    button.onclick = (): void => void send(this.model, { do: "lines", size });
    const told = this._batchLines;
    if (told?.size !== size) return [button];
    const table = told.rows.length ? [factsTable(told.head ?? [], told.rows)] : [];
    const box = element("div", "", "tl-batch-lines");
    box.append(element("div", told.title), ...table);
    return [button, box];
  }

  private _batchText(row: number): string {
    const { batches } = this.record.tables;
    const { instance, reason } = this.record.words;
    const parts = [
      `input ${duration(batches.compute_input(row))}`,
      `infer ${duration(batches.compute_infer(row))}`,
      `output ${duration(batches.compute_output(row))}`,
    ];
    return (
      `Batch ${row} on ${instance[batches.instance(row)]}, version ${batches.version(row)}: ` +
      `${counted(batches.count(row), "request")}, size ${batches.size(row)}, ` +
      `closed because: ${reason[batches.reason(row)] || "unknown"}. ` +
      `It took ${duration(batches.end(row) - batches.start(row))} (${parts.join(", ")})` +
      (batches.failed(row) ? " and failed." : ".")
    );
  }

  private _requestText(row: number): string {
    const { record } = this;
    const { batches, requests } = record.tables;
    const batch = requests.batch(row);
    const waited = duration(batches.start(batch) - requests.queued(row));
    const answered = duration(batches.end(batch) - requests.arrived(row));
    const times = batch >= batches.oldest ? `, waited ${waited}, answered after ${answered}` : "";
    const failed = record.marks.find((mark) => mark.serial && mark.serial === requests.serial(row));
    const shapes = record.shapesText(requests.shapes(row)) || "shapes not kept";
    return `${record.name(row)}: ${shapes}${times}` + (failed ? `; ${failed.kind}: ${failed.text}` : "");
  }
}

function factsText(facts: TimelineFacts): string {
  if (!facts.batches) return "Nothing was executed in the time shown.";
  return (
    `${counted(facts.requests, "request")} in ${counted(facts.batches, "batch")}; waited ${duration(facts.queue.p50)} at the median, ` +
    `${duration(facts.queue.p95)} at the 95th percentile; executed ${duration(facts.compute.p50)} and ${duration(facts.compute.p95)}.`
  );
}

const byCount = (one: [string, number], other: [string, number]): number => other[1] - one[1];

function sizeBars(facts: TimelineFacts): HTMLElement {
  return bars("Batch sizes", [...facts.sizes].sort((one, other) => one[0] - other[0]), "accent");
}

/** Bars whose keys are words. */
function wordBars(title: string, entries: [string, number][], tone: "accent" | "warn"): HTMLElement {
  const box = bars(title, entries, tone);
  box.classList.add("tl-words");
  return box;
}

function splitBar(facts: TimelineFacts): HTMLElement {
  const box = element("div", "", "tl-chart");
  box.append(element("div", "Queue and compute", "tl-dim"));
  const whole = facts.queued + facts.computed;
  const strip = element("div", "", "tl-bar");
  const parts: [number, Tone][] = [[facts.queued, "warn"], [facts.computed, "accent"]];
  for (const [part, tone] of whole ? parts : []) {
    const piece = element("span"); // a pixel wide at least
    piece.style.cssText = `width:${(part / whole) * 100}%;background:var(--tl-${tone})`;
    strip.append(piece);
  }
  box.append(strip);
  const rows = ([["queue", facts.queue], ["compute", facts.compute]] as const).map(([word, { p50, p95 }]) => {
    return [word, duration(p50), duration(p95)];
  });
  box.append(factsTable(["", "p50", "p95"], rows));
  return box;
}

export default { render: renderer(Timeline, TimelineStore, RecordStore, "tl-timeline") };
