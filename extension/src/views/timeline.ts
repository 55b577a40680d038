// The timeline of a model: a lane for each instance, its executions as blocks that grow while they run, the requests
// that waited for them, and what happened besides.
import { Model } from "./anywidget.js";
import { counted, element, factsTable, send } from "./base.js";
import { ViewMessage } from "./recordLink.js";
import { RecordStore } from "./recordStore.js";
import { duration } from "./text.js";
import { CanvasPage, renderer } from "./timeCanvas.js";
import { MOST_ROWS, TimelinePicture, TimelineState } from "./timelinePicture.js";
import { Selection, TimelineStore } from "./timelineStore.js";
import { batchText, byCount, factsText, requestText, sizeBars, splitBar, wordBars } from "./timelineWords.js";
import { WhatIf, WhatIfMessage } from "./whatIf.js";
import { WhatIfStore } from "./whatIfStore.js";

const TABLE_ROWS = 200;
const HEAD = ["batch", "instance", "began at", "took", "requests", "size", "longest wait", "closed because"];
const HINT = "Click a block or a waiting request; two requests say why they were not batched.";

/** The values of a request, or why two requests were not batched. */
interface Answer extends ViewMessage {
  row?: number;
  values?: string[];
  why?: string;
}

/** The lines of batches of a size: a sentence, and a table. */
interface LinesMessage extends ViewMessage {
  size: number;
  title: string;
  head?: string[];
  rows: string[][];
}

class Timeline extends TimelinePicture {
  private readonly _whatIf: WhatIf | null;
  private _values: Answer | null = null;
  private _why = "";
  private _batchLines: LinesMessage | null = null;

  constructor(model: Model<TimelineState, ViewMessage>, page: CanvasPage, store: TimelineStore) {
    super(model, page, store);
    const window = (): number[] => store.window(this.now());
    this._whatIf = model.get("state").tunable ? new WhatIf(model, page.root, window, () => this.wake()) : null;
  }

  override onMessage(message: ViewMessage, buffers: DataView[]): void {
    if (message.kind === "what if") return this._whatIf?.onMessage(message as WhatIfMessage, buffers);
    super.onMessage(message, buffers);
    if (message.kind === "lines") {
      this._batchLines = message as LinesMessage;
      return this._describeSelected();
    }
    if (message.kind !== "answer") return;
    const answer = message as Answer;
    if (answer.values) this._values = answer;
    else this._why = answer.why ?? "";
    this._describeSelected();
  }

  protected override get replay(): WhatIfStore | null {
    return this._whatIf?.isOpen ? this._whatIf.store : null;
  }

  // -- what a person does

  protected override press(what: string, button: HTMLElement): void {
    if (what !== "what-if") return super.press(what, button);
    const { store } = this;
    store.pause(this.now()); // it is about the past
    if (store.visible(...store.window(this.now())).next().done) store.fit(this.now());
    this._whatIf?.toggle();
  }

  protected override click(x: number, y: number): void {
    this.store.select(this._hit(x, y));
    this._onSelected();
  }

  protected override step(along: number, within: number): void {
    if (along) this.store.step(along, this.now());
    else if (within) this.store.stepRequest(within);
    else this.store.select(null);
    this._onSelected();
  }

  protected override tip(x: number, y: number): string {
    const mark = this.markAt(x, y);
    if (mark) return `${mark.kind}: ${mark.text}`;
    const full = y < this.marks ? 0 : this.full().filter((place) => Math.abs(place - x) < 6).length;
    if (full) return `${counted(full, "request")} refused: the queue was full`;
    const lane = Math.floor((y - this.top) / this.stride);
    const replay = this.replay;
    if (!replay || !this.lanes[lane] || y - this.laneTop(lane) < this.waiting + this.block) return "";
    for (const batch of replay.visible(...this.view)) {
      if (replay.lanes[batch.lane] !== this.lanes[lane] || this.x(batch.end) < x || this.x(batch.start) > x) continue;
      const took = duration(batch.end - batch.start);
      return `would have been: ${counted(batch.count, "request")}, size ${batch.size}, ${took}, closed because: ${batch.reason}`;
    }
    return "";
  }

  private _onSelected(): void {
    this._why = "";
    this._values = null;
    const { selected, other } = this.store;
    const request = selected?.request ?? null;
    if (request !== null) void send(this.model, { do: "values", row: request });
    if (other !== null && request !== null) void send(this.model, { do: "why", rows: [other, request] });
    this._describeSelected();
    this.wake();
  }

