// The streams of a record: which requests had responses when, and which have not ended. Draws nothing.
import { RecordStore, StreamColumn } from "./recordStore.js";
import { Spread, spread } from "./text.js";
import { TimeWindow } from "./timeWindow.js";

/** The kind of a response is a sum of these. */
export const FINAL = 1;
export const EMPTY = 2;
export const ERROR = 4;

const MOST_STREAMS = 2000;
const COLUMNS: StreamColumn[] = [
  "arrived",
  "executed",
  "first",
  "last",
  "end",
  "count",
  "kind",
  "polls",
  "asked",
  "noticed",
];

export interface StreamResponse {
  time: number;
  kind: number;
  shapes: number;
}

/** A request with a stream of responses; a time is 0 if that never happened. */
export interface Stream {
  serial: number;
  id: string;
  instance?: string;
  responses: StreamResponse[];
  arrived: number;
  executed: number;
  end: number;
  kind: number;
  polls: number;
  /** when a view cancelled it, and when its model saw that */
  asked: number;
  noticed: number;
  open?: boolean;
  /** its `execute` runs */
  executes?: boolean;
}

export interface StreamFacts {
  streams: number;
  responses: number;
  empty: number;
  open: number;
  failed: number;
  first: Spread;
  gap: Spread;
}

export class StreamsStore extends TimeWindow {
  /** a serial number */
  selected: number | null = null;
  /** by serial, in the order of their first sign */
  streams = new Map<number, Stream>();
  private _epoch: number | null;
  private _read = { responses: 0, streams: 0, requests: 0 };

  constructor(readonly record: RecordStore) {
    super();
    this._epoch = record.epoch;
  }

  clear(): void {
    this._epoch = this.record.epoch;
    this.streams = new Map();
    this._read = { responses: 0, streams: 0, requests: 0 };
  }

  /** Takes in what the record has that was not read yet. */
  refresh(): void {
    if (this._epoch !== this.record.epoch) this.clear();
    this._readTables();
    this._readOpen();
    for (const serial of this.streams.keys()) {
      if (this.streams.size <= MOST_STREAMS) break;
      this.streams.delete(serial);
    }
  }

  get busy(): boolean {
    return (this.record.live.open?.length ?? 0) > 0;
  }

  get selectedTime(): number {
    return (this.selected === null ? undefined : this.streams.get(this.selected)?.arrived) ?? NaN;
  }

  first(): number {
    let first = Infinity;
    for (const stream of this.streams.values()) first = Math.min(first, begin(stream));
    return first;
  }

  last(): number {
    const { responses, streams } = this.record.tables;
    const time = responses.length ? responses.time(responses.total - 1) : 0;
    return Math.max(time, streams.length ? streams.end(streams.total - 1) : 0);
  }

  /** Those that touch the time, oldest first. */
  visible(from: number, to: number): Stream[] {
    return [...this.streams.values()]
      .filter((one) => begin(one) <= to && (one.open || lastSign(one) >= from))
      .sort((one, other) => begin(one) - begin(other));
  }

  facts(shown: Stream[]): StreamFacts {
    const first: number[] = [];
    const gaps: number[] = [];
    let [responses, empty, open, failed] = [0, 0, 0, 0];
    for (const one of shown) {
      open += one.open ? 1 : 0;
      empty += one.kind & EMPTY ? 1 : 0;
      failed += one.kind & ERROR ? 1 : 0;
      const times = sent(one);
      responses += times.length;
      if (times.length) first.push(times[0] - begin(one));
      for (let n = 1; n < times.length; n++) gaps.push(times[n] - times[n - 1]);
    }
    return { streams: shown.length, responses, empty, open, failed, first: spread(first), gap: spread(gaps) };
  }

