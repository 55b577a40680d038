// Custom metrics and Triton's own, a chart for each family: counters as rates, gauges as lines, histograms as bars. At
// the left is the scale, at the right the value that each curve has now.
import { Tone, counted, element, factsTable } from "./base.js";
import {
  Family,
  MetricKind,
  MetricsRecord,
  MetricsStore,
  RATE_NS,
  Series,
  differingText,
  labelText,
  rateText,
  valueText,
} from "./metricsStore.js";
import { RecordState } from "./recordLink.js";
import { duration, short } from "./text.js";
import { EDGE, TimeCanvas, renderer } from "./timeCanvas.js";

const TITLE = 18;
const ROW = 14;
/** The rows of a chart, whose height never changes: the values of more lines stand in a second column. */
const ROWS = 4;
const LINES = 2 * ROWS;
const GAP = 12;
/** The column of the scale, the most room for that of the values, and what is between two columns of values. */
const SCALE = 76;
const VALUES = 210;
const BETWEEN = 12;
const VALUES_SHARE = 0.34;
const TONES: Tone[] = ["accent", "warn", "good", "bad", "text", "dim"];
const TABLE_ROWS = 200; // of a family
const UNITS: Record<MetricKind, string> = {
  counter: `per second, over ${duration(RATE_NS)}`,
  sampled: `per second, over ${duration(RATE_NS)}`,
  histogram: "observations per second",
  gauge: "value",
  bytes: "memory",
};

interface State extends RecordState {
  /** what the picture says while there is no metric */
  nothing: string;
  /** what the kernel says above it, or "" */
  summary?: string;
}

interface Chart {
  family: Family;
  top: number;
  height: number;
}

/** The values at the lower and the upper edge of a chart. */
type Range = [low: number, high: number];

class Metrics extends TimeCanvas<State, MetricsRecord, MetricsStore> {
  private _families: Family[] = [];

  protected divide(): void {
    this._families = this.store.families();
    this.left = SCALE;
    this.right = Math.min(VALUES, this.outer * VALUES_SHARE);
  }

  protected measure(): number {
    return this._charts().reduce((_, { top, height }) => top + height + GAP, this.top + TITLE + ROWS * ROW) - this.top;
  }

  protected override paintGround(): void {
    this.context.fillStyle = this.tone("soft");
    for (const { top, height } of this._charts()) this.context.fillRect(this.left, top + TITLE, this.width, height - TITLE);
  }

  protected paint(): void {
    const { canvas, record } = this;
    canvas.dataset.families = String(this._families.length);
    canvas.dataset.series = String(record.series.size);
    if (!this._families.length) this.text(this.model.get("state").nothing, this.left, this.top + 20);
    for (const chart of this._charts()) this._drawChart(chart);
  }

  protected drawFacts(): string {
    const { page, record, store } = this;
    const summary = this.model.get("state").summary ?? "";
    const charts = counted(this._families.length, "chart");
    this.summarize([summary || `${counted(record.series.size, "line")} in ${charts}`]);
    page.detail.replaceChildren(...record.warnings.map((text) => element("div", text, "tl-warn")));
    const families = this._families.filter((family) => family.series.length);
    const values = families.map((family) => `${family.name}: ${store.familyText(family, ...this.view)}`);
    return [summary, values.join("; ")].filter(Boolean).join(" ") || "No metric has changed yet.";
  }

  protected table(): HTMLTableElement {
    const rows = this._families.flatMap(({ name, kind, series }) =>
      series.slice(0, TABLE_ROWS).map((one) => {
        const value = this.store.seriesText(one, kind, ...this.view);
        return [name, labelText(one.labels), kindText(kind), value, one.table.length];
      }),
    );
    return factsTable(["metric", "labels", "kind", "now", "changes kept"], rows);
  }

  private _charts(): Chart[] {
    let top = this.top;
    return this._families.map((family) => {
      const chart = { family, top, height: TITLE + ROWS * ROW };
      top += chart.height + GAP;
      return chart;
    });
  }

  private _drawChart({ family, top, height }: Chart): void {
    const { context, store } = this;
    const { name, kind, series } = family;
    const [from, to] = this.view;
    const bins = Math.max(Math.floor(this.width / (kind === "histogram" ? 8 : 3)), 1);
    const shown = series.slice(0, LINES);
    const curves = shown.map((one) => store.points(one, kind, from, to, bins));
    const range = rangeOf(curves);
    const bottom = top + height;
    context.clearRect(0, top, this.outer, TITLE); // no line of the axis goes through the words
    this._drawTitle(family, top + 12);
    if (!shown.length) return this.text("no value yet", this.left + EDGE, top + TITLE + 18);
    const scaleText = (value: number): string => (kind === "histogram" ? short(value) : valueText(name, kind, value));
    if (range[1] > range[0]) this.text(this.fitting(scaleText(range[1]), SCALE - EDGE - 6, false, 10), this.left - 6, top + TITLE + 9, "dim", 10, "right");
    this.text(this.fitting(scaleText(range[0]), SCALE - EDGE - 6, false, 10), this.left - 6, bottom - 1, "dim", 10, "right");
    for (const [place, curve] of curves.entries()) {
      context.fillStyle = context.strokeStyle = this.tone(TONES[place % TONES.length]);
      if (kind === "histogram") this._drawColumns(curve, top + TITLE, bottom, range);
      else this._drawLine(curve, top + TITLE, bottom, range);
      this._drawValue(family, shown[place], place, top + TITLE + 11 + (place % ROWS) * ROW);
    }
  }

