// The streams of a decoupled model: a lane for each request, a mark for each response, a ring for an empty end.
import { cells, counted, element, send } from "./base.js";
import { RecordState } from "./recordLink.js";
import { RecordStore } from "./recordStore.js";
import { EMPTY, ERROR, Stream, StreamResponse, StreamsStore, begin, hanging, lastSign, sent, stopping } from "./streamsStore.js";
import { Spread, duration, short } from "./text.js";
import { AXIS, LEFT, TimeCanvas, renderer } from "./timeCanvas.js";

const LANE = 16;
const NAMES = 110; // the column of names
const LETTERS = 18;
const MOST_LANES = 24;
const NEAR = 5;
const TABLE_ROWS = 200;

class Streams extends TimeCanvas<RecordState, RecordStore, StreamsStore> {
  protected override left = NAMES;
  /** what is in view, and what of it has a lane */
  private _all: Stream[] = [];
  private _shown: Stream[] = [];
  private readonly _words = element("div");
  private readonly _cancel = element("button", "Cancel it");

  protected measure(): number {
    this.store.refresh();
    this._all = this.store.visible(...this.store.window(this.now()));
    this._shown = this._all.slice(-MOST_LANES);
    return AXIS + LANE * Math.max(this._shown.length, 2) + 6;
  }

  protected override press(what: string, button: HTMLButtonElement): void {
    if (what !== "cancel") return super.press(what, button);
    void send(this.model, { do: "cancel", serial: this.store.selected });
    button.disabled = true;
  }

  protected override click(_x: number, y: number): void {
    this.store.selected = this._lane(y)?.serial ?? null;
    this._describeSelected();
    this.wake();
  }

  protected override step(along: number, within: number): void {
    if (along || within) this.store.step(along || within, this.now());
    else this.store.selected = null;
    this._describeSelected();
  }

  protected override tip(x: number, y: number): string {
    const stream = this._lane(y);
    if (!stream) return "";
    const near = stream.responses.filter(({ time }) => Math.abs(this.x(time) - x) < NEAR);
    return near.map((one) => this._responseText(stream, one)).join("\n");
  }

  protected paint(now: number): void {
    const { context, canvas, store } = this;
    canvas.dataset.streams = String(this._all.length);
    canvas.dataset.open = String(this._all.filter((one) => one.open).length);
    canvas.dataset.selection = String(store.selected ?? "");
    if (!this._shown.length) this.text("No stream of responses in the time shown.", LEFT, AXIS + 20);
    for (const [lane, stream] of this._shown.entries()) {
      const y = AXIS + lane * LANE;
      if (stream.serial === store.selected) {
        context.fillStyle = this.tone("soft");
        context.fillRect(0, y, this.left + this.width, LANE);
      }
      const left = Math.max(this.x(begin(stream)), this.left);
      const right = Math.min(this.x(stream.open ? now : lastSign(stream)), this.left + this.width);
      context.fillStyle = this.tone(stream.open ? "warn" : "dim");
      context.globalAlpha = stream.open ? 0.8 : 0.45;
      context.fillRect(left, y + LANE / 2 - 1, Math.max(right - left, 1), 2);
      context.globalAlpha = 1;
      for (const { time, kind } of stream.responses) this._drawResponse(this.x(time), y, kind);
      if (stream.asked) {
        context.fillStyle = this.tone("bad");
        context.fillRect(this.x(stream.asked) - 0.5, y, 1, LANE);
      }
      this.text(streamName(stream).slice(0, LETTERS), LEFT, y + 12, stream.open ? "warn" : "dim");
    }
    if (store.selected !== null) this._describeSelected();
  }

