// Custom metrics and Triton's own, a chart for each family: counters as rates, gauges as lines, histograms as bars.
import { Tone, cells, counted, element } from "./base.js";
import { Family, MetricKind, MetricsRecord, MetricsStore, labelText } from "./metricsStore.js";
import { RecordState } from "./recordLink.js";
import { bytes, short } from "./text.js";
import { AXIS, LEFT, TimeCanvas, renderer } from "./timeCanvas.js";

const TITLE = 18;
const CHART = 46;
const GAP = 12;
const LINES = 8; // of one chart
const TONES: Tone[] = ["accent", "warn", "good", "bad", "text", "dim"];
const TABLE_ROWS = 200; // of a family
const UNITS: Partial<Record<MetricKind, string>> = { histogram: "observed", gauge: "", bytes: "" };

interface State extends RecordState {
  /** what the picture says while there is no metric */
  nothing: string;
  /** what the kernel says above it, or "" */
  said?: string;
}

class Metrics extends TimeCanvas<State, MetricsRecord, MetricsStore> {
  private _families: Family[] = [];

  protected measure(): number {
    this._families = this.store.families();
    return AXIS + Math.max(this._families.length, 1) * (TITLE + CHART + GAP);
  }

  protected paint(): void {
    const { canvas, record } = this;
    canvas.dataset.families = String(this._families.length);
    canvas.dataset.series = String(record.series.size);
    if (!this._families.length) this.text(this.model.get("state").nothing, LEFT, AXIS + 30);
    for (const [place, family] of this._families.entries()) this._drawChart(family, AXIS + place * (TITLE + CHART + GAP));
  }

  protected drawFacts(): string {
    const { page, record, store } = this;
    const said = this.model.get("state").said ?? "";
    const charts = counted(this._families.length, "chart");
    page.summary.textContent = said || `${counted(record.series.size, "line")} in ${charts}`;
    page.facts.replaceChildren(...this._families.flatMap((family) => this._legend(family)));
    page.detail.replaceChildren(...record.warnings.map((text) => element("div", text, "tl-warn")));
    const values = this._families.map((family) => `${family.name}: ${store.familyText(family, ...this.view)}`);
    return [said, values.join("; ")].filter(Boolean).join(" ") || "No metric has changed yet.";
  }

  protected table(): HTMLTableElement {
    const table = element("table", "", "tl-tensors");
    table.append(cells(["metric", "labels", "kind", "now", "changes kept"], "th"));
    for (const { name, kind, series } of this._families) {
      for (const one of series.slice(0, TABLE_ROWS)) {
        const value = this.store.seriesText(one, kind, ...this.view);
        table.append(cells([name, labelText(one.labels), kind, value, one.table.length]));
      }
    }
    return table;
  }

  private _drawChart(family: Family, top: number): void {
    const { context, store } = this;
    const { name, kind, description } = family;
    const [from, to] = this.view;
    const bins = Math.max(Math.floor(this.width / (kind === "histogram" ? 8 : 3)), 1);
    const shown = family.series.slice(0, LINES);
    const lines = shown.map((series) => store.points(series, kind, from, to, bins));
    const most = Math.max(...lines.map((line) => line.reduce((high, value) => (value > high ? value : high), 0)), 0);
    context.fillStyle = this.tone("soft");
    context.fillRect(LEFT, top + TITLE, this.width, CHART);
    this.text(name, LEFT, top + 12, "text");
    const width = context.measureText(name).width;
    const more = family.series.length > LINES ? `, ${LINES} of ${family.series.length} label sets drawn` : "";
    const about = `${kind === "sampled" ? "counter" : kind}${description ? `: ${description}` : ""}${more}`;
    this.text(about, LEFT + width + 10, top + 12, "dim", 10);
    const scale = kind === "bytes" ? bytes(most) : `${short(most)} ${UNITS[kind] ?? "a second"}`;
    this.text(scale, LEFT + this.width, top + 12, "dim", 10, "right");
    for (const [place, line] of lines.entries()) {
      context.fillStyle = context.strokeStyle = this.tone(TONES[place % TONES.length]);
      if (kind === "histogram") this._drawColumns(line, top + TITLE, most, bins);
      else this._drawLine(line, top + TITLE, most, bins);
    }
  }

  private _drawLine(values: Float64Array, top: number, most: number, bins: number): void {
    const { context } = this;
    context.lineWidth = 1.5;
    context.beginPath();
    let isDown = false;
    for (let bin = 0; bin < bins; bin++) {
      if (Number.isNaN(values[bin])) continue;
      const x = LEFT + ((bin + 1) / bins) * this.width;
      const y = top + CHART - 2 - (most ? Math.max(values[bin], 0) / most : 0) * (CHART - 6);
      if (isDown) context.lineTo(x, y);
      else context.moveTo(x, y);
      isDown = true;
    }
    context.stroke();
  }

  private _drawColumns(values: Float64Array, top: number, most: number, bins: number): void {
    const wide = this.width / bins;
    this.context.globalAlpha = 0.8;
    for (let bin = 0; bin < bins; bin++) {
      const high = most ? (values[bin] / most) * (CHART - 4) : 0;
      if (high) this.context.fillRect(LEFT + bin * wide, top + CHART - high, Math.max(wide - 1, 1), high);
    }
    this.context.globalAlpha = 1;
  }

  /** Each line's colour, name and current value. */
  private _legend({ name, kind, series }: Family): HTMLElement[] {
    return series.slice(0, LINES).map((one, place) => {
      const box = element("div", "", "tl-chart");
      const key = element("span", "", "tl-key");
      key.style.background = `var(--tl-${TONES[place % TONES.length]})`;
      const title = element("div", `${name}${one.labels.length ? ` {${labelText(one.labels)}}` : ""}`, "tl-dim");
      title.prepend(key);
      box.append(title, element("div", this.store.seriesText(one, kind, ...this.view)));
      return box;
    });
  }
}

export default { render: renderer(Metrics, MetricsStore, MetricsRecord) };
