// Custom metrics, and Triton's own of one model: the values of each series over time, as rates, values and observations.
import { BrowserRecord } from "./recordStore.js";
import { Table, makeTable, numbersOf } from "./table.js";
import { bytes, quantile, short } from "./text.js";
import { TimeWindow } from "./timeWindow.js";

const COLUMNS = ["time", "value"] as const;
/** Triton's own begin with it. */
const OWN = "nv_";

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

  /** The families with their series: the author's own first, by name. */
  families(): Family[] {
    const found = new Map<string, Family>();
    for (const series of this.record.series.values()) {
      const { name } = series;
      const [kind, description] = this.record.families[name] ?? (["gauge", ""] as const);
      const family = found.get(name) ?? { name, kind, description, series: [] };
      found.set(name, family);
      family.series.push(series);
    }
    const isOwn = (family: Family): number => Number(family.name.startsWith(OWN));
    return [...found.values()].sort((one, other) => isOwn(one) - isOwn(other) || one.name.localeCompare(other.name));
  }

  /**
   * Points of a series in `bins` equal parts of the time: of a counter how fast it grew, of a gauge its value at the end
   * of each part, of a histogram how often it was observed; "sampled" is a counter that was read now and then. NaN where
   * nothing is known.
   */
  points({ table }: Series, kind: MetricKind, from: number, to: number, bins: number): Float64Array {
    const found = new Float64Array(bins).fill(kind === "gauge" || kind === "bytes" ? NaN : 0);
    const width = (to - from) / bins;
    if (kind === "sampled") {
      for (let bin = 0; bin < bins; bin++) found[bin] = slope(table, from + (bin + 0.5) * width);
      return found;
    }
    let row = table.find(table.time, from);
    let value = row > table.oldest ? table.value(row - 1) : NaN;
    if (kind === "counter" && Number.isNaN(value) && table.oldest === 0) value = 0; // it began here
    for (let bin = 0; bin < bins; bin++) {
      const before = value;
      for (; row < table.total && table.time(row) <= from + (bin + 1) * width; row++) {
        value = table.value(row);
        if (kind === "histogram") found[bin] += 1;
      }
      if (kind === "gauge" || kind === "bytes") found[bin] = value;
      // a counter that fell has begun again
      if (kind === "counter") found[bin] = (Math.max(value < before ? value : value - before, 0) || 0) / (width / 1e9);
    }
    return found;
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
    const { table } = series;
    const value = table.length ? table.value(table.total - 1) : NaN;
    if (kind === "sampled") return `${short(value)}, ${short(slope(table, Math.min(to, this.last()) - 1))} a second`;
    if (kind === "counter") {
      const [rate] = this.points(series, kind, from, to, 1);
      return `${short(value)}, ${short(rate)} a second`;
    }
    if (kind === "gauge") return short(value);
    if (kind === "bytes") {
      let most = 0;
      for (let row = table.oldest; row < table.total; row++) most = Math.max(most, table.value(row));
      return `${bytes(value)}, at most ${bytes(most)}, grown by ${bytes(value - table.value(table.oldest))}`;
    }
    const { count, p50, p95 } = this.observed(series, from, to);
    return `${count} observed, p50 ${short(p50)}, p95 ${short(p95)}`;
  }

  protected firstMark(): number {
    return Infinity;
  }

  private _tables(): Series["table"][] {
    return [...this.record.series.values()].map(({ table }) => table);
  }
}

/** How fast a counter that is read now and then grew around a time, a second. */
function slope(table: Series["table"], time: number): number {
  const row = table.find(table.time, time);
  if (row <= table.oldest || row >= table.total) return NaN;
  const took = table.time(row) - table.time(row - 1);
  return Math.max(table.value(row) - table.value(row - 1), 0) / (took / 1e9);
}

export function labelText(labels: Labels): string {
  return labels.map(([name, value]) => `${name}=${value}`).join(", ");
}
