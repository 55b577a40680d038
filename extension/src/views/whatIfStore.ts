// What would have happened: the settings of the sliders, and the batches that a replay formed with them
// (`views/what_if_lanes.py`). Draws nothing.
import { numbersOf } from "./table.js";

const WIDTH = 6;
export const FIELDS = ["max_queue_delay_microseconds", "preferred_batch_size", "max_batch_size", "instances"] as const;
export type Field = (typeof FIELDS)[number];

export interface Settings {
  max_batch_size: number;
  dynamic_batching: boolean;
  preferred_batch_size: number[];
  max_queue_delay_microseconds: number;
  instances: number;
}

/** The present settings, and of each field the values of its slider. */
export type Choices = { now: Settings } & { [F in Field]: Settings[F][] };

export interface ReplayMessage {
  part: "view" | "all";
  reasons: string[];
  /** the names of the instances there are */
  lanes: string[];
}

export interface ReplayedBatch {
  start: number;
  end: number;
  lane: number;
  size: number;
  count: number;
  reason: string;
}

export class WhatIfStore {
  choices: Choices | null = null;
  settings: Settings | null = null;
  lanes: string[] = [];
  /** which part of the record was replayed, or "" */
  part = "";
  private _rows = new Float64Array(0);
  private _reasons: string[] = [];
  private _longest = 0;

  clear(): void {
    this._rows = new Float64Array(0);
    this.lanes = [];
    this._reasons = [];
    this.part = "";
    this._longest = 0;
  }

  get length(): number {
    return this._rows.length / WIDTH;
  }

  /** Takes what the sliders offer; they are set to the present settings. */
  offer(choices: Choices): void {
    this.choices = choices;
    this.settings = { ...choices.now };
  }

  /** Whether the sliders are at the present settings. */
  get isUnchanged(): boolean {
    return FIELDS.every((field) => JSON.stringify(this.settings?.[field]) === JSON.stringify(this.choices?.now[field]));
  }

  /** The place of a field's value on its slider. */
  place(field: Field): number {
    const value = JSON.stringify(this.settings?.[field]);
    return Math.max(this.choices?.[field].findIndex((one) => JSON.stringify(one) === value) ?? 0, 0);
  }

  /** Sets a field to the value at a place of its slider; other fields that contradict it are changed, too. */
  set(field: Field, place: number): void {
    if (!this.choices || !this.settings) return;
    const settings: Settings = { ...this.settings, [field]: this.choices[field][place] };
    const isBatching = field === "max_queue_delay_microseconds" || field === "preferred_batch_size";
    if (isBatching) settings.dynamic_batching = settings.max_batch_size > 0;
    const preferred = settings.preferred_batch_size;
    if (field === "preferred_batch_size") settings.max_batch_size = Math.max(settings.max_batch_size, ...preferred);
    else settings.preferred_batch_size = preferred.filter((size) => size <= settings.max_batch_size);
    this.settings = settings;
  }

  apply(message: ReplayMessage, buffer: DataView | ArrayBuffer): void {
    this._rows = numbersOf(buffer);
    this._reasons = message.reasons;
    this.part = message.part;
    this._longest = 0;
    let lanes = message.lanes.length;
    for (let row = 0; row < this.length; row++) {
      const batch = this._batch(row);
      this._longest = Math.max(this._longest, batch.end - batch.start);
      lanes = Math.max(lanes, batch.lane + 1);
    }
    this.lanes = Array.from({ length: lanes }, (_, n) => message.lanes[n] ?? `instance ${n + 1}`);
  }

  /** The batches that touch a time; they stand in the order of their starts. */
  *visible(from: number, to: number): Generator<ReplayedBatch> {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this._rows[middle * WIDTH] < from - this._longest) low = middle + 1;
      else high = middle;
    }
    for (let row = low; row < this.length && this._rows[row * WIDTH] <= to; row++) {
      if (this._rows[row * WIDTH + 1] >= from) yield this._batch(row);
    }
  }

  private _batch(row: number): ReplayedBatch {
    const [start, end, lane, size, count, reason] = this._rows.subarray(row * WIDTH, (row + 1) * WIDTH);
    return { start, end, lane, size, count, reason: this._reasons[reason] };
  }
}
