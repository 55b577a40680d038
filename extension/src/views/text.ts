// Numbers and times as people read them.

/** The value at a share of the sorted numbers, by the rule of `tritonlab/core/percentiles.py`; NaN of none. */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  if (!sorted.length) return NaN;
  return sorted[Math.floor(share * (sorted.length - 1) + 0.5)];
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

/** Nanoseconds for people, as `duration_text` of the kernel writes them: "1.25 ms". */
export function duration(ns: number): string {
  if (!Number.isFinite(ns)) return "–";
  const [scale, unit] = Math.abs(ns) >= 1e9 ? [1e9, "s"] : Math.abs(ns) >= 1e6 ? [1e6, "ms"] : [1e3, "µs"];
  const value = ns / scale;
  const digits = Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
  return `${digits} ${unit}`;
}

/** Seconds that go on, as a clock: "3.2 s", "1 min 5 s", "2 h 1 min". */
export function seconds(value: number): string {
  const whole = Math.round(value);
  if (value < 59.95) return `${value.toFixed(1)} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.round(value / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Bytes of memory: "12 KiB", "3.42 MiB". */
export function bytes(value: number): string {
  return scaled(value, [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]], "B", 3);
}

/** Bytes of files, as `size_text` of the kernel counts them: "12 kB", "3.4 MB". */
export function size(value: number): string {
  return scaled(value, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]], "bytes", 2);
}

function scaled(value: number, steps: [number, string][], least: string, digits: number): string {
  const step = steps.find(([one]) => Math.abs(value) >= one);
  return step ? `${Number((value / step[0]).toPrecision(digits))} ${step[1]}` : `${value} ${least}`;
}
