// The streams of a decoupled model: a lane for each request, a mark for each response, a ring for an empty end.
import { ask } from "./base.js";
import { duration, short } from "./record_store.js";
import { EMPTY, ERROR, StreamsStore, begin, hanging, sent, stopping } from "./streams_store.js";
import { AXIS, LEFT, TimeCanvas, cells, counted, element, renderer } from "./time_canvas.js";

const LANE = 16;
const NAMES = 110; // the column of names
const LETTERS = 18;
const MOST_LANES = 24;
const NEAR = 5;

class Streams extends TimeCanvas {
  left = NAMES;

  get height() {
    this.store.refresh();
    this.all = this.store.visible(...this.store.window(this.now()));
    this.shown = this.all.slice(-MOST_LANES);
    return AXIS + LANE * Math.max(this.shown.length, 2) + 6;
  }

  press(event) {
    if (event.target.closest("[data-do=cancel]")) {
      ask(this.model, { do: "cancel", serial: this.store.selected });
      event.target.disabled = true;
    } else super.press(event);
  }

  click(event) {
    const lane = Math.floor((this.place(event)[1] - AXIS) / LANE);
    this.store.selected = this.shown[lane]?.serial ?? null;
    this.tell();
    this.wake();
  }

  step(along, within) {
    if (along || within) this.store.step(along || within, this.now());
    else this.store.selected = null;
    this.tell();
  }

  name(stream) {
    return stream.id || `request ${stream.serial}`;
  }

  tip(x, y) {
    const stream = this.shown[Math.floor((y - AXIS) / LANE)];
    const near = stream?.responses.filter(([time]) => Math.abs(this.x(time) - x) < NEAR) ?? [];
    return near.map((one) => this.describe(stream, one)).join("\n");
  }

  describe(stream, [time, kind, shapes]) {
    const tensors = (this.record.words.shapes[shapes] ?? []).map(([name, shape]) => `${name} [${shape.join(", ")}]`).join(", ");
    const what = kind & EMPTY ? "empty final response" : kind & ERROR ? "error" : tensors || "response";
    return `${what}, ${duration(time - begin(stream))} after it came`;
  }

  paint(now) {
    const { context, colours, canvas } = this;
    canvas.dataset.streams = this.all.length;
    canvas.dataset.open = this.all.filter((one) => one.open).length;
    canvas.dataset.selection = this.store.selected ?? "";
    if (!this.shown.length) this.text("No stream of responses in the time shown.", LEFT, AXIS + 20, "dim");
    for (const [lane, stream] of this.shown.entries()) {
      const y = AXIS + lane * LANE;
      if (stream.serial === this.store.selected) {
        context.fillStyle = colours.soft;
        context.fillRect(0, y, this.left + this.width, LANE);
      }
      const end = stream.open ? now : stream.end || stream.responses.at(-1)?.[0] || begin(stream);
      const left = Math.max(this.x(begin(stream)), this.left);
      const right = Math.min(this.x(end), this.left + this.width);
      context.fillStyle = stream.open ? colours.warn : colours.dim;
      context.globalAlpha = stream.open ? 0.8 : 0.45;
      context.fillRect(left, y + LANE / 2 - 1, Math.max(right - left, 1), 2);
      context.globalAlpha = 1;
      for (const [time, kind] of stream.responses) this.mark(this.x(time), y, kind);
      if (stream.asked) this.stop(this.x(stream.asked), y);
      this.text(this.name(stream).slice(0, LETTERS), LEFT, y + 12, stream.open ? "warn" : "dim");
    }
    if (this.store.selected !== null) this.tell();
  }

  mark(x, y, kind) {
    const { context, colours } = this;
    if (x < this.left || x > this.left + this.width) return;
    if (kind & EMPTY) {
      context.strokeStyle = colours.text;
      context.lineWidth = 1.5;
      context.beginPath();
      context.arc(x, y + LANE / 2, 3.5, 0, 7);
      context.stroke();
      return;
    }
    context.fillStyle = kind & ERROR ? colours.bad : colours.accent;
    context.fillRect(x - 1, y + 3, 2, LANE - 6);
  }

  stop(x, y) {
    this.context.fillStyle = this.colours.bad;
    this.context.fillRect(x - 0.5, y, 1, LANE);
  }

  facts() {
    const facts = this.store.facts(this.all);
    const box = (title, value) => {
      const made = element("div", "", "tl-chart");
      made.append(element("div", title, "tl-dim"), element("div", value));
      return made;
    };
    const spread = ({ p50, p95 }) => `p50 ${duration(p50)}  p95 ${duration(p95)}`;
    const more = this.all.length > MOST_LANES ? `, the last ${MOST_LANES} drawn` : "";
    this.page.summary.textContent =
      `${counted(facts.streams, "stream")}${more}` + (facts.open ? `, ${facts.open} open` : "") +
      (this.record.dropped ? ` · ${this.record.dropped.toLocaleString("en")} events not kept` : "");
    this.page.facts.replaceChildren(
      box("First response", spread(facts.first)),
      box("Gap between responses", spread(facts.gap)),
      box("Ends", `${facts.empty} empty, ${facts.failed} failed, ${facts.open} not yet`),
    );
    if (this.store.selected === null) {
      this.page.detail.textContent = this.all.length ? "Click a lane for its times, and to stop it." : "";
    }
    return (
      `${counted(facts.streams, "stream")}, ${facts.open} open, ${counted(facts.responses, "response")}; first response ` +
      `${duration(facts.first.p50)} at the median, gap ${duration(facts.gap.p50)}.`
    );
  }

  tell() {
    const stream = this.store.streams.get(this.store.selected);
    const { detail } = this.page;
    if (!stream) return;
    const times = sent(stream);
    const gaps = times.slice(1).map((time, n) => time - times[n]);
    const span = times.at(-1) - times[0];
    const told = [
      `${this.name(stream)}${stream.instance ? ` on ${stream.instance}` : ""}: ${counted(times.length, "response")}, the first after ` +
        `${duration(times[0] - begin(stream))}` + (gaps.length ? `, ${short(gaps.length / (span / 1e9))} a second` : "") + ".",
      hanging(stream),
      stopping(stream, this.now(), duration),
    ].filter(Boolean);
    if (!this.words) {
      this.words = element("div");
      this.button = element("button", "Cancel it");
      this.button.dataset.do = "cancel";
    }
    this.words.replaceChildren(...told.map((line) => element("div", line)));
    this.button.hidden = !stream.open;
    this.button.disabled = stream.asked > 0;
    // the button stays the same one, or it would vanish below the pointer
    if (this.button.parentNode !== detail) detail.replaceChildren(this.words, this.button);
  }

  rows() {
    const table = element("table", "", "tl-tensors");
    table.append(cells(["request", "instance", "first response", "responses", "lasted", "end"], "th"));
    for (const stream of this.all.slice(-200)) {
      const times = sent(stream);
      const end = stream.open ? "not yet" : stream.kind & EMPTY ? "empty final" : stream.kind & ERROR ? "error" : "final";
      const lasted = stream.open ? this.now() - begin(stream) : stream.end - begin(stream);
      table.append(cells([this.name(stream), stream.instance ?? "", duration(times[0] - begin(stream)), times.length, duration(lasted), end]));
    }
    return table;
  }
}

export default { render: renderer(Streams, StreamsStore) };
