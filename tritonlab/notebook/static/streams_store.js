// The streams of a record: which requests had responses when, and which have not ended. Draws nothing.
import { quantile } from "./record_store.js";
import { TimeWindow } from "./time_window.js";

export const [FINAL, EMPTY, ERROR] = [1, 2, 4];
const KEPT = 2000; // streams

export class StreamsStore extends TimeWindow {
  constructor(record) {
    super(record);
    this.selected = null; // a serial number
    this.clear();
  }

  clear() {
    this.epoch = this.record.epoch;
    this.streams = new Map(); // by serial, in the order of their first sign
    this.done = { responses: 0, streams: 0, requests: 0 };
  }

  /** Takes in what the record has that was not looked at yet. */
  refresh() {
    if (this.epoch !== this.record.epoch) this.clear();
    const { responses, streams, requests, batches } = this.record.tables;
    for (let row = Math.max(this.done.responses, responses.oldest); row < responses.total; row++) {
      this.#of(responses.serial(row)).responses.push([responses.time(row), responses.kind(row), responses.shapes(row)]);
    }
    for (let row = Math.max(this.done.streams, streams.oldest); row < streams.total; row++) {
      const told = ["arrived", "executed", "first", "last", "end", "count", "kind", "polls", "asked", "noticed"];
      Object.assign(this.#of(streams.serial(row)), Object.fromEntries(told.map((name) => [name, streams[name](row)])));
    }
    for (let row = Math.max(this.done.requests, requests.oldest); row < requests.total; row++) {
      const stream = this.streams.get(requests.serial(row));
      if (!stream) continue;
      const batch = requests.batch(row);
      Object.assign(stream, { id: this.record.ids.get(row) ?? stream.id, arrived: requests.arrived(row) });
      if (batch >= batches.oldest) stream.instance = this.record.words.instance[batches.instance(batch)];
    }
    this.done = { responses: responses.total, streams: streams.total, requests: requests.total };
    const open = new Set();
    for (const one of this.record.live.open ?? []) {
      open.add(one.serial);
      const stream = this.#of(one.serial);
      if (!stream.end) Object.assign(stream, one, { id: one.id || stream.id });
    }
    for (const [serial, stream] of this.streams) {
      stream.open = open.has(serial) && !stream.end;
      // the only answer of an ordinary request is none of a stream
      if (!stream.open && !stream.end && !stream.responses.length) this.streams.delete(serial);
    }
    for (const serial of this.streams.keys()) {
      if (this.streams.size <= KEPT) break;
      this.streams.delete(serial);
    }
  }

  #of(serial) {
    let stream = this.streams.get(serial);
    if (!stream) {
      stream = { serial, responses: [], arrived: 0, executed: 0, end: 0, polls: 0, asked: 0, noticed: 0, id: "", kind: 0 };
      this.streams.set(serial, stream);
    }
    return stream;
  }

  get busy() {
    return (this.record.live.open?.length ?? 0) > 0;
  }

  get chosenTime() {
    return this.streams.get(this.selected)?.arrived ?? NaN;
  }

  first() {
    let first = Infinity;
    for (const stream of this.streams.values()) first = Math.min(first, begin(stream));
    return first;
  }

  last() {
    const { responses, streams } = this.record.tables;
    const time = responses.length ? responses.time(responses.total - 1) : 0;
    return Math.max(time, streams.length ? streams.end(streams.total - 1) : 0);
  }

  /** Those that touch the time, oldest first. */
  visible(from, to) {
    return [...this.streams.values()]
      .filter((one) => begin(one) <= to && (one.open || (one.end || one.responses.at(-1)?.[0] || begin(one)) >= from))
      .sort((one, other) => begin(one) - begin(other));
  }

  facts(shown) {
    const [first, gaps] = [[], []];
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
    const spread = (of) => ({ p50: quantile(of.sort((a, b) => a - b), 0.5), p95: quantile(of, 0.95) });
    return { streams: shown.length, responses, empty, open, failed, first: spread(first), gap: spread(gaps) };
  }

  /** The next or last of what is in view. */
  step(by, now) {
    const shown = this.visible(...this.window(now));
    if (!shown.length) return;
    const at = shown.findIndex((one) => one.serial === this.selected);
    this.selected = shown[at < 0 ? (by > 0 ? 0 : shown.length - 1) : Math.min(Math.max(at + by, 0), shown.length - 1)].serial;
  }
}

export function begin(stream) {
  return stream.arrived || stream.responses[0]?.[0] || 0;
}

/** When each response came that was not the mere end. */
export function sent(stream) {
  return stream.responses.filter(([, kind]) => !(kind & EMPTY)).map(([time]) => time);
}

/** Who would wait, or not see the end. */
export function hanging(stream) {
  if (stream.open && !stream.executes) return "Its execute has returned, and the final flag was not sent yet: every kind of client waits for it.";
  if (stream.open) return "The final flag was not sent yet.";
  if (stream.kind & EMPTY) {
    return "It ended with an empty final response: a gRPC stream client sees that end only with triton_enable_empty_final_response.";
  }
  return stream.end ? "The last response carried the final flag: every gRPC stream client sees the end." : "";
}

/** What came of asking it to stop; `duration` turns nanoseconds into words. */
export function stopping(stream, now, duration) {
  if (!stream.asked) return "";
  const noticed = stream.noticed
    ? `is_cancelled() returned True after ${duration(stream.noticed - stream.asked)}`
    : stream.polls
      ? "its model has not called is_cancelled() since"
      : "never polled: its model does not call is_cancelled()";
  const closed = stream.end ? `the sender closed after ${duration(stream.end - stream.asked)}` : `it still runs after ${duration(now - stream.asked)}`;
  return `Cancelled; ${noticed}, ${closed}.`;
}
