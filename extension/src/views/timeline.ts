// The timeline of a model: a lane for each instance, its executions as blocks that grow while they run, the requests
// that waited for them, and what happened besides.
import { Model } from "./anywidget.js";
import { Tone, cells, counted, element, send } from "./base.js";
import { RecordState, ViewMessage } from "./recordLink.js";
import { Mark, RecordStore, RunningBatch } from "./recordStore.js";
import { duration } from "./text.js";
import { AXIS, CanvasPage, LEFT, TimeCanvas, bars, renderer } from "./timeCanvas.js";
import { Selection, TimelineFacts, TimelineStore, byNumbers } from "./timelineStore.js";
import { WhatIf, WhatIfMessage } from "./whatIf.js";
import { WhatIfStore } from "./whatIfStore.js";

const WAITING = 34; // of a lane: requests that wait
const BLOCK = 24; // of a lane: executions
const REPLAYED = 18; // of a lane while the sliders are open: the batches of the replay
const GAP = 10;
const MARKS = 22;
const MOST_ROWS = 16;
const TABLE_ROWS = 200;
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

interface State extends RecordState {
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
  private _marksTop = 0;
  private _values: Answer | null = null;
  private _why = "";

  constructor(model: Model<State, ViewMessage>, page: CanvasPage, store: TimelineStore) {
    super(model, page, store);
    const window = (): number[] => store.window(this.now());
    this._whatIf = model.get("state").tunable ? new WhatIf(model, page.root, window, () => this.wake()) : null;
  }

  override onMessage(message: ViewMessage, buffers: DataView[]): void {
    if (message.kind === "what if") return this._whatIf?.onMessage(message as WhatIfMessage, buffers);
    super.onMessage(message, buffers);
    if (message.kind !== "answer") return;
    const answer = message as Answer;
    if (answer.values) this._values = answer;
    else this._why = answer.why ?? "";
    this._describeSelected();
  }

  protected measure(): number {
    const lanes = this.store.lanes();
    const more = this._replay?.lanes.filter((name) => !lanes.includes(name)) ?? [];
    this._lanes = [...lanes, ...more.sort(byNumbers)];
    this._marksTop = this._laneTop(Math.max(this._lanes.length, 1));
    return this._marksTop + MARKS;
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
    const full = y < this._marksTop ? 0 : this._full().filter((place) => Math.abs(place - x) < 6).length;
    if (full) return `${counted(full, "request")} refused: the queue was full`;
    const lane = Math.floor((y - AXIS) / this._stride);
    const replay = this._replay;
    if (!replay || !this._lanes[lane] || y - this._laneTop(lane) < WAITING + BLOCK) return "";
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
    return WAITING + BLOCK + (this._replay ? REPLAYED + 2 : 0) + GAP;
  }

  private _laneTop(lane: number): number {
    return AXIS + lane * this._stride;
  }

  /** The batch or the waiting request at a place. */
  private _hit(x: number, y: number): Selection | null {
    const lane = Math.floor((y - AXIS) / this._stride);
    const name = this._lanes[lane];
    const within = y - this._laneTop(lane);
    if (name === undefined || within >= WAITING + BLOCK) return null;
    const { batches, requests } = this.record.tables;
    let best: (Selection & { far: number }) | null = null;
    for (const row of this.store.visible(...this.view)) {
      if (this.record.words.instance[batches.instance(row)] !== name) continue;
      const [left, right] = [this.x(batches.start(row)), this.x(batches.end(row))];
      if (within >= WAITING) {
        const far = Math.max(left - x, x - right, 0);
        if (far < 5 && (!best || far < best.far)) best = { batch: row, request: null, far };
        continue;
      }
      const [first, end] = this.store.requestsOf(row);
      const request = first + Math.floor(within / rowHeight(end - first));
      if (request >= Math.min(end, first + MOST_ROWS)) continue;
      const far = Math.max(this.x(requests.queued(request)) - x, x - left, 0);
      if (far < 4 && (!best || far < best.far)) best = { batch: row, request, far };
    }
    return best && { batch: best.batch, request: best.request };
  }

  private _markAt(x: number, y: number): Mark | null {
    if (y < this._marksTop) return null;
    return this.record.marks.filter((mark) => Math.abs(this.x(mark.time) - x) < 6).at(-1) ?? null;
  }

  // -- drawing

  protected paint(now: number): void {
    const { canvas, store, record } = this;
    for (const lane of this._lanes.keys()) this._drawLane(lane);
    this.clipped(this._marksTop, () => this._drawBlocks(now));
    for (const [lane, name] of this._lanes.entries()) this._drawName(lane, name);
    const replay = this._replay;
    canvas.dataset.replayed = String(replay?.length ?? 0);
    canvas.dataset.replayedPart = replay?.part ?? "";
    canvas.dataset.replayedLanes = String(replay?.lanes.length ?? 0);
    if (replay) this.clipped(this._marksTop, () => this._drawReplay(replay));
    this._drawMarks();
    if (!this._lanes.length) this.text("No request has been executed yet.", LEFT, AXIS + 30);
    const selected = store.selected;
    canvas.dataset.batches = String(record.tables.batches.length);
    canvas.dataset.selection = selected ? [selected.batch, selected.request].filter((row) => row !== null).join("/") : "";
  }

