// Custom metrics, and Triton's own of one model: the values of each series over time, as rates, values and observations.
import { BrowserRecord } from "./recordStore.js";
import { Table, makeTable, numbersOf } from "./table.js";
import { bytes, duration, quantile, short } from "./text.js";
import { TimeWindow } from "./timeWindow.js";

const COLUMNS = ["time", "value"] as const;
/** Triton's own begin with it. */
const OWN = "nv_";
/** Rates are those of the last two seconds, of custom counters as of those that are read once a second. */
export const RATE_NS = 2e9;
/** Nanoseconds in the unit that ends a metric's name, as Prometheus's convention has it. */
const DURATIONS: [string, number][] = [["_seconds", 1e9], ["_ms", 1e6], ["_us", 1e3], ["_ns", 1]];
/** What takes the time that Triton's own metrics count. */
const SUBJECTS: [string, string][] = [
  ["_queue_duration", "waiting"],
  ["_compute_infer_duration", "compute"],
  ["_compute_input_duration", "input"],
  ["_compute_output_duration", "output"],
  ["_request_duration", "requests"],
];

/** "sampled": a counter that is read now and then; "bytes": a gauge of bytes. */
export type MetricKind = "counter" | "sampled" | "gauge" | "histogram" | "bytes";
export type Labels = [name: string, value: string][];

export interface Series {
  number: number;
  name: string;
  labels: Labels;
  table: Table<"time" | "value">;
}

export interface Family {
  name: string;
  kind: MetricKind;
  description: string;
  series: Series[];
}

/** A message of `views/metrics.py`. */
export interface MetricsMessage {
  kind: "record";
  epoch: number;
  rows: { number: number; name: string; labels: Labels; at: number; oldest: number }[];
  families?: Record<string, [MetricKind, string]>;
  warnings?: string[];
  now?: number;
}

/** What the browser has of the series. */
export class MetricsRecord implements BrowserRecord {
  epoch: number | null = null;
  /** by number */
  series = new Map<number, Series>();
  families: Partial<Record<string, [MetricKind, string]>> = {};
  warnings: string[] = [];
  readonly dropped = 0;

  constructor(
    _columns: unknown,
    readonly capacity: number,
  ) {}

  clear(): void {
    this.series = new Map();
    this.families = {};
    this.warnings = [];
  }

  get kept(): number {
    return [...this.series.values()].reduce((sum, { table }) => sum + table.length, 0);
  }

  get known(): unknown {
    const rows = Object.fromEntries([...this.series].map(([number, { table }]) => [number, table.total]));
    return { epoch: this.epoch, rows };
  }

  apply(message: MetricsMessage, buffers: (DataView | ArrayBuffer)[]): boolean {
    if (message.epoch !== this.epoch) this.clear();
    this.epoch = message.epoch;
    for (const { number, at, oldest } of message.rows) {
      if (at > (this.series.get(number)?.table.total ?? 0) && at > oldest) return false;
    }
    for (const [place, { number, name, labels, at }] of message.rows.entries()) {
      const series = this.series.get(number) ?? { number, name, labels, table: makeTable(COLUMNS, this.capacity) };
      this.series.set(number, series);
      series.table.put(at, numbersOf(buffers[place]));
    }
    Object.assign(this.families, message.families ?? {});
    this.warnings = message.warnings ?? this.warnings;
    return true;
  }
}

export class MetricsStore extends TimeWindow {
  override span = 30e9;

  constructor(readonly record: MetricsRecord) {
    super();
  }

  get busy(): boolean {
    return this.record.series.size > 0;
  }

  get selectedTime(): number {
    return NaN;
  }

  first(): number {
    return Math.min(...this._tables().map((table) => (table.length ? table.time(table.oldest) : Infinity)));
  }

  last(): number {
    return Math.max(0, ...this._tables().map((table) => (table.length ? table.time(table.total - 1) : 0)));
  }

