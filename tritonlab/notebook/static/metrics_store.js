// Custom metrics, and Triton's own of one model: what each series was when, as rates, values and observations.
import { Table, numbersOf, quantile, short } from "./record_store.js";
import { TimeWindow } from "./time_window.js";

const COLUMNS = ["time", "value"];

/** What the browser has of the series: `views/metrics.py` sends it. */
export class MetricsRecord {
  constructor(columns, capacity) {
    this.capacity = capacity;
    this.epoch = null;
    this.clear();
  }

  clear() {
    this.series = new Map(); // by number
    this.families = {}; // name: [kind, description]
    this.warnings = [];
    this.marks = [];
    this.live = {};
    this.dropped = 0;
  }

  get tables() {
    return Object.fromEntries([...this.series].map(([number, series]) => [number, series.table]));
  }

  get known() {
    return { epoch: this.epoch, rows: Object.fromEntries([...this.series].map(([number, { table }]) => [number, table.total])) };
  }

  apply(message, buffers) {
    if (message.epoch !== this.epoch) this.clear();
    this.epoch = message.epoch;
    for (const { number, at, oldest } of message.rows) {
      if (at > (this.series.get(number)?.table.total ?? 0) && at > oldest) return false;
    }
    for (const [place, { number, name, labels, at }] of message.rows.entries()) {
      if (!this.series.has(number)) this.series.set(number, { number, name, labels, table: new Table(COLUMNS, this.capacity) });
      this.series.get(number).table.put(at, numbersOf(buffers[place]));
    }
    Object.assign(this.families, message.families ?? {});
    this.warnings = message.warnings ?? this.warnings;
    return true;
  }
}

export class MetricsStore extends TimeWindow {
  selected = null;
  span = 30e9;

  get busy() {
    return this.record.series.size > 0;
  }

  get chosenTime() {
    return NaN;
  }

  first() {
    return Math.min(...[...this.record.series.values()].map(({ table }) => (table.length ? table.time(table.oldest) : Infinity)));
  }

  last() {
    return Math.max(0, ...[...this.record.series.values()].map(({ table }) => (table.length ? table.time(table.total - 1) : 0)));
  }

  /** The families with their series: the author's own first, by name. */
  families() {
    const found = new Map();
    for (const series of this.record.series.values()) {
      if (!found.has(series.name)) {
        const [kind, about] = this.record.families[series.name] ?? ["gauge", ""];
        found.set(series.name, { name: series.name, kind, about, series: [] });
      }
      found.get(series.name).series.push(series);
    }
    const own = (family) => family.name.startsWith("nv_");
    return [...found.values()].sort((one, other) => own(one) - own(other) || one.name.localeCompare(other.name));
  }

  /**
   * Points of a series in `bins` equal parts of the time: of a counter how fast it grew, of a gauge what it was at the end
   * of each part, of a histogram how often it was observed; "sampled" is a counter that was read now and then. NaN where
   * nothing is known.
   */
  points({ table }, kind, from, to, bins) {
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
      // a counter that fell was begun anew
      if (kind === "counter") found[bin] = (Math.max(value < before ? value : value - before, 0) || 0) / (width / 1e9);
    }
    return found;
  }

  /** Median and 95th percentile of what a histogram observed in that time, and how often. */
  observed({ table }, from, to) {
    const values = [];
    for (let row = table.find(table.time, from); row < table.total && table.time(row) <= to; row++) values.push(table.value(row));
    values.sort((one, other) => one - other);
    return { count: values.length, p50: quantile(values, 0.5), p95: quantile(values, 0.95) };
  }

  /** What the first `most` series of a family are now, with their labels if there are several. */
  toldAll({ series, kind }, from, to, most = 4) {
    const labels = (one) => (series.length > 1 ? `${labelText(one.labels)} ` : "");
    return series.slice(0, most).map((one) => `${labels(one)}${this.told(one, kind, from, to)}`).join("; ");
  }

  /** What a series is now, in the words of its kind. */
  told(series, kind, from, to) {
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
}

/** How fast a counter that is read now and then grew around a time, a second. */
function slope(table, time) {
  const row = table.find(table.time, time);
  if (row <= table.oldest || row >= table.total) return NaN;
  const took = table.time(row) - table.time(row - 1);
  return Math.max(table.value(row) - table.value(row - 1), 0) / (took / 1e9);
}

/** Bytes for people. */
export function bytes(value) {
  const step = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]].find(([size]) => Math.abs(value) >= size);
  return step ? `${Number((value / step[0]).toPrecision(3))} ${step[1]}` : `${value} B`;
}

export function labelText(labels) {
  return labels.map(([name, value]) => `${name}=${value}`).join(", ");
}