  private _drawLane(lane: number): void {
    const { context } = this;
    const top = this._laneTop(lane);
    context.fillStyle = this.tone("soft");
    context.fillRect(LEFT, top + WAITING, this.width, BLOCK);
    if (this._replay) context.fillRect(LEFT, top + WAITING + BLOCK + 2, this.width, REPLAYED);
  }

  /** Above the requests that wait, whose marks would make it unreadable. */
  private _drawName(lane: number, name: string): void {
    const { context } = this;
    const top = this._laneTop(lane);
    this.font();
    context.clearRect(LEFT, top - 1, context.measureText(name).width + 8, 13);
    this.text(name, LEFT + 2, top + 9);
  }

  /** Draws the replayed batches below the executed ones. */
  private _drawReplay(replay: WhatIfStore): void {
    const { context } = this;
    const places = replay.lanes.map((name) => this._lanes.indexOf(name));
    this.font();
    context.textAlign = "left";
    for (const batch of replay.visible(...this.view)) {
      const top = this._laneTop(places[batch.lane]) + WAITING + BLOCK + 2;
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
      context.fillText(this._fitting(batch.size, batch.reason, width), Math.max(left, LEFT) + 4, top + 13);
    }
  }

  /** The left edge and the width of a block; wider ones leave a pixel to the next. */
  private _extent(start: number, end: number): [left: number, width: number] {
    const [left, right] = [this.x(start), this.x(end)];
    return [left, Math.max(right - left - (right - left > 3 ? 1 : 0), 1)];
  }

  /** The size of a batch, with its reason if that fits into the width. */
  private _fitting(size: number, reason: string, width: number): string {
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
    const bottom = this._laneTop(lane) + WAITING + BLOCK;
    context.globalAlpha = 0.85;
    for (const kind of [GOOD, FAILED]) {
      context.fillStyle = this.tone(kind === FAILED ? "bad" : "accent");
      for (let pixel = 0; pixel < busy.length; pixel++) {
        if (!busy[pixel] || (kinds[pixel] & FAILED || GOOD) !== kind) continue;
        const height = Math.max(Math.min(busy[pixel] / perPixel, 1) * BLOCK, 2);
        context.fillRect(LEFT + pixel, bottom - height, 1, height);
      }
    }
    context.globalAlpha = 1;
  }

  private _drawBatch(lane: number, row: number, start: number, end: number): void {
    const { context, store } = this;
    const { batches } = this.record.tables;
    const top = this._laneTop(lane);
    const [left, width] = this._extent(start, end);
    context.fillStyle = this.tone(batches.failed(row) ? "bad" : "accent");
    context.globalAlpha = 0.55;
    context.fillRect(left, top + WAITING, width, BLOCK);
    context.globalAlpha = 1;
    const inner = this.x(start + batches.compute_input(row));
    const infer = this.x(start + batches.compute_input(row) + batches.compute_infer(row));
    context.fillRect(inner, top + WAITING, Math.max(Math.min(infer, left + width) - inner, 0), BLOCK);
    if (width > 16) this._drawLabel(row, left, width, top);
    this._drawRequests(row, left, top);
    if (store.selected?.batch !== row) return;
    context.strokeStyle = this.tone("text");
    context.lineWidth = 2;
    context.strokeRect(left, top + WAITING + 1, width, BLOCK - 2);
  }

  /** The requests of a batch, from when they came to the queue until it began. */
  private _drawRequests(row: number, left: number, top: number): void {
    const { context, store } = this;
    const [first, end] = store.requestsOf(row);
    const height = rowHeight(end - first);
    for (let one = first; one < Math.min(end, first + MOST_ROWS); one++) {
      const isSelected = store.selected?.request === one || store.other === one;
      const wide = Math.max(left - this.x(this.record.tables.requests.queued(one)), 1.5);
      context.fillStyle = this.tone(isSelected ? "text" : "warn");
      context.globalAlpha = isSelected ? 1 : 0.6;
      context.fillRect(left - wide, top + (one - first) * height + 0.5, wide, Math.max(height - 1, 1));
    }
    context.globalAlpha = 1;
  }

  private _drawLabel(row: number, left: number, width: number, top: number): void {
    const { context, record } = this;
    const { batches } = record.tables;
    const reason = record.words.reason[batches.reason(row)] ?? "";
    context.save();
    context.beginPath();
    context.rect(left, top + WAITING, width, BLOCK);
    context.clip();
    context.fillStyle = ON_BLOCK;
    this.font();
    context.textAlign = "left";
    context.fillText(this._fitting(batches.size(row), reason, width), Math.max(left, LEFT) + 4, top + WAITING + 16);
    context.restore();
  }

