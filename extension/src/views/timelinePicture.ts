// The picture of a timeline: lanes of instances with their executions, requests that wait, and what happened besides.
import { Tone } from "./base.js";
import { Key, drawTriangle } from "./legend.js";
import { RecordState } from "./recordLink.js";
import { Mark, RecordStore, RunningBatch } from "./recordStore.js";
import { duration } from "./text.js";
import { EDGE, TimeCanvas } from "./timeCanvas.js";
import { TimelineStore, byNumbers } from "./timelineStore.js";
import { WhatIfStore } from "./whatIfStore.js";

/** The room of all lanes: one is high, several share it, and only more than five take more. */
const LANES = 136;
const LEAST_LANE = 27;
/** The least height of a block with words in it. */
const WORDS = 14;
/** Of a lane while the sliders are open: the batches of the replay. */
const REPLAYED = 18;
const MARKS = 20;
export const MOST_ROWS = 16;
/** The most height of a request that waits. */
const ROW = 8;
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

export interface TimelineState extends RecordState {
  /** its lines can be looked at */
  lines?: boolean;
  /** there are what-if questions */
  tunable?: boolean;
  /** the reasons why requests end in the queue */
  rejections?: string[];
}

/** Of each pixel of a lane how long it was busy, and whether batches failed or did not. */
interface Density {
  busy: Float32Array;
  kinds: Uint8Array;
}
const GOOD = 1;
const FAILED = 2;

/** `divide`, `measure` and what draws; subclasses have `replay`, of the sliders. */
export abstract class TimelinePicture extends TimeCanvas<TimelineState, RecordStore, TimelineStore> {
  protected lanes: string[] = [];
  /** the height of all lanes, which never becomes less */
  private _area = LANES;

  /** The replay of the sliders, while they are open. */
  protected abstract get replay(): WhatIfStore | null;

  protected override keys(): Key[] {
    return this.replay ? [...KEYS, REPLAY_KEY] : KEYS;
  }

  protected divide(): void {
    this.store.refresh();
    const lanes = this.store.lanes(...this.view);
    const more = this.replay?.lanes.filter((name) => !lanes.includes(name)) ?? [];
    this.lanes = [...lanes, ...more.sort(byNumbers)];
    this.left = this.column(this.lanes.length ? this.lanes : [NO_NAME]);
    this.canvas.dataset.lanes = this.lanes.join(" ");
  }

  protected measure(): number {
    this._area = Math.max(this._area, this.lanes.length * LEAST_LANE);
    return this._area + (this.replay ? this.lanes.length * (REPLAYED + 2) : 0) + MARKS;
  }

  // -- places

  protected get stride(): number {
    return this._laneHeight + (this.replay ? REPLAYED + 2 : 0);
  }

  /** A lane: requests that wait, executions, and a gap. */
  private get _laneHeight(): number {
    return this._area / Math.max(this.lanes.length, 1);
  }

  protected get block(): number {
    return Math.min(Math.max(Math.round(this._laneHeight * 0.36), 10), 28);
  }

  private get _gap(): number {
    return Math.min(Math.round(this._laneHeight * 0.12), 8);
  }

  protected get waiting(): number {
    return this._laneHeight - this.block - this._gap;
  }

  /** The height of each of the requests that wait in one lane. */
  protected rowHeight(count: number): number {
    return Math.min(this.waiting / Math.min(Math.max(count, 4), MOST_ROWS), ROW);
  }

  protected laneTop(lane: number): number {
    return this.top + lane * this.stride;
  }

  /** Below the lanes, where the marks are. */
  protected get marks(): number {
    return this.bottom - MARKS;
  }

  protected markAt(x: number, y: number): Mark | null {
    if (y < this.marks) return null;
    return this.record.marks.filter((mark) => Math.abs(this.x(mark.time) - x) < 6).at(-1) ?? null;
  }

  // -- drawing

  protected override paintGround(): void {
    for (const lane of this.lanes.keys()) this._drawLane(lane);
  }

  protected paint(now: number): void {
    const { canvas, store, record } = this;
    this.clipped(() => this._drawBlocks(now));
    const replay = this.replay;
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
    const top = this.laneTop(lane) + this.waiting;
    const block = this.block;
    context.fillStyle = this.tone("soft");
    context.fillRect(this.left, top, this.width, block);
    if (this.replay) context.fillRect(this.left, top + block + 2, this.width, REPLAYED);
    this.name(this.lanes[lane], top + block / 2 + 4);
  }

  /** Draws the replayed batches below the executed ones. */
  private _drawReplay(replay: WhatIfStore): void {
    const { context } = this;
    const places = replay.lanes.map((name) => this.lanes.indexOf(name));
    this.font();
    context.textAlign = "left";
    for (const batch of replay.visible(...this.view)) {
      const top = this.laneTop(places[batch.lane]) + this.waiting + this.block + 2;
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
    const dense: (Density | null)[] = this.lanes.map(() => null);
    const places = record.words.instance.map((name) => this.lanes.indexOf(name));
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
    const block = this.block;
    const bottom = this.laneTop(lane) + this.waiting + block;
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
    const block = this.block;
    const top = this.laneTop(lane) + this.waiting;
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
    const height = this.rowHeight(end - first);
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
    context.rect(left, top, width, this.block);
    context.clip();
    context.fillStyle = ON_BLOCK;
    this.font();
    context.textAlign = "left";
    const words = this._label(batches.size(row), reason, width);
    context.fillText(words, Math.max(left, this.left) + 4, top + this.block / 2 + 4);
    context.restore();
  }

  private _drawRunning(one: RunningBatch, now: number): void {
    const lane = this.lanes.indexOf(one.instance);
    if (lane < 0) return;
    const { context } = this;
    const block = this.block;
    const top = this.laneTop(lane) + this.waiting;
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
    const height = this.rowHeight(waiting.length);
    context.fillStyle = this.tone("warn");
    for (const [place, queued] of waiting.slice(0, MOST_ROWS).entries()) {
      const left = this.x(queued);
      const top = this.laneTop(0) + this.waiting - (place + 1) * height;
      context.fillRect(left, top, Math.max(this.x(now) - left, 1.5), Math.max(height - 1, 1));
    }
  }

  /** Where requests in view found the queue full; others that ended in it have a mark. */
  protected full(): number[] {
    const rejected = [...this.store.rejected(...this.view)];
    return rejected.filter(([, reason]) => reason === FULL).map(([time]) => this.x(time));
  }

  private _drawMarks(): void {
    const { context } = this;
    const y = this.marks + 9;
    context.fillStyle = this.tone("warn");
    for (const x of new Set(this.full().map(Math.round))) context.fillRect(x - 1, y - 5, 2, 9);
    for (const mark of this.record.marks) {
      const x = this.x(mark.time);
      context.fillStyle = this.tone(MARK_TONES[mark.kind] ?? "dim");
      context.beginPath();
      if (mark.kind === "state") context.arc(x, y, 3, 0, 7);
      else drawTriangle(context, x, y);
      context.fill();
    }
  }
}