  /** The families, also those without a value yet, with their series: the author's own first, by name. */
  families(): Family[] {
    const found = new Map<string, Family>();
    for (const name of Object.keys(this.record.families)) found.set(name, this._family(name));
    for (const series of this.record.series.values()) {
      const family = found.get(series.name) ?? this._family(series.name);
      found.set(series.name, family);
      family.series.push(series);
    }
    const isOwn = (family: Family): number => Number(family.name.startsWith(OWN));
    return [...found.values()].sort((one, other) => isOwn(one) - isOwn(other) || one.name.localeCompare(other.name));
  }

  /**
   * Points of a series in `bins` equal parts of the time: of a counter how fast it grew a second, over `RATE_NS` or the
   * part if that is longer; of a gauge its value at the end of each part; of a histogram how often a second it was
   * observed in the part. NaN where nothing is known.
   */
  points({ table }: Series, kind: MetricKind, from: number, to: number, bins: number): Float64Array {
    const found = new Float64Array(bins).fill(NaN);
    const width = (to - from) / bins;
    if (kind === "counter" || kind === "sampled") {
      const window = Math.max(RATE_NS, width);
      const [begin, end] = [new Growth(table, kind, from - window), new Growth(table, kind, from - window)];
      for (let bin = 0; bin < bins; bin++) found[bin] = rate(begin, end, from + (bin + 1) * width, window);
      return found;
    }
    let row = table.find(table.time, from);
    let value = row > table.oldest ? table.value(row - 1) : NaN;
    for (let bin = 0; bin < bins; bin++) {
      let count = 0;
      for (; row < table.total && table.time(row) <= from + (bin + 1) * width; row++, count++) value = table.value(row);
      found[bin] = kind === "histogram" ? count / (width / 1e9) : value;
    }
    return found;
  }

  /** The value of a series at the end of its curve, which is at most `to`; NaN if it has none. */
  present(series: Series, kind: MetricKind, to: number): number {
    const { table } = series;
    if (!table.length) return NaN;
    const last = table.time(table.total - 1);
    if (kind === "histogram") return this.observed(series, to - RATE_NS, to).count / (RATE_NS / 1e9);
    if (kind === "counter" || kind === "sampled") {
      const end = kind === "sampled" ? Math.min(to, last) : to;
      const begin = end - RATE_NS;
      return rate(new Growth(table, kind, begin), new Growth(table, kind, begin), end, RATE_NS);
    }
    const row = table.find(table.time, to) - (to < last ? 1 : 0);
    return row < table.oldest ? NaN : table.value(Math.min(row, table.total - 1));
  }

  /** Median and 95th percentile of what a histogram observed in that time, and how often. */
  observed({ table }: Series, from: number, to: number): { count: number; p50: number; p95: number } {
    const values = [];
    for (let row = table.find(table.time, from); row < table.total && table.time(row) <= to; row++) values.push(table.value(row));
    values.sort((one, other) => one - other);
    return { count: values.length, p50: quantile(values, 0.5), p95: quantile(values, 0.95) };
  }

  /** The current values of the first `most` series of a family, with their labels if there are several. */
  familyText({ series, kind }: Family, from: number, to: number, most = 4): string {
    const labels = (one: Series): string => (series.length > 1 ? `${labelText(one.labels)} ` : "");
    return series.slice(0, most).map((one) => `${labels(one)}${this.seriesText(one, kind, from, to)}`).join("; ");
  }

  /** The current value of a series, in the words of its kind. */
  seriesText(series: Series, kind: MetricKind, from: number, to: number): string {
    const { name, table } = series;
    if (kind === "histogram") {
      const { count, p50, p95 } = this.observed(series, from, to);
      return `${count} observed, p50 ${valueText(name, kind, p50)}, p95 ${valueText(name, kind, p95)}`;
    }
    const now = this.present(series, kind, to);
    const value = valueText(name, kind, table.length ? table.value(table.total - 1) : NaN);
    if (kind === "counter" || kind === "sampled") return `${value}, ${rateText(name, now)}`;
    if (kind === "gauge") return valueText(name, kind, now);
    return `${bytes(now)}, ${this.bytesText(series)}`;
  }

