// Numbers and times as people read them.

/** The value that a share of the sorted numbers does not exceed; NaN of none. */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  if (!sorted.length) return NaN;
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

export interface Spread {
  p50: number;
  p95: number;
}

/** The median and the 95th percentile. */
export function spread(values: number[]): Spread {
  const sorted = Float64Array.from(values).sort();
  return { p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95) };
}

/** "1,250", "0.333", "12.3M" */
export function short(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return value.toLocaleString("en");
  const notation = Math.abs(value) >= 1e6 ? "compact" : "standard";
  return Number(value.toPrecision(3)).toLocaleString("en", { notation, maximumSignificantDigits: 3 });
}

const STEPS = [1, 2, 5];
const UNITS: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/** Nanoseconds for people: "1.25 ms". */
export function duration(ns: number): string {
  if (!Number.isFinite(ns)) return "–";
  const [scale, unit] = UNITS.find(([scale]) => Math.abs(ns) >= scale) ?? [1, "ns"];
  const value = ns / scale;
  return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ${unit}`.replace(/\.0+ /, " ");
}

export interface Tick {
  time: number;
  text: string;
}

/** Times at which a scale from `from` to `to` has lines, at most `count`, with their texts; `zero` is time 0. */
export function ticks(from: number, to: number, zero: number, count: number): Tick[] {
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

/** Bytes for people. */
export function bytes(value: number): string {
  const units: [number, string][] = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
  const step = units.find(([size]) => Math.abs(value) >= size);
  return step ? `${Number((value / step[0]).toPrecision(3))} ${step[1]}` : `${value} B`;
}
