// What the kernel has recorded of one model, as far as the browser has got it: `views/record_view.py` sends it.
// Nothing here knows of a page, so that node can test it.

const FIRST_ROWS = 1024;

/** The last rows of a table of numbers; row n is the n-th that was ever added (`profile/ring.py`). */
export class Table {
  constructor(columns, capacity) {
    this.columns = columns;
    this.width = columns.length;
    this.capacity = capacity;
    this.clear();
    for (const [place, name] of columns.entries()) this[name] = (row) => this.data[(row % this.room) * this.width + place];
  }

  clear() {
    this.room = Math.min(FIRST_ROWS, this.capacity);
    this.data = new Float64Array(this.room * this.width);
    this.total = 0;
    this.oldest = 0; // the oldest row that is kept
  }

  get length() {
    return this.total - this.oldest;
  }

  /** Adds rows that begin at number `at`; those that are known are skipped. */
  put(at, numbers) {
    const skipped = Math.max(this.total - at, 0);
    const count = numbers.length / this.width - skipped;
    if (count <= 0) return;
    if (at > this.total) this.total = this.oldest = at;
    this.#grow(this.length + count);
    for (let n = 0; n < count; n++, this.total++) {
      const from = (skipped + n) * this.width;
      this.data.set(numbers.subarray(from, from + this.width), (this.total % this.room) * this.width);
    }
    this.oldest = Math.max(this.oldest, this.total - this.capacity);
  }

  #grow(rows) {
    if (rows <= this.room || this.room === this.capacity) return;
    const [room, data] = [this.room, this.data];
    while (this.room < rows) this.room *= 2;
    this.room = Math.min(this.room, this.capacity);
    this.data = new Float64Array(this.room * this.width);
    for (let row = this.oldest; row < this.total; row++) {
      const from = (row % room) * this.width;
      this.data.set(data.subarray(from, from + this.width), (row % this.room) * this.width);
    }
  }

  /** The first kept row whose `value(row)` is at least `limit`; `value` must not fall from row to row. */
  find(value, limit) {
    let [low, high] = [this.oldest, this.total];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (value(middle) < limit) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export class RecordStore {
  /** `columns`: of each table its columns; `capacity`: rows kept of each. */
  constructor(columns, capacity) {
    this.tables = Object.fromEntries(Object.entries(columns).map(([name, of]) => [name, new Table(of, capacity)]));
    this.epoch = null;
    this.clear();
  }

  clear() {
    for (const table of Object.values(this.tables)) table.clear();
    this.words = { instance: [], reason: [], shapes: [], sequence: [] };
    this.ids = new Map();
    this.marks = [];
    this.markCount = 0;
    this.live = {};
    this.dropped = 0; // in the kernel, of all tables
    this.changes = 0;
  }

  /** What the kernel need not send again. */
  get known() {
    const rows = Object.fromEntries(Object.entries(this.tables).map(([name, table]) => [name, table.total]));
    return { epoch: this.epoch, rows, marks: this.markCount, words: this.#counts() };
  }

  /** Takes a message of the kernel; false if one before it was lost, and `known` must be told again. */
  apply(message, buffers) {
    if (message.epoch !== this.epoch) {
      this.clear();
      this.epoch = message.epoch;
    }
    const counts = this.#counts();
    for (const [kind, [from]] of Object.entries(message.words ?? {})) if (from > counts[kind]) return false;
    for (const { table, at, oldest } of message.rows) {
      if (at > this.tables[table].total && at > oldest) return false;
    }
    for (const [number, { table, at }] of message.rows.entries()) {
      this.tables[table].put(at, numbersOf(buffers[number]));
    }
    for (const [kind, [from, words]] of Object.entries(message.words ?? {})) this.words[kind].splice(from, words.length, ...words);
    for (const [row, id] of message.ids ?? []) this.ids.set(row, id);
    this.#forget();
    for (const mark of message.marks ?? []) {
      if (mark[0] < this.markCount) continue;
      const [number, time, kind, text, serial] = mark;
      this.marks.push({ number, time, kind, text, serial });
      this.markCount = number + 1;
    }
    if (this.marks.length > 1000) this.marks.splice(0, this.marks.length - 1000);
    if (message.live) this.live = message.live;
    this.dropped = message.dropped ?? this.dropped;
    this.changes++;
    return true;
  }

  #counts() {
    return Object.fromEntries(Object.entries(this.words).map(([kind, list]) => [kind, list.length]));
  }

  #forget() {
    const requests = this.tables.requests;
    if (!requests || this.ids.size <= requests.length) return;
    for (const row of this.ids.keys()) if (row < requests.oldest) this.ids.delete(row);
  }

  /** What people call the request of a row. */
  name(row) {
    return this.ids.get(row) || `request ${this.tables.requests.serial(row)}`;
  }
}

/** The numbers of a buffer, wherever in memory the comm put it. */
export function numbersOf(buffer) {
  const view = buffer instanceof DataView ? buffer : new DataView(buffer);
  if (view.byteOffset % 8 === 0) return new Float64Array(view.buffer, view.byteOffset, view.byteLength / 8);
  return new Float64Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
}

/** The value that a share of the sorted numbers does not exceed; NaN of none. */
export function quantile(sorted, share) {
  if (!sorted.length) return NaN;
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

/** A number for people. */
export function short(value) {
  if (!Number.isFinite(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return value.toLocaleString("en");
  return Number(value.toPrecision(3)).toLocaleString("en", { notation: Math.abs(value) >= 1e6 ? "compact" : "standard", maximumSignificantDigits: 3 });
}

const STEPS = [1, 2, 5];
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/** Nanoseconds for people: "1.25 ms". */
export function duration(ns) {
  if (!Number.isFinite(ns)) return "–";
  const [scale, unit] = UNITS.find(([scale]) => Math.abs(ns) >= scale) ?? [1, "ns"];
  const value = ns / scale;
  return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ${unit}`.replace(/\.0+ /, " ");
}

/** Times at which a scale from `from` to `to` has lines, at most `count`, with their texts; `zero` is time 0. */
export function ticks(from, to, zero, count) {
  if (!(to > from) || count < 1) return [];
  let step = 1;
  for (let n = 0; (to - from) / step > count; n++) step = STEPS[n % 3] * 10 ** Math.floor(n / 3);
  const [scale, unit] = UNITS.find(([scale]) => step >= scale / 10) ?? [1, "ns"];
  const found = [];
  for (let n = Math.ceil((from - zero) / step); zero + n * step <= to; n++) {
    const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
    found.push({ time: zero + n * step, text: `${((n * step) / scale).toFixed(digits)} ${unit}` });
  }
  return found;
}
