// Custom metrics and Triton's own, a chart for each family: counters as rates, gauges as lines, histograms as bars.
import { MetricsRecord, MetricsStore, bytes, labelText } from "./metrics_store.js";
import { short } from "./record_store.js";
import { AXIS, LEFT, TimeCanvas, cells, counted, element, renderer } from "./time_canvas.js";

const TITLE = 18;
const CHART = 46;
const GAP = 12;
const LINES = 8; // of one chart
const TONES = ["accent", "warn", "good", "bad", "text", "dim"];

class Metrics extends TimeCanvas {
  get height() {
    this.families = this.store.families();
    return AXIS + Math.max(this.families.length, 1) * (TITLE + CHART + GAP);
  }

  paint() {
    const { canvas, record } = this;
    canvas.dataset.families = this.families.length;
    canvas.dataset.series = record.series.size;
    if (!this.families.length) this.text(this.model.get("state").nothing, LEFT, AXIS + 30, "dim");
    for (const [place, family] of this.families.entries()) this.chart(family, AXIS + place * (TITLE + CHART + GAP));
  }

  chart(family, top) {
    const { context, colours, store } = this;
    const [from, to] = this.view;
    const bins = Math.max(Math.floor(this.width / (family.kind === "histogram" ? 8 : 3)), 1);
    const shown = family.series.slice(0, LINES);
    const lines = shown.map((series) => store.points(series, family.kind, from, to, bins));
    const most = Math.max(...lines.map((line) => line.reduce((high, value) => (value > high ? value : high), 0)), 0);
    context.fillStyle = colours.soft;
    context.fillRect(LEFT, top + TITLE, this.width, CHART);
    const unit = { histogram: "observed", gauge: "", bytes: "" }[family.kind] ?? "a second";
    this.text(family.name, LEFT, top + 12, "text");
    const width = context.measureText(family.name).width;
    const more = family.series.length > LINES ? `, ${LINES} of ${family.series.length} label sets drawn` : "";
    const kind = family.kind === "sampled" ? "counter" : family.kind;
    this.text(`${kind}${family.about ? `: ${family.about}` : ""}${more}`, LEFT + width + 10, top + 12, "dim", 10);
    this.text(family.kind === "bytes" ? bytes(most) : `${short(most)} ${unit}`, LEFT + this.width, top + 12, "dim", 10, "right");
    for (const [place, line] of lines.entries()) {
      context.fillStyle = context.strokeStyle = colours[TONES[place % TONES.length]];
      (family.kind === "histogram" ? this.columns : this.line).call(this, line, top + TITLE, most, bins);
    }
  }

  line(values, top, most, bins) {
    const { context } = this;
    context.lineWidth = 1.5;
    context.beginPath();
    let down = false;
    for (let bin = 0; bin < bins; bin++) {
      if (Number.isNaN(values[bin])) continue;
      const x = LEFT + ((bin + 1) / bins) * this.width;
      const y = top + CHART - 2 - (most ? Math.max(values[bin], 0) / most : 0) * (CHART - 6);
      down ? context.lineTo(x, y) : context.moveTo(x, y);
      down = true;
    }
    context.stroke();
  }

  columns(values, top, most, bins) {
    const wide = this.width / bins;
    this.context.globalAlpha = 0.8;
    for (let bin = 0; bin < bins; bin++) {
      const high = most ? (values[bin] / most) * (CHART - 4) : 0;
      if (high) this.context.fillRect(LEFT + bin * wide, top + CHART - high, Math.max(wide - 1, 1), high);
    }
    this.context.globalAlpha = 1;
  }

  facts() {
    const { store, page, record } = this;
    const { said } = this.model.get("state");
    page.summary.textContent = said || `${counted(record.series.size, "line")} in ${counted(this.families.length, "chart")}`;
    page.facts.replaceChildren(
      ...this.families.flatMap((family) =>
        family.series.slice(0, LINES).map((series, place) => {
          const box = element("div", "", "tl-chart");
          const key = element("span", "", "tl-key");
          key.style.background = `var(--tl-${TONES[place % TONES.length]})`;
          const name = element("div", `${family.name}${series.labels.length ? ` {${labelText(series.labels)}}` : ""}`, "tl-dim");
          name.prepend(key);
          box.append(name, element("div", store.told(series, family.kind, ...this.view)));
          return box;
        }),
      ),
    );
    page.detail.replaceChildren(...record.warnings.map((text) => element("div", text, "tl-warn")));
    const told = this.families.map((family) => `${family.name}: ${store.toldAll(family, ...this.view)}`);
    return [said, told.join("; ")].filter(Boolean).join(" ") || "No metric has changed yet.";
  }

  rows() {
    const table = element("table", "", "tl-tensors");
    table.append(cells(["metric", "labels", "kind", "now", "changes kept"], "th"));
    for (const family of this.families) {
      for (const series of family.series.slice(0, 200)) {
        table.append(cells([family.name, labelText(series.labels), family.kind, this.store.told(series, family.kind, ...this.view), series.table.length]));
      }
    }
    return table;
  }
}

export default { render: renderer(Metrics, MetricsStore, MetricsRecord) };