  /** How the bytes of a series went: "at most 12 MiB, grown by 3 MiB". */
  bytesText({ table }: Series): string {
    let most = 0;
    for (let row = table.oldest; row < table.total; row++) most = Math.max(most, table.value(row));
    const grown = table.length ? table.value(table.total - 1) - table.value(table.oldest) : 0;
    return `at most ${bytes(most)}, grown by ${bytes(grown)}`;
  }

  private _family(name: string): Family {
    const [kind, description] = this.record.families[name] ?? (["gauge", ""] as const);
    return { name, kind, description, series: [] };
  }

  private _tables(): Series["table"][] {
    return [...this.record.series.values()].map(({ table }) => table);
  }
}

/** How much a counter has grown since `from`, at times that do not fall; one that fell has begun again. */
class Growth {
  private _row: number;
  private _sum = 0;

  constructor(
    private readonly _table: Series["table"],
    private readonly _kind: MetricKind,
    from: number,
  ) {
    this._row = _table.find(_table.time, from);
  }

  /** When the first change is known. */
  get begin(): number {
    return this._table.length ? this._table.time(this._table.oldest) : Infinity;
  }

  at(time: number): number {
    const { _table: table } = this;
    for (; this._row < table.total && table.time(this._row) <= time; this._row++) this._sum += this._step(this._row);
    if (this._kind !== "sampled") return this._sum;
    // it grew evenly from one reading to the next
    const row = this._row;
    if (row >= table.total) return time > table.time(table.total - 1) ? NaN : this._sum;
    if (row === table.oldest) return NaN;
    const share = (time - table.time(row - 1)) / (table.time(row) - table.time(row - 1));
    return this._sum + share * this._step(row);
  }

  /** How much it grew with a row. */
  private _step(row: number): number {
    const { _table: table } = this;
    // the first row of a custom counter is its first increment; that of a reading is a beginning
    if (row === table.oldest) return this._kind === "counter" && row === 0 ? table.value(row) : 0;
    const [before, value] = [table.value(row - 1), table.value(row)];
    return Math.max(value < before ? value : value - before, 0);
  }
}

/** How fast a counter grew a second in the `window` before a time; NaN where that is not known. */
function rate(begin: Growth, end: Growth, time: number, window: number): number {
  if (time < begin.begin) return NaN;
  const from = Math.max(time - window, begin.begin);
  const isYoung = from > time - window;
  const before = isYoung ? 0 : begin.at(from);
  return (end.at(time) - before) / ((isYoung ? Math.max(time - from, RATE_NS / 2) : window) / 1e9);
}

/** A value with the unit that its metric's name ends with: "1.6 ms", "12 MiB", "12". */
export function valueText(name: string, kind: MetricKind, value: number): string {
  const unit = name.replace(/_total$/, "");
  if (kind === "bytes" || unit.endsWith("_bytes")) return Number.isFinite(value) ? bytes(value) : "–";
  const size = durationUnit(name);
  return size && value ? duration(value * size) : short(value);
}

/** A rate in words: "1.6 s of compute per second", "25.5 per second". */
export function rateText(name: string, value: number): string {
  const size = durationUnit(name);
  if (!Number.isFinite(value)) return "–";
  if (!size) return `${short(value)} per second`;
  const subject = SUBJECTS.find(([part]) => name.includes(part))?.[1];
  return `${value ? duration(value * size) : "0 s"}${subject ? ` of ${subject}` : ""} per second`;
}

function durationUnit(name: string): number {
  const unit = name.replace(/_total$/, "");
  return DURATIONS.find(([end]) => unit.endsWith(end))?.[1] ?? 0;
}

/** The labels in which a series differs from the others of its family: the values, with their names if there are several. */
export function differingText({ labels }: Series, family: Series[]): string {
  const differing = labels.filter(([name, value]) => family.some((other) => !other.labels.some(([n, v]) => n === name && v === value)));
  return differing.length === 1 ? differing[0][1] : labelText(differing);
}

export function labelText(labels: Labels): string {
  return labels.map(([name, value]) => `${name}=${value}`).join(", ");
}
