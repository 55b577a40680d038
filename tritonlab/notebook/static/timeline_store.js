// What the timeline shows: which lanes, what is in view, what is selected. Draws nothing.
import { quantile } from "./record_store.js";
import { TimeWindow } from "./time_window.js";

export class TimelineStore extends TimeWindow {
  constructor(record) {
    super(record);
    this.clear();
  }

  /** Forgets what was of another record: the kernel's has been cleared. */
  clear() {
    this.epoch = this.record.epoch;
    this.selected = null; // { batch, request } by rows; request null for the batch itself
    this.other = null; // the request selected before
    this.used = new Set(); // instances by their numbers
    this.longest = 0;
    this.seen = 0;
  }

  /** When something happened last. */
  last() {
    const { batches } = this.record.tables;
    const marks = this.record.marks;
    const rejected = this.record.tables.rejected;
    const lost = rejected?.length ? rejected.time(rejected.total - 1) : 0;
    return Math.max(batches.length ? batches.end(batches.total - 1) : 0, marks.length ? marks[marks.length - 1].time : 0, lost);
  }

  first() {
    const { batches, requests } = this.record.tables;
    const first = batches.length ? batches.start(batches.oldest) : Infinity;
    return Math.min(first, requests.length ? requests.arrived(requests.oldest) : Infinity);
  }

  get busy() {
    const live = this.record.live;
    return (live.running?.length ?? 0) + (live.waiting?.length ?? 0) > 0;
  }

  // -- what a person does

  get chosenTime() {
    return this.selected ? this.record.tables.batches.start(this.selected.batch) : NaN;
  }

  /** Brings the selected batch into view. */
  reveal(now) {
    if (!this.selected) return;
    const { batches } = this.record.tables;
    const [start, end] = [batches.start(this.selected.batch), batches.end(this.selected.batch)];
    const [from, to] = this.window(now);
    if (start >= from && end <= to && !this.following) return;
    this.pause(now);
    this.span = Math.max(this.span, (end - start) * 1.5);
    this.end = (start + end) / 2 + this.span / 2;
  }

  select(found, extend = true) {
    if (extend && found?.request != null && this.selected?.request != null && found.request !== this.selected.request) {
      this.other = this.selected.request;
    } else this.other = null;
    this.selected = found;
  }

  /** The next or last batch of the same lane, or the first in view. */
  step(by, now) {
    const { batches } = this.record.tables;
    if (!batches.length) return;
    if (!this.selected || this.selected.batch < batches.oldest) {
      const [from, to] = this.window(now);
      const row = [...this.visible(from, to)].at(by > 0 ? 0 : -1) ?? batches.total - 1;
      this.select({ batch: row, request: null }, false);
    } else {
      const lane = batches.instance(this.selected.batch);
      for (let row = this.selected.batch + by; row >= batches.oldest && row < batches.total; row += by) {
        if (batches.instance(row) !== lane) continue;
        this.select({ batch: row, request: null }, false);
        break;
      }
    }
    this.reveal(now);
  }

  /** The next or last request of the selected batch; before the first is the batch itself. */
  stepRequest(by) {
    if (!this.selected) return;
    const { batches } = this.record.tables;
    const [first, count] = [batches.first(this.selected.batch), batches.count(this.selected.batch)];
    const at = this.selected.request === null ? -1 : this.selected.request - first;
    const to = Math.min(Math.max(at + by, -1), count - 1);
    this.select({ batch: this.selected.batch, request: to < 0 ? null : first + to });
  }

  // -- what there is

  /** The numbers of the instances with a lane, in the order of their names. */
  lanes() {
    if (this.epoch !== this.record.epoch) this.clear();
    const names = this.record.words.instance;
    const used = new Set((this.record.live.running ?? []).map((one) => one.instance));
    const { batches } = this.record.tables;
    for (let row = Math.max(this.seen, batches.oldest); row < batches.total; row++) {
      this.used.add(batches.instance(row));
      this.longest = Math.max(this.longest, batches.end(row) - batches.start(row));
    }
    this.seen = batches.total;
    const found = new Set([...this.used].map((number) => names[number]));
    for (const name of used) found.add(name);
    return [...found].filter(Boolean).sort(byNumbers);
  }

  /** The rows of the batches that touch the time. Batches stand in the order of their ends. */
  *visible(from, to) {
    const { batches } = this.record.tables;
    for (let row = batches.find(batches.end, from); row < batches.total; row++) {
      if (batches.start(row) > to) {
        if (batches.end(row) - this.longest > to) break;
        continue;
      }
      yield row;
    }
  }

  /** The times and reasons of the requests that ended in the queue within the time. */
  *rejected(from, to) {
    const { rejected } = this.record.tables;
    if (!rejected) return;
    for (let row = rejected.find(rejected.time, from); row < rejected.total && rejected.time(row) <= to; row++) {
      yield [rejected.time(row), rejected.reason(row)];
    }
  }

  /** The rows of the requests of a batch that are still kept. */
  requestsOf(batch) {
    const { batches, requests } = this.record.tables;
    const first = batches.first(batch);
    return [Math.max(first, requests.oldest), Math.min(first + batches.count(batch), requests.total)];
  }

  /** Numbers about the time in view: batches by size and by reason, time in the queue and in execution. */
  facts(from, to) {
    const { batches, requests } = this.record.tables;
    const sizes = new Map();
    const reasons = new Map();
    const [queue, compute] = [[], []];
    let [count, failed, queued, computed] = [0, 0, 0, 0];
    for (const row of this.visible(from, to)) {
      count += 1;
      sizes.set(batches.size(row), (sizes.get(batches.size(row)) ?? 0) + 1);
      const reason = this.record.words.reason[batches.reason(row)] ?? "";
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
      failed += batches.failed(row) ? 1 : 0;
      const [start, took] = [batches.start(row), batches.end(row) - batches.start(row)];
      compute.push(took);
      const [first, end] = this.requestsOf(row);
      for (let one = first; one < end; one++) {
        const waited = start - requests.queued(one);
        queue.push(waited);
        queued += waited;
        computed += took;
      }
    }
    const sorted = (numbers) => Float64Array.from(numbers).sort();
    const [q, c] = [sorted(queue), sorted(compute)];
    const lost = new Map(); // requests that ended in the queue, by the numbers of their reasons
    for (const [, reason] of this.rejected(from, to)) lost.set(reason, (lost.get(reason) ?? 0) + 1);
    const spread = (of) => ({ p50: quantile(of, 0.5), p95: quantile(of, 0.95) });
    return { batches: count, requests: queue.length, failed, sizes, reasons, lost, queue: spread(q), compute: spread(c), queued, computed };
  }
}

/** Names in the order of the numbers in them: instance 2 before instance 10. */
export function byNumbers(one, other) {
  return one.localeCompare(other, "en", { numeric: true });
}