  protected drawFacts(): string {
    const facts = this.store.facts(this._all);
    const box = (title: string, value: string): HTMLElement => {
      const made = element("div", "", "tl-chart");
      made.append(element("div", title, "tl-dim"), element("div", value));
      return made;
    };
    const spread = ({ p50, p95 }: Spread): string => `p50 ${duration(p50)}  p95 ${duration(p95)}`;
    const more = this._all.length > MOST_LANES ? `, the last ${MOST_LANES} drawn` : "";
    const { dropped } = this.record;
    this.page.summary.textContent =
      `${counted(facts.streams, "stream")}${more}` +
      (facts.open ? `, ${facts.open} open` : "") +
      (dropped ? ` · ${dropped.toLocaleString("en")} events not kept` : "");
    this.page.facts.replaceChildren(
      box("First response", spread(facts.first)),
      box("Gap between responses", spread(facts.gap)),
      box("Ends", `${facts.empty} empty, ${facts.failed} failed, ${facts.open} not yet`),
    );
    if (this.store.selected === null) {
      this.page.detail.textContent = this._all.length ? "Click a lane for its times, and to stop it." : "";
    }
    return (
      `${counted(facts.streams, "stream")}, ${facts.open} open, ${counted(facts.responses, "response")}; first response ` +
      `${duration(facts.first.p50)} at the median, gap ${duration(facts.gap.p50)}.`
    );
  }

  protected table(): HTMLTableElement {
    const table = element("table", "", "tl-tensors");
    table.append(cells(["request", "instance", "first response", "responses", "lasted", "end"], "th"));
    for (const stream of this._all.slice(-TABLE_ROWS)) {
      const times = sent(stream);
      const kind = stream.kind & EMPTY ? "empty final" : stream.kind & ERROR ? "error" : "final";
      const lasted = (stream.open ? this.now() : stream.end) - begin(stream);
      const first = duration(times[0] - begin(stream));
      const end = stream.open ? "not yet" : kind;
      table.append(cells([streamName(stream), stream.instance ?? "", first, times.length, duration(lasted), end]));
    }
    return table;
  }

  private _lane(y: number): Stream | undefined {
    return this._shown[Math.floor((y - AXIS) / LANE)];
  }

  private _responseText(stream: Stream, { time, kind, shapes }: StreamResponse): string {
    const tensors = this.record.shapesText(shapes) || "response";
    const what = kind & EMPTY ? "empty final response" : kind & ERROR ? "error" : tensors;
    return `${what}, ${duration(time - begin(stream))} after it came`;
  }

  private _drawResponse(x: number, y: number, kind: number): void {
    const { context } = this;
    if (x < this.left || x > this.left + this.width) return;
    if (kind & EMPTY) {
      context.strokeStyle = this.tone("text");
      context.lineWidth = 1.5;
      context.beginPath();
      context.arc(x, y + LANE / 2, 3.5, 0, 7);
      context.stroke();
    } else {
      context.fillStyle = this.tone(kind & ERROR ? "bad" : "accent");
      context.fillRect(x - 1, y + 3, 2, LANE - 6);
    }
  }

  private _describeSelected(): void {
    const stream = this.store.selected === null ? undefined : this.store.streams.get(this.store.selected);
    if (!stream) return;
    const { detail } = this.page;
    const times = sent(stream);
    const seconds = (times[times.length - 1] - times[0]) / 1e9;
    const rate = times.length > 1 ? `, ${short((times.length - 1) / seconds)} a second` : "";
    const lines = [
      `${streamName(stream)}${stream.instance ? ` on ${stream.instance}` : ""}: ${counted(times.length, "response")}, ` +
        `the first after ${duration(times[0] - begin(stream))}${rate}.`,
      hanging(stream),
      stopping(stream, this.now(), duration),
    ].filter(Boolean);
    this._words.replaceChildren(...lines.map((line) => element("div", line)));
    this._cancel.dataset.do = "cancel";
    this._cancel.hidden = !stream.open;
    this._cancel.disabled = stream.asked > 0;
    // the button stays the same one, or it would vanish below the pointer
    if (this._cancel.parentNode !== detail) detail.replaceChildren(this._words, this._cancel);
  }
}

function streamName(stream: Stream): string {
  return stream.id || `request ${stream.serial}`;
}

export default { render: renderer(Streams, StreamsStore, RecordStore) };
