// What would have happened: the settings that the sliders say, and the batches that a replay formed with them
// (`views/what_if_lanes.py`). Draws nothing.
import { numbersOf } from "./record_store.js";

const WIDTH = 6;
export const FIELDS = ["max_queue_delay_microseconds", "preferred_batch_size", "max_batch_size", "instances"];

export class WhatIfStore {
  constructor() {
    this.choices = null; // of each field the values of its slider; `now`: the present settings
    this.settings = null;
    this.clear();
  }

  clear() {
    this.rows = new Float64Array(0);
    this.lanes = [];
    this.reasons = [];
    this.part = "";
    this.longest = 0;
  }

  get length() {
    return this.rows.length / WIDTH;
  }

  /** Takes what the sliders offer; they keep what they say if it is still offered. */
  offer(choices) {
    this.choices = choices;
    this.settings = { ...choices.now };
  }

  /** The place of a field's value on its slider. */
  place(field) {
    const value = JSON.stringify(this.settings[field]);
    return Math.max(this.choices[field].findIndex((one) => JSON.stringify(one) === value), 0);
  }

  /** Sets a field to the value at a place of its slider; what cannot be said with it is changed, too. */
  set(field, place) {
    const settings = { ...this.settings, [field]: this.choices[field][place] };
    if (field === "max_queue_delay_microseconds" || field === "preferred_batch_size") settings.dynamic_batching = settings.max_batch_size > 0;
    if (field === "preferred_batch_size") settings.max_batch_size = Math.max(settings.max_batch_size, ...settings.preferred_batch_size);
    else settings.preferred_batch_size = settings.preferred_batch_size.filter((size) => size <= settings.max_batch_size);
    this.settings = settings;
  }

  apply(message, buffer) {
    this.rows = numbersOf(buffer);
    this.reasons = message.reasons;
    this.part = message.part;
    this.longest = 0;
    let lanes = message.lanes.length;
    for (let row = 0; row < this.length; row++) {
      const ghost = this.ghost(row);
      this.longest = Math.max(this.longest, ghost.end - ghost.start);
      lanes = Math.max(lanes, ghost.lane + 1);
    }
    this.lanes = Array.from({ length: lanes }, (_, n) => message.lanes[n] ?? `instance ${n + 1}`);
  }

  ghost(row) {
    const [start, end, lane, size, count, reason] = this.rows.subarray(row * WIDTH, (row + 1) * WIDTH);
    return { start, end, lane, size, count, reason: this.reasons[reason] };
  }

  /** The ghosts that touch a time; they stand in the order of their starts. */
  *visible(from, to) {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle * WIDTH] < from - this.longest) low = middle + 1;
      else high = middle;
    }
    for (let row = low; row < this.length && this.rows[row * WIDTH] <= to; row++) {
      if (this.rows[row * WIDTH + 1] >= from) yield this.ghost(row);
    }
  }
}
