// The texts of the last streams as they grow: a pane for each, its pieces coloured by the gap before them. The words, the
// classes of gaps and the verdicts are the kernel's (`views/record/stream_reading.py`).
import { add, element } from "./base.js";
import { ViewMessage } from "./recordLink.js";
import { duration } from "./text.js";

/** The text that came with a response, its class of gaps, and the nanoseconds since the response before it. */
type Piece = [text: string, gap: number, wait: number];

interface StreamText {
  serial: number;
  name: string;
  /** how many pieces come before these */
  at: number;
  pieces: Piece[];
  times: string;
  verdicts: string[];
  open: boolean;
  /** later responses are not kept */
  cut: boolean;
}

export interface TextsMessage extends ViewMessage {
  /** the serial numbers of the streams, oldest first */
  order: number[];
  /** those with news */
  streams: StreamText[];
  /** the times of the tokens of all, in words */
  times: string;
}

export function isTexts(message: ViewMessage): message is TextsMessage {
  return message.kind === "texts";
}

interface Pane {
  frame: HTMLElement;
  name: HTMLElement;
  times: HTMLElement;
  text: HTMLElement;
  verdicts: HTMLElement;
}

export class StreamPanes {
  readonly root = element("div", "", "tl-texts");
  private readonly _times: HTMLElement;
  private readonly _panes: HTMLElement;
  private readonly _bySerial = new Map<number, Pane>();

  /** `gaps`: the words for each class of gaps. `choose` is called with the serial number of a pane that was clicked. */
  constructor(gaps: string[], choose: (serial: number) => void) {
    this.root.hidden = true;
    this._times = add(this.root, "div");
    const legend = add(this.root, "div", "tl-dim tl-gaps", "Text by the gap before it: ");
    for (const [place, words] of gaps.entries()) legend.append(element("span", words, `tl-gap-${place}`), " ");
    this._panes = add(this.root, "div", "tl-panes");
    this._panes.addEventListener("click", (event) => {
      const frame = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-serial]") : null;
      if (frame) choose(Number(frame.dataset.serial));
    });
  }

  apply({ order, streams, times }: TextsMessage): void {
    this.root.hidden = !order.length;
    this._times.textContent = times && `Tokens of these streams: ${times}.`;
    for (const stream of streams) this._write(stream);
    for (const [serial, { frame }] of this._bySerial) {
      if (order.includes(serial)) continue;
      frame.remove();
      this._bySerial.delete(serial);
    }
  }

  mark(selected: number | null): void {
    for (const [serial, { frame }] of this._bySerial) frame.classList.toggle("tl-chosen-pane", serial === selected);
  }

  private _write(stream: StreamText): void {
    const pane = this._bySerial.get(stream.serial) ?? this._make(stream.serial);
    const { text } = pane;
    const isAtEnd = text.scrollTop + text.clientHeight > text.scrollHeight - 4;
    pane.name.textContent = stream.name;
    pane.times.textContent = `${stream.times}${stream.cut ? " · later text is not kept" : ""}`;
    pane.frame.dataset.open = String(stream.open);
    while (text.childElementCount > stream.at) text.lastElementChild?.remove();
    text.append(...stream.pieces.map((piece, place) => spanOf(piece, !(stream.at + place))));
    if (isAtEnd) text.scrollTop = text.scrollHeight;
    pane.verdicts.replaceChildren(...stream.verdicts.map((words) => element("div", words)));
  }

  private _make(serial: number): Pane {
    const frame = add(this._panes, "div", "tl-pane");
    frame.dataset.serial = String(serial);
    const head = add(frame, "div");
    const name = add(head, "b");
    head.append(" ");
    const times = add(head, "span", "tl-dim");
    const text = add(frame, "div", "tl-pane-text");
    text.tabIndex = 0; // it scrolls
    const pane = { frame, name, times, text, verdicts: add(frame, "div", "tl-warn") };
    this._bySerial.set(serial, pane);
    return pane;
  }
}

function spanOf([text, gap, wait]: Piece, isFirst: boolean): HTMLElement {
  const made = element("span", text || "∅", text ? `tl-gap-${gap}` : "tl-dim");
  const since = isFirst ? "after the request came" : "after the response before it";
  made.title = `${text ? "" : "no text, "}${duration(wait)} ${since}`;
  return made;
}
