// What the timeline shows: which lanes, what is in view, what is selected. Draws nothing.
import { RecordStore } from "./recordStore.js";
import { Spread, spread } from "./text.js";
import { TimeWindow } from "./timeWindow.js";

/** By rows of the record; `request` is null for the batch itself. */
export interface Selection {
  batch: number;
  request: number | null;
}

/** Numbers about the time in view. */
export interface TimelineFacts {
  batches: number;
  requests: number;
  failed: number;
  /** how many batches, by size and by reason */
  sizes: Map<number, number>;
  reasons: Map<string, number>;
  /** how many requests ended in the queue, by the numbers of their reasons */
  lost: Map<number, number>;
  queue: Spread;
  compute: Spread;
  queued: number;
  computed: number;
}

export class TimelineStore extends TimeWindow {
  selected: Selection | null = null;
  /** the request selected before */
  other: number | null = null;
  /** nanoseconds of the longest batch */
  longest = 0;
  private _epoch: number | null;
  /** instances by their numbers */
  private _used = new Set<number>();
  private _seen = 0;

  constructor(readonly record: RecordStore) {
    super();
    this._epoch = record.epoch;
  }

  /** Forgets another record: the kernel's was cleared. */
  clear(): void {
    this._epoch = this.record.epoch;
    this.selected = this.other = null;
    this._used = new Set();
    this.longest = this._seen = 0;
  }

  last(): number {
    const { batches, rejected } = this.record.tables;
    const lost = rejected?.length ? rejected.time(rejected.total - 1) : 0;
    return Math.max(batches.length ? batches.end(batches.total - 1) : 0, this.record.marks.at(-1)?.time ?? 0, lost);
  }

  first(): number {
    const { batches, requests } = this.record.tables;
    const first = batches.length ? batches.start(batches.oldest) : Infinity;
    const mark = this.record.marks[0]?.time ?? Infinity;
    return Math.min(first, mark, requests.length ? requests.arrived(requests.oldest) : Infinity);
  }

  get busy(): boolean {
    const { running, waiting } = this.record.live;
    return (running?.length ?? 0) + (waiting?.length ?? 0) > 0;
  }

  // -- what a person does

  get selectedTime(): number {
    return this.selected ? this.record.tables.batches.start(this.selected.batch) : NaN;
  }

  /** Brings the selected batch into view. */
  reveal(now: number): void {
    if (!this.selected) return;
    const { batches } = this.record.tables;
    const [start, end] = [batches.start(this.selected.batch), batches.end(this.selected.batch)];
    const [from, to] = this.window(now);
    if (start >= from && end <= to && !this.following) return;
    this.pause(now);
    this.span = Math.max(this.span, (end - start) * 1.5);
    this.end = (start + end) / 2 + this.span / 2;
  }

  select(found: Selection | null, extend = true): void {
    const before = this.selected?.request ?? null;
    const request = found?.request ?? null;
    this.other = extend && request !== null && before !== null && request !== before ? before : null;
    this.selected = found;
  }

  /** Selects the next or last batch of the same lane, or the first in view. */
  step(by: number, now: number): void {
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

  /** Selects the next or last request of the selected batch; before the first is the batch itself. */
  stepRequest(by: number): void {
    if (!this.selected) return;
    const { batches } = this.record.tables;
    const [first, count] = [batches.first(this.selected.batch), batches.count(this.selected.batch)];
    const at = this.selected.request === null ? -1 : this.selected.request - first;
    const to = Math.min(Math.max(at + by, -1), count - 1);
    this.select({ batch: this.selected.batch, request: to < 0 ? null : first + to });
  }

  // -- what there is

  /** Reads what has come to the record. */
  refresh(): void {
    if (this._epoch !== this.record.epoch) this.clear();
    const { batches } = this.record.tables;
    for (let row = Math.max(this._seen, batches.oldest); row < batches.total; row++) {
      this._used.add(batches.instance(row));
      this.longest = Math.max(this.longest, batches.end(row) - batches.start(row));
    }
    this._seen = batches.total;
  }

  /**
   * The names of the instances with a lane, in the order of the numbers in them: those there are now, and those that
   * are gone while an execution of theirs is in view.
   */
  lanes(from: number, to: number): string[] {
    const names = this.record.words.instance;
    const { batches } = this.record.tables;
    const { instances, running } = this.record.live;
    const found = new Set([...(instances ?? []), ...(running ?? []).map(({ instance }) => instance)]);
    const gone = new Set([...this._used].filter((number) => names[number] && !found.has(names[number])));
    if (!instances) for (const number of gone) found.add(names[number]); // of a file, which has no present
    else if (gone.size) for (const row of this.visible(from, to)) {
      const number = batches.instance(row);
      if (!gone.delete(number)) continue;
      found.add(names[number]);
      if (!gone.size) break;
    }
    return [...found].sort(byNumbers);
  }

  /** The rows of the batches that touch the time. Batches stand in the order of their ends. */
  *visible(from: number, to: number): Generator<number> {
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
  *rejected(from: number, to: number): Generator<[time: number, reason: number]> {
    const { rejected } = this.record.tables;
    if (!rejected) return;
    for (let row = rejected.find(rejected.time, from); row < rejected.total && rejected.time(row) <= to; row++) {
      yield [rejected.time(row), rejected.reason(row)];
    }
  }

  /** The rows of the requests of a batch that are still kept. */
  requestsOf(batch: number): [first: number, end: number] {
    const { batches, requests } = this.record.tables;
    const first = batches.first(batch);
    return [Math.max(first, requests.oldest), Math.min(first + batches.count(batch), requests.total)];
  }

  facts(from: number, to: number): TimelineFacts {
    const { batches, requests } = this.record.tables;
    const sizes = new Map<number, number>();
    const reasons = new Map<string, number>();
    const [waits, times]: [number[], number[]] = [[], []];
    let [count, failed, queued, computed] = [0, 0, 0, 0];
    for (const row of this.visible(from, to)) {
      count += 1;
      increment(sizes, batches.size(row));
      increment(reasons, this.record.words.reason[batches.reason(row)] ?? "");
      failed += batches.failed(row) ? 1 : 0;
      const [start, took] = [batches.start(row), batches.end(row) - batches.start(row)];
      times.push(took);
      const [first, end] = this.requestsOf(row);
      for (let one = first; one < end; one++) {
        const waited = start - requests.queued(one);
        waits.push(waited);
        queued += waited;
        computed += took;
      }
    }
    const lost = new Map<number, number>();
    for (const [, reason] of this.rejected(from, to)) increment(lost, reason);
    const [queue, compute] = [spread(waits), spread(times)];
    return { batches: count, requests: waits.length, failed, sizes, reasons, lost, queue, compute, queued, computed };
  }
}

function increment<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

/** Names in the order of the numbers in them: instance 2 before instance 10. */
export function byNumbers(one: string, other: string): number {
  return one.localeCompare(other, "en", { numeric: true });
}