  /** Selects the next or last of what is in view. */
  step(by: number, now: number): void {
    const shown = this.visible(...this.window(now));
    if (!shown.length) return;
    const at = shown.findIndex((one) => one.serial === this.selected);
    const begin = by > 0 ? 0 : shown.length - 1;
    this.selected = shown[at < 0 ? begin : Math.min(Math.max(at + by, 0), shown.length - 1)].serial;
  }

  private _readTables(): void {
    const { responses, streams, requests, batches } = this.record.tables;
    for (let row = Math.max(this._read.responses, responses.oldest); row < responses.total; row++) {
      const response = { time: responses.time(row), kind: responses.kind(row), shapes: responses.shapes(row) };
      this._of(responses.serial(row)).responses.push(response);
    }
    for (let row = Math.max(this._read.streams, streams.oldest); row < streams.total; row++) {
      const facts = Object.fromEntries(COLUMNS.map((name) => [name, streams[name](row)]));
      Object.assign(this._of(streams.serial(row)), facts);
    }
    for (let row = Math.max(this._read.requests, requests.oldest); row < requests.total; row++) {
      const stream = this.streams.get(requests.serial(row));
      if (!stream) continue;
      const batch = requests.batch(row);
      stream.id = this.record.ids.get(row) ?? stream.id;
      stream.arrived = requests.arrived(row);
      if (batch >= batches.oldest) stream.instance = this.record.words.instance[batches.instance(batch)];
    }
    this._read = { responses: responses.total, streams: streams.total, requests: requests.total };
  }

  private _readOpen(): void {
    const open = new Set<number>();
    for (const one of this.record.live.open ?? []) {
      open.add(one.serial);
      const stream = this._of(one.serial);
      if (!stream.end) Object.assign(stream, one, { id: one.id || stream.id });
    }
    for (const [serial, stream] of this.streams) {
      stream.open = open.has(serial) && !stream.end;
      // an ordinary request's only answer is not a stream's
      if (!stream.open && !stream.end && !stream.responses.length) this.streams.delete(serial);
    }
  }

  private _of(serial: number): Stream {
    let stream = this.streams.get(serial);
    if (!stream) {
      const nothing = { arrived: 0, executed: 0, end: 0, polls: 0, asked: 0, noticed: 0, kind: 0 };
      stream = { serial, id: "", responses: [], ...nothing };
      this.streams.set(serial, stream);
    }
    return stream;
  }
}

export function begin(stream: Stream): number {
  return stream.arrived || stream.responses[0]?.time || 0;
}

/** When something was last seen of a stream. */
export function lastSign(stream: Stream): number {
  return stream.end || stream.responses.at(-1)?.time || begin(stream);
}

/** When each response came, without a mere end. */
export function sent(stream: Stream): number[] {
  return stream.responses.filter(({ kind }) => !(kind & EMPTY)).map(({ time }) => time);
}

/** Who would wait, or not see the end. */
export function hanging(stream: Stream): string {
  if (stream.open && !stream.executes) {
    return "Its execute has returned, and the final flag was not sent yet: every kind of client waits for it.";
  }
  if (stream.open) return "The final flag was not sent yet.";
  if (stream.kind & EMPTY) {
    return "It ended with an empty final response: a gRPC stream client sees that end only with triton_enable_empty_final_response.";
  }
  return stream.end ? "The last response carried the final flag: every gRPC stream client sees the end." : "";
}

/** What followed a cancellation; `duration` turns nanoseconds into words. */
export function stopping(stream: Stream, now: number, duration: (ns: number) => string): string {
  if (!stream.asked) return "";
  const noticed = stream.noticed
    ? `is_cancelled() returned True after ${duration(stream.noticed - stream.asked)}`
    : stream.polls
      ? "its model has not called is_cancelled() since"
      : "never polled: its model does not call is_cancelled()";
  const closed = stream.end
    ? `the sender closed after ${duration(stream.end - stream.asked)}`
    : `it still runs after ${duration(now - stream.asked)}`;
  return `Cancelled; ${noticed}, ${closed}.`;
}
