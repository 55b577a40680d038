// The streams of a decoupled model: a lane for each request, a mark for each response, a ring for an empty end.
import { counted, element, factsTable, send } from "./base.js";
import { Key, drawTriangle } from "./legend.js";
import { RecordState, ViewMessage } from "./recordLink.js";
import { RecordStore } from "./recordStore.js";
import { EMPTY, ERROR, Stream, StreamResponse, StreamsStore, begin, hanging, lastSign, sent, stopping } from "./streamsStore.js";
import { StreamPanes, isTexts } from "./streamPanes.js";
import { Spread, duration, short } from "./text.js";
import { EDGE, TimeCanvas, renderer } from "./timeCanvas.js";

const LANE = 16;
/** As many as there is always room for. */
const LANES = 12;
const NEAR = 5;
const TABLE_ROWS = 200;
const KEYS: Key[] = [
  { shape: "tick", tone: "accent", text: "response" },
  { shape: "tick", tone: "bad", text: "error" },
  { shape: "ring", tone: "text", text: "final flag without a response" },
  { shape: "line", tone: "dim", text: "from the request to its end" },
  { shape: "dashes", tone: "warn", text: "final flag not sent yet" },
  { shape: "triangle", tone: "bad", text: "cancelled here" },
];

interface StreamsState extends RecordState {
  /** the words for each class of gaps */
  gaps: string[];
}

class Streams extends TimeCanvas<StreamsState, RecordStore, StreamsStore> {
  /** what is in view, and what of it has a lane */
  private _all: Stream[] = [];
  private _shown: Stream[] = [];
  private readonly _words = element("div");
  private readonly _cancel = element("button", "Cancel it");
  private _panes: StreamPanes | null = null;

  override onMessage(message: ViewMessage, buffers: DataView[]): void {
    if (isTexts(message)) return this._texts.apply(message);
    super.onMessage(message, buffers);
    if (this.store.following || this.store.selected === null) return;
    this.store.refresh(); // the words of a cancellation go on while the picture is paused
    this._describeSelected();
  }

  protected override keys(): Key[] {
    return KEYS;
  }

  protected divide(): void {
    this.store.refresh();
    this._all = this.store.visible(...this.view);
    this._shown = this._all.slice(-LANES);
    this.left = this.column(this._shown.length ? this._shown.map(streamName) : [NO_NAME]);
  }

  protected measure(): number {
    return LANE * LANES + 4;
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
    if (!this._shown.length) this.text("No stream of responses in the time shown.", this.left + EDGE, this.top + 20);
    for (const [lane, stream] of this._shown.entries()) {
      const y = this.top + lane * LANE;
      if (stream.serial === store.selected) {
        context.fillStyle = this.tone("soft");
        context.fillRect(0, y, this.left + this.width, LANE);
      }
      this.name(streamName(stream), y + 12, stream.open ? "warn" : "dim");
      this.clipped(() => this._drawStream(stream, y, now));
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
    const more = this._all.length > LANES ? `, the last ${LANES} drawn` : "";
    const open = facts.open ? `, ${facts.open} open` : "";
    const { size } = this.store.streams; // the panes below may be of older ones
    const all = counted(size, "stream");
    const streams = size > facts.streams ? `${facts.streams} of ${all} in the time shown` : all;
    this.summarize([`${streams}${more}${open}`]);
    this.page.facts.replaceChildren(
      box("First response", spread(facts.first)),
      box("Gap between responses", spread(facts.gap)),
      box("Ends", `${facts.empty} empty, ${facts.failed} failed, ${facts.open} not yet`),
    );
    if (this.store.selected === null) {
      this.page.detail.textContent = this._all.length ? "Click a lane for its times, and to stop it." : "";
    }
    return (
      `${streams}, ${facts.open} open, ${counted(facts.responses, "response")}; first response ` +
      `${duration(facts.first.p50)} at the median, gap ${duration(facts.gap.p50)}.`
    );
  }

  protected table(): HTMLTableElement {
    const rows = this._all.slice(-TABLE_ROWS).map((stream) => {
      const times = sent(stream);
      const kind = stream.kind & EMPTY ? "empty final" : stream.kind & ERROR ? "error" : "final";
      const lasted = (stream.open ? this.now() : stream.end) - begin(stream);
      const first = duration(times[0] - begin(stream));
      const end = stream.open ? "not yet" : kind;
      const came = this.clock.text(begin(stream), 1e6);
      return [streamName(stream), stream.instance ?? "", came, first, times.length, duration(lasted), end];
    });
    return factsTable(["request", "instance", "came at", "first response", "responses", "lasted", "end"], rows);
  }

  /** The texts, between the facts and the words about the selected stream. */
  private get _texts(): StreamPanes {
    if (!this._panes) {
      this._panes = new StreamPanes(this.model.get("state").gaps, (serial) => {
        this.store.selected = serial;
        this._describeSelected();
        this.wake();
      });
      this.page.facts.after(this._panes.root);
    }
    return this._panes;
  }

  private _lane(y: number): Stream | undefined {
    return this._shown[Math.floor((y - this.top) / LANE)];
  }

  private _drawStream(stream: Stream, y: number, now: number): void {
    const { context } = this;
    const middle = y + LANE / 2;
    context.strokeStyle = this.tone(stream.open ? "warn" : "dim");
    context.globalAlpha = stream.open ? 0.9 : 0.5;
    context.lineWidth = 2;
    context.setLineDash(stream.open ? [3, 3] : []);
    context.beginPath();
    context.moveTo(this.x(begin(stream)), middle);
    context.lineTo(Math.max(this.x(stream.open ? now : lastSign(stream)), this.x(begin(stream)) + 1), middle);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
    for (const { time, kind } of stream.responses) this._drawResponse(this.x(time), y, kind);
    if (!stream.asked) return;
    context.fillStyle = this.tone("bad");
    context.beginPath();
    drawTriangle(context, this.x(stream.asked), middle);
    context.fill();
  }

  private _responseText(stream: Stream, { time, kind, shapes }: StreamResponse): string {
    const tensors = this.record.shapesText(shapes) || "response";
    const what = kind & EMPTY ? "empty final response" : kind & ERROR ? "error" : tensors;
    return `${what}, ${duration(time - begin(stream))} after it came`;
  }

  private _drawResponse(x: number, y: number, kind: number): void {
    const { context } = this;
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
    this._panes?.mark(this.store.selected);
    const stream = this.store.selected === null ? undefined : this.store.streams.get(this.store.selected);
    if (!stream) return;
    const { detail } = this.page;
    const times = sent(stream);
    const seconds = (times[times.length - 1] - times[0]) / 1e9;
    const rate = times.length > 1 ? `, ${short((times.length - 1) / seconds)} per second` : "";
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

/** Keeps room for a usual name while there is none. */
const NO_NAME = "request 00";

function streamName(stream: Stream): string {
  return stream.id || `request ${stream.serial}`;
}

export default { render: renderer(Streams, StreamsStore, RecordStore, "tl-streams") };