  /** The batch or the waiting request at a place. */
  private _hit(x: number, y: number): Selection | null {
    const lane = Math.floor((y - this.top) / this.stride);
    const name = this.lanes[lane];
    const within = y - this.laneTop(lane);
    const waiting = this.waiting;
    if (name === undefined || within >= waiting + this.block) return null;
    const { batches, requests } = this.record.tables;
    let best: (Selection & { far: number }) | null = null;
    for (const row of this.store.visible(...this.view)) {
      if (this.record.words.instance[batches.instance(row)] !== name) continue;
      const [left, right] = [this.x(batches.start(row)), this.x(batches.end(row))];
      if (within >= waiting) {
        const far = Math.max(left - x, x - right, 0);
        if (far < 5 && (!best || far < best.far)) best = { batch: row, request: null, far };
        continue;
      }
      const [first, end] = this.store.requestsOf(row);
      const request = first + Math.floor((waiting - within) / this.rowHeight(end - first));
      if (request >= Math.min(end, first + MOST_ROWS)) continue;
      const far = Math.max(this.x(requests.queued(request)) - x, x - left, 0);
      if (far < 4 && (!best || far < best.far)) best = { batch: row, request, far };
    }
    return best && { batch: best.batch, request: best.request };
  }

  // -- words

  protected drawFacts(): string {
    const { store, record, page } = this;
    const facts = store.facts(...this.view);
    if (!store.selected) this._describeSelected();
    const { waiting_count: waiting, running } = record.live;
    const now = [waiting ? `${waiting} waiting` : "", running?.length ? `${running.length} running` : ""];
    this.summarize(store.following ? now : []);
    const reasons = this.model.get("state").rejections ?? [];
    const lost = [...facts.lost].map(([number, count]): [string, number] => [reasons[number], count]);
    page.facts.replaceChildren(
      sizeBars(facts),
      wordBars("Closed because", [...facts.reasons].sort(byCount), "accent"),
      wordBars("Ended in the queue", lost, "warn"),
      splitBar(facts),
    );
    const ended = lost.map(([reason, count]) => ` ${counted(count, "request")} ended in the queue: ${reason}.`);
    return factsText(facts) + ended.join("");
  }

  protected table(): HTMLTableElement {
    const { record, store } = this;
    const { batches, requests } = record.tables;
    const rows = [...store.visible(...this.view)].slice(-TABLE_ROWS).map((row) => {
      const [start, end] = [batches.start(row), batches.end(row)];
      const [first, stop] = store.requestsOf(row);
      let longest = 0;
      for (let one = first; one < stop; one++) longest = Math.max(longest, start - requests.queued(one));
      const instance = record.words.instance[batches.instance(row)];
      const times = [this.clock.text(start, 1e6), duration(end - start)];
      const reason = record.words.reason[batches.reason(row)] ?? "";
      return [row, instance, ...times, batches.count(row), batches.size(row), duration(longest), reason];
    });
    return factsTable(HEAD, rows);
  }

  private _describeSelected(): void {
    const { store, record, page } = this;
    const { selected } = store;
    if (!selected) {
      const hint = record.tables.batches.length ? HINT : "";
      if (page.detail.textContent !== hint) page.detail.textContent = hint;
      return;
    }
    const lines = [batchText(record, selected.batch)];
    for (const one of [store.other, selected.request]) {
      if (one !== null && one >= record.tables.requests.oldest) lines.push(requestText(record, one));
    }
    if (this._values && this._values.row === selected.request) lines.push(...(this._values.values ?? []));
    page.detail.replaceChildren(...lines.map((line) => element("div", line)));
    if (this._why) page.detail.append(element("div", this._why, "tl-why"));
    if (this.model.get("state").lines) page.detail.append(...this._linesOf(record.tables.batches.size(selected.batch)));
  }

  /** A button for the lines of batches of a size, and what is known of them. */
  private _linesOf(size: number): HTMLElement[] {
    const button = element("button", `Lines of batches of size ${size}`, "tl-button");
    button.onclick = (): void => void send(this.model, { do: "lines", size });
    const told = this._batchLines;
    if (told?.size !== size) return [button];
    const table = told.rows.length ? [factsTable(told.head ?? [], told.rows)] : [];
    const box = element("div", "", "tl-batch-lines");
    box.append(element("div", told.title), ...table);
    return [button, box];
  }

}

export default { render: renderer(Timeline, TimelineStore, RecordStore, "tl-timeline") };
