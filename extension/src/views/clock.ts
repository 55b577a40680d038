// The axis of time: the time of day of what was, the time before now of what is followed.
import { duration } from "./text.js";

const SECOND = 1e9;
const DAY = 86400 * SECOND;
/** Between two marks of an axis of a second and more. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200].map((s) => s * SECOND);
const MINUS = "−";

export interface Tick {
  time: number;
  text: string;
}

export interface TimeAxis {
  ticks: Tick[];
  name: string;
}

/**
 * The time of day of the kernel's clock. `wall`: nanoseconds since the epoch in the kernel's time zone less its clock;
 * null where that is not known, as in a trace of Triton's: times are then counted from `start`.
 */
export class Clock {
  constructor(
    private readonly _wall: number | null,
    private readonly _start = 0,
  ) {}

  /** The time of day, as exactly as marks need that are `step` nanoseconds apart. */
  text(time: number, step: number): string {
    return this._text(time - this._origin(time), step);
  }

  /** The axis from `from` to `to`, with at most `count` marks. */
  axis(from: number, to: number, count: number): TimeAxis {
    const step = timeStep(to - from, count);
    const origin = this._origin(from);
    const ticks = [];
    for (let n = Math.ceil((from - origin) / step); origin + n * step <= to; n++) {
      ticks.push({ time: origin + n * step, text: this._text(n * step, step) });
    }
    const what = this._wall === null ? "time since the first event" : `time of day, ${dateText(from + this._wall)}`;
    return { ticks, name: `${what}; ${stepText(step)} between two marks` };
  }

  /** Midnight before a time, or the start. */
  private _origin(time: number): number {
    return this._wall === null ? this._start : Math.floor((time + this._wall) / DAY) * DAY - this._wall;
  }

  private _text(since: number, step: number): string {
    return this._wall === null ? (since ? duration(since) : "0") : clockText(since, step);
  }
}

/** The axis from `from` to `to` while the view follows: how long before `now`. */
export function axisBeforeNow(from: number, to: number, now: number, count: number): TimeAxis {
  const step = timeStep(to - from, count);
  const ticks = [];
  for (let n = Math.ceil((from - now) / step); now + n * step <= to; n++) {
    ticks.push({ time: now + n * step, text: n ? beforeText(-n * step, step) : "now" });
  }
  return { ticks, name: `time before now; ${stepText(step)} between two marks` };
}

/** The nanoseconds between two marks of an axis with at most `count` of them. */
export function timeStep(span: number, count: number): number {
  const least = Math.max(span / Math.max(count, 1), 1);
  if (least > SECOND / 2) return STEPS.find((step) => step >= least) ?? Math.ceil(least / DAY) * DAY;
  const power = 10 ** Math.floor(Math.log10(least) + 1e-9);
  return [1, 2, 5, 10].map((part) => part * power).find((step) => step >= least * (1 - 1e-9)) ?? 10 * power;
}

/** "100 ms", "2 s", "5 min" */
export function stepText(step: number): string {
  const units: [number, string][] = [[DAY, "d"], [3600 * SECOND, "h"], [60 * SECOND, "min"]];
  const unit = units.find(([size]) => step >= size);
  return unit ? `${step / unit[0]} ${unit[1]}` : duration(step);
}

/** Nanoseconds since midnight as a time of day: "12:30", "12:30:05", "12:30:05.250". */
export function clockText(sinceMidnight: number, step: number): string {
  const since = ((Math.round(sinceMidnight) % DAY) + DAY) % DAY;
  const seconds = Math.floor(since / SECOND);
  const two = (value: number): string => String(Math.floor(value)).padStart(2, "0");
  const minutes = `${two(seconds / 3600)}:${two((seconds / 60) % 60)}`;
  if (step >= 60 * SECOND) return minutes;
  const whole = `${minutes}:${two(seconds % 60)}`;
  const digits = Math.max(9 - Math.floor(Math.log10(step) + 1e-9), 0);
  return digits ? `${whole}.${String(since % SECOND).padStart(9, "0").slice(0, digits)}` : whole;
}

/** The day of nanoseconds since the epoch: "24 Nov 2026". */
export function dateText(ns: number): string {
  const options = { day: "2-digit", month: "short", year: "numeric", timeZone: "UTC" } as const;
  return new Date(ns / 1e6).toLocaleDateString("en-GB", options);
}

/** A time before now in one unit for all marks: "−1.5 s", "−200 ms", "−10 min". */
function beforeText(ns: number, step: number): string {
  const units: [number, string][] = [[60 * SECOND, "min"], [SECOND / 10, "s"], [1e5, "ms"], [1e2, "µs"]];
  const [size, unit] = units.find(([least]) => step >= least) ?? [1, "ns"];
  const scale = unit === "s" ? SECOND : unit === "ms" ? 1e6 : unit === "µs" ? 1e3 : size;
  const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
  return `${MINUS}${(ns / scale).toFixed(digits)} ${unit}`;
}