  private _drawTitle({ name, kind, description, series }: Family, y: number): void {
    const { context } = this;
    this.text(this.fitting(name, this.width + this.right), this.left, y, "text");
    const begin = this.left + context.measureText(this.fitting(name, this.width + this.right)).width + 10;
    const more = series.length > LINES ? `; ${LINES} of ${series.length} label sets drawn` : "";
    const about = `${UNITS[kind]}${description ? ` · ${description}` : ""}${more}`;
    const room = this.outer - EDGE - begin;
    if (room > 40) this.text(this.fitting(about, room, false, 10), begin, y, "dim", 10);
  }

  /** The value that a curve has now, beside it, with its colour and its labels if there are several. */
  private _drawValue({ name, kind, series }: Family, one: Series, place: number, y: number): void {
    const { context, store } = this;
    const [from, to] = this.view;
    const all = this.right - 8 - EDGE;
    const room = series.length > ROWS ? (all - BETWEEN) / 2 : all;
    const x = this.left + this.width + 8 + (place < ROWS ? 0 : room + BETWEEN);
    const now = store.present(one, kind, to);
    const label = differingText(one, series);
    const whole = presentText(name, kind, now);
    this.font();
    const needed = context.measureText(`${whole} ${label}`).width + 14;
    const words = needed <= room ? whole : whole.replace(" per second", "/s");
    context.fillStyle = this.tone(TONES[place % TONES.length]);
    context.fillRect(x, y - 8, 8, 8);
    const shown = this.fitting(words, room - 14);
    this.text(shown, x + room, y, "text", 11, "right");
    const left = room - 14 - context.measureText(shown).width - 6;
    if (label && left > 20) this.text(this.fitting(label, left, true), x + 14, y);
    if (series.length > 1) return;
    const more = kind === "histogram" ? store.seriesText(one, kind, from, to).replace(/^.*?, /, "") : "";
    const lines = (kind === "bytes" ? store.bytesText(one) : more).split(", ");
    for (const [n, line] of lines.entries()) if (line) this.text(this.fitting(line, room), x + room, y + (n + 1) * ROW, "dim", 11, "right");
  }

  private _drawLine(curve: Float64Array, top: number, bottom: number, range: Range): void {
    const { context } = this;
    context.lineWidth = 1.5;
    context.beginPath();
    let isDown = false;
    for (let bin = 0; bin < curve.length; bin++) {
      if (Number.isNaN(curve[bin])) continue;
      const x = this.left + ((bin + 1) / curve.length) * this.width;
      const y = height(curve[bin], top, bottom, range);
      if (isDown) context.lineTo(x, y);
      else context.moveTo(x, y);
      isDown = true;
    }
    context.stroke();
  }

  private _drawColumns(curve: Float64Array, top: number, bottom: number, range: Range): void {
    const wide = this.width / curve.length;
    this.context.globalAlpha = 0.8;
    for (let bin = 0; bin < curve.length; bin++) {
      if (!curve[bin]) continue;
      const y = height(curve[bin], top, bottom, range);
      this.context.fillRect(this.left + bin * wide, y, Math.max(wide - 1, 1), bottom - y);
    }
    this.context.globalAlpha = 1;
  }
}

/** From the least value, or 0, to the greatest. */
function rangeOf(curves: Float64Array[]): Range {
  let [low, high] = [0, 0];
  for (const curve of curves) {
    for (const value of curve) {
      if (value > high) high = value;
      else if (value < low) low = value;
    }
  }
  return [low, high];
}

function height(value: number, top: number, bottom: number, [low, high]: Range): number {
  return bottom - 2 - ((value - low) / (high - low || 1)) * (bottom - top - 6);
}

/** The value at the end of a curve. */
function presentText(name: string, kind: MetricKind, value: number): string {
  if (kind === "histogram") return `${short(value)} observed per second`;
  return isRate(kind) ? rateText(name, value) : valueText(name, kind, value);
}

function isRate(kind: MetricKind): boolean {
  return kind === "counter" || kind === "sampled";
}

function kindText(kind: MetricKind): string {
  return kind === "sampled" ? "counter" : kind;
}

export default { render: renderer(Metrics, MetricsStore, MetricsRecord, "tl-metrics") };