  private _drawRunning(one: RunningBatch, now: number): void {
    const lane = this._lanes.indexOf(one.instance);
    if (lane < 0) return;
    const { context } = this;
    const top = this._laneTop(lane) + WAITING;
    const left = this.x(one.start);
    const width = Math.max(this.x(Math.max(now, one.start)) - left, 2);
    context.fillStyle = this.tone("good");
    context.globalAlpha = 0.75;
    context.fillRect(left, top, width, BLOCK);
    context.globalAlpha = 1;
    if (width <= 50) return;
    context.fillStyle = ON_BLOCK;
    context.textAlign = "left";
    this.font();
    context.fillText(`${one.size} · runs ${duration(now - one.start)}`, Math.max(left, LEFT) + 4, top + 16);
  }

  /** Draws the requests in the queue above the first lane: it is not known yet which instance gets them. */
  private _drawWaiting(now: number): void {
    const { context } = this;
    const waiting = this.record.live.waiting ?? [];
    const height = rowHeight(waiting.length);
    context.fillStyle = this.tone("warn");
    for (const [place, queued] of waiting.slice(0, MOST_ROWS).entries()) {
      const left = this.x(queued);
      const top = this._laneTop(0) + place * height + 0.5;
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
    const y = this._marksTop + 8;
    context.fillStyle = this.tone("warn");
    for (const x of new Set(this._full().map(Math.round))) context.fillRect(x - 1, y - 5, 2, 9);
    for (const mark of this.record.marks) {
      const x = this.x(mark.time);
      if (x < LEFT || x > LEFT + this.width) continue;
      context.fillStyle = this.tone(MARK_TONES[mark.kind] ?? "dim");
      context.beginPath();
      if (mark.kind === "state") context.arc(x, y, 3, 0, 7);
      else {
        context.moveTo(x, y - 5);
        context.lineTo(x + 5, y + 4);
        context.lineTo(x - 5, y + 4);
      }
      context.fill();
    }
  }

  // -- words

  protected drawFacts(): string {
    const { store, record, page } = this;
    const facts = store.facts(...this.view);
    const { live, dropped } = record;
    const now = [];
    if (live.waiting_count) now.push(`${live.waiting_count} waiting`);
    if (live.running?.length) now.push(`${live.running.length} running`);
    if (dropped) now.push(`${dropped.toLocaleString("en")} events not kept`);
    page.summary.textContent = now.join(" · ");
    const reasons = this.model.get("state").rejections ?? [];
    const lost = [...facts.lost].map(([number, count]): [string, number] => [reasons[number], count]);
    const charts = [sizeBars(facts), wordBars("Closed because", [...facts.reasons].sort(byCount), "accent"), splitBar(facts)];
    page.facts.replaceChildren(...charts, ...(lost.length ? [wordBars("Ended in the queue", lost, "warn")] : []));
    const ended = lost.map(([reason, count]) => ` ${counted(count, "request")} ended in the queue: ${reason}.`);
    return factsText(facts) + ended.join("");
  }

  protected table(): HTMLTableElement {
    const { record, store } = this;
    const { batches, requests } = record.tables;
    const table = element("table", "", "tl-tensors");
    table.append(cells(["batch", "instance", "start", "took", "requests", "size", "closed because", "longest wait"], "th"));
    for (const row of [...store.visible(...this.view)].slice(-TABLE_ROWS)) {
      const [start, end] = [batches.start(row), batches.end(row)];
      const [first, stop] = store.requestsOf(row);
      let longest = 0;
      for (let one = first; one < stop; one++) longest = Math.max(longest, start - requests.queued(one));
      const instance = record.words.instance[batches.instance(row)];
      const times = [duration(start - store.zero()), duration(end - start)];
      const reason = record.words.reason[batches.reason(row)] ?? "";
      table.append(cells([row, instance, ...times, batches.count(row), batches.size(row), reason, duration(longest)]));
    }
    return table;
  }

  private _describeSelected(): void {
    const { store, record, page } = this;
    const { selected } = store;
    if (!selected) {
      page.detail.textContent = this._lanes.length ? HINT : "";
      return;
    }
    const lines = [this._batchText(selected.batch)];
    for (const one of [store.other, selected.request]) {
      if (one !== null && one >= record.tables.requests.oldest) lines.push(this._requestText(one));
    }
    if (this._values && this._values.row === selected.request) lines.push(...(this._values.values ?? []));
    page.detail.replaceChildren(...lines.map((line) => element("div", line)));
    if (this._why) page.detail.append(element("div", this._why, "tl-why"));
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

/** The height of each of the requests that wait in one lane. */
function rowHeight(count: number): number {
  return WAITING / Math.min(Math.max(count, 4), MOST_ROWS);
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
  for (const [word, of] of [["queue", facts.queue], ["compute", facts.compute]] as const) {
    box.append(element("div", `${word}  p50 ${duration(of.p50)}  p95 ${duration(of.p95)}`));
  }
  return box;
}

export default { render: renderer(Timeline, TimelineStore, RecordStore) };
