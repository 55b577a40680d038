// The timeline of a model: a lane for each instance, its executions as blocks that grow while they run, the requests
// that waited for them, and what happened besides.
import { ask } from "./base.js";
import { duration } from "./record_store.js";
import { AXIS, LEFT, TimeCanvas, bars, cells, counted, element, renderer } from "./time_canvas.js";
import { TimelineStore, byNumbers } from "./timeline_store.js";
import { WhatIf } from "./what_if.js";

const WAITING = 34; // of a lane: requests that wait
const BLOCK = 24; // of a lane: executions
const GHOST = 18; // of a lane while it is asked what would have happened: the executions there would have been
const GAP = 10;
const MARKS = 22;
const MOST_ROWS = 16;
const TABLE_ROWS = 200;
const MARK_COLOURS = { error: "bad", timeout: "warn", cancelled: "warn", restart: "bad", waits: "warn", state: "dim" };

class Timeline extends TimeCanvas {
  why = "";

  constructor(model, page, store) {
    super(model, page, store);
    const window = () => store.window(this.now());
    if (model.get("state").tunable) this.whatIf = new WhatIf(model, page.root, window, () => this.wake());
  }

  heard(message, buffers) {
    if (message.kind === "what if") return this.whatIf?.heard(message, buffers);
    super.heard(message);
    if (message.values) this.values = message;
    else if (message.why !== undefined) this.why = message.why;
    else return;
    this.tell();
  }

  get ghosts() {
    return this.whatIf?.open ? this.whatIf.store : null;
  }

  get height() {
    const lanes = this.store.lanes();
    const more = this.ghosts?.lanes.filter((name) => !lanes.includes(name)) ?? [];
    this.lanes = [...lanes, ...more.sort(byNumbers)];
    this.marksTop = this.laneTop(Math.max(this.lanes.length, 1));
    return this.marksTop + MARKS;
  }

  // -- what a person does

  press(event) {
    if (!event.target.closest("[data-do=what-if]")) return super.press(event);
    this.store.pause(this.now()); // it is about what was
    if (![...this.store.visible(...this.store.window(this.now()))].length) this.store.fit(this.now());
    this.whatIf.toggle();
  }

  click(event) {
    this.store.select(this.hit(...this.place(event)));
    this.selected();
  }

  step(along, within) {
    if (along) this.store.step(along, this.now());
    else if (within) this.store.stepRequest(within);
    else this.store.select(null);
    this.selected();
  }

  selected() {
    this.why = "";
    this.values = null;
    const { selected, other } = this.store;
    if (selected?.request != null) ask(this.model, { do: "values", row: selected.request });
    if (other !== null && selected?.request != null) ask(this.model, { do: "why", rows: [other, selected.request] });
    this.tell();
    this.wake();
  }

  // -- places

  get stride() {
    return WAITING + BLOCK + (this.ghosts ? GHOST + 2 : 0) + GAP;
  }

  laneTop(lane) {
    return AXIS + lane * this.stride;
  }

  hit(x, y) {
    const lane = Math.floor((y - AXIS) / this.stride);
    const name = this.lanes[lane];
    if (name === undefined) return null;
    const within = y - this.laneTop(lane);
    if (within >= WAITING + BLOCK) return null;
    const { batches, requests } = this.record.tables;
    let best = null;
    for (const row of this.store.visible(...this.view)) {
      if (this.record.words.instance[batches.instance(row)] !== name) continue;
      const [left, right] = [this.x(batches.start(row)), this.x(batches.end(row))];
      if (within >= WAITING) {
        const far = Math.max(left - x, x - right, 0);
        if (far < 5 && (!best || far < best.far)) best = { batch: row, request: null, far };
        continue;
      }
      const [first, end] = this.store.requestsOf(row);
      const height = WAITING / Math.min(Math.max(end - first, 4), MOST_ROWS);
      for (let one = first; one < end; one++) {
        const place = one - first;
        if (place >= MOST_ROWS || Math.floor(within / height) !== place) continue;
        const far = Math.max(this.x(requests.queued(one)) - x, x - left, 0);
        if (far < 4 && (!best || far < best.far)) best = { batch: row, request: one, far };
      }
    }
    return best && { batch: best.batch, request: best.request };
  }

  markAt(x, y) {
    if (y < this.marksTop) return null;
    const near = this.record.marks.filter((mark) => Math.abs(this.x(mark.time) - x) < 6);
    return near.at(-1) ?? null;
  }

  tip(x, y) {
    const mark = this.markAt(x, y);
    if (mark) return `${mark.kind}: ${mark.text}`;
    const full = y < this.marksTop ? 0 : this.full().filter((place) => Math.abs(place - x) < 6).length;
    if (full) return `${counted(full, "request")} refused: the queue was full`;
    const lane = Math.floor((y - AXIS) / this.stride);
    if (!this.ghosts || !this.lanes[lane] || y - this.laneTop(lane) < WAITING + BLOCK) return "";
    for (const ghost of this.ghosts.visible(...this.view)) {
      if (this.ghosts.lanes[ghost.lane] !== this.lanes[lane] || this.x(ghost.end) < x || this.x(ghost.start) > x) continue;
      const took = duration(ghost.end - ghost.start);
      return `would have been: ${counted(ghost.count, "request")}, size ${ghost.size}, ${took}, closed because: ${ghost.reason}`;
    }
    return "";
  }

  // -- drawing

  paint(now) {
    const { canvas, store, record } = this;
    for (const lane of this.lanes.keys()) this.drawLane(lane);
    this.drawBlocks(now);
    for (const [lane, name] of this.lanes.entries()) this.drawName(lane, name);
    this.drawGhosts();
    this.drawMarks();
    if (!this.lanes.length) this.text("No request has been executed yet.", LEFT, AXIS + 30, "dim");
    const chosen = store.selected;
    canvas.dataset.batches = record.tables.batches.length;
    canvas.dataset.selection = chosen ? `${chosen.batch}${chosen.request === null ? "" : `/${chosen.request}`}` : "";
  }

  drawLane(lane) {
    const { context } = this;
    const top = this.laneTop(lane);
    context.fillStyle = this.colours.soft;
    context.fillRect(LEFT, top + WAITING, this.width, BLOCK);
    if (this.ghosts) context.fillRect(LEFT, top + WAITING + BLOCK + 2, this.width, GHOST);
  }

  /** Above the requests that wait, whose marks would make it unreadable. */
  drawName(lane, name) {
    const { context } = this;
    const top = this.laneTop(lane);
    context.font = `11px ${getComputedStyle(this.page.root).fontFamily}`;
    context.clearRect(LEFT, top - 1, context.measureText(name).width + 8, 13);
    this.text(name, LEFT + 2, top + 9);
  }

  /** What would have happened, below what did. */
  drawGhosts() {
    const { context, colours, canvas, ghosts } = this;
    canvas.dataset.ghosts = ghosts?.length ?? 0;
    canvas.dataset.ghostPart = ghosts?.part ?? "";
    canvas.dataset.ghostLanes = ghosts?.lanes.length ?? 0;
    if (!ghosts) return;
    const places = ghosts.lanes.map((name) => this.lanes.indexOf(name));
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, this.width, this.marksTop);
    context.clip();
    context.font = `11px ${getComputedStyle(this.page.root).fontFamily}`;
    context.textAlign = "left";
    for (const ghost of ghosts.visible(...this.view)) {
      const top = this.laneTop(places[ghost.lane]) + WAITING + BLOCK + 2;
      const [left, right] = [this.x(ghost.start), this.x(ghost.end)];
      const width = Math.max(right - left - (right - left > 3 ? 1 : 0), 1);
      context.globalAlpha = 0.3;
      context.fillStyle = colours.warn;
      context.fillRect(left, top, width, GHOST);
      context.globalAlpha = 1;
      if (width > 4) {
        context.strokeStyle = colours.warn;
        context.lineWidth = 1;
        context.strokeRect(left + 0.5, top + 0.5, width - 1, GHOST - 1);
      }
      if (width <= 14) continue;
      const whole = `${ghost.size} · ${ghost.reason}`;
      context.fillStyle = colours.text;
      context.fillText(context.measureText(whole).width < width - 8 ? whole : String(ghost.size), Math.max(left, LEFT) + 4, top + 13);
    }
    context.restore();
  }

  /** Executions that are narrower than a pixel are drawn as how busy each pixel was. */
  drawBlocks(now) {
    const { store, record, context, colours } = this;
    const { batches } = record.tables;
    const perPixel = (this.view[1] - this.view[0]) / this.width;
    const dense = this.lanes.map(() => null);
    const places = new Map(record.words.instance.map((name, number) => [number, this.lanes.indexOf(name)]));
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, this.width, this.marksTop);
    context.clip();
    for (const row of store.visible(...this.view)) {
      const lane = places.get(batches.instance(row)) ?? -1;
      if (lane < 0) continue;
      const [start, end] = [batches.start(row), batches.end(row)];
      if (end - start < perPixel) {
        dense[lane] ??= [new Float32Array(this.width + 2), new Uint8Array(this.width + 2)];
        const pixel = Math.min(Math.max(Math.floor((start - this.view[0]) / perPixel), 0), this.width + 1);
        dense[lane][0][pixel] += end - start;
        dense[lane][1][pixel] |= batches.failed(row) ? 2 : 1;
      } else this.drawBatch(lane, row, start, end, perPixel);
    }
    for (const [lane, found] of dense.entries()) if (found) this.drawDensity(lane, found, perPixel);
    for (const one of record.live.running ?? []) this.drawRunning(one, now);
    this.drawWaiting(now);
    context.restore();
  }

  drawDensity(lane, [busy, kinds], perPixel) {
    const { context, colours } = this;
    const bottom = this.laneTop(lane) + WAITING + BLOCK;
    for (const tone of [1, 2]) {
      context.fillStyle = tone === 2 ? colours.bad : colours.accent;
      context.globalAlpha = 0.85;
      for (let pixel = 0; pixel < busy.length; pixel++) {
        if (!busy[pixel] || (kinds[pixel] & 2 ? 2 : 1) !== tone) continue;
        const height = Math.max(Math.min(busy[pixel] / perPixel, 1) * BLOCK, 2);
        context.fillRect(LEFT + pixel, bottom - height, 1, height);
      }
    }
    context.globalAlpha = 1;
  }

  drawBatch(lane, row, start, end, perPixel) {
    const { context, colours, record, store } = this;
    const { batches, requests } = record.tables;
    const top = this.laneTop(lane);
    const [left, right] = [this.x(start), this.x(end)];
    const width = Math.max(right - left - (right - left > 3 ? 1 : 0), 1);
    const tone = batches.failed(row) ? colours.bad : colours.accent;
    const chosen = store.selected?.batch === row;
    context.fillStyle = tone;
    context.globalAlpha = 0.55;
    context.fillRect(left, top + WAITING, width, BLOCK);
    context.globalAlpha = 1;
    const inner = this.x(start + batches.compute_input(row));
    const infer = this.x(start + batches.compute_input(row) + batches.compute_infer(row));
    context.fillRect(inner, top + WAITING, Math.max(Math.min(infer, left + width) - inner, 0), BLOCK);
    if (width > 16) this.drawLabel(row, left, width, top);
    const [first, stop] = store.requestsOf(row);
    const height = WAITING / Math.min(Math.max(stop - first, 4), MOST_ROWS);
    for (let one = first; one < Math.min(stop, first + MOST_ROWS); one++) {
      const begin = this.x(requests.queued(one));
      const picked = store.selected?.request === one || store.other === one;
      context.fillStyle = picked ? colours.text : colours.warn;
      context.globalAlpha = picked ? 1 : 0.6;
      const wide = Math.max(left - begin, 1.5);
      context.fillRect(left - wide, top + (one - first) * height + 0.5, wide, Math.max(height - 1, 1));
    }
    context.globalAlpha = 1;
    if (chosen) {
      context.strokeStyle = colours.text;
      context.lineWidth = 2;
      context.strokeRect(left, top + WAITING + 1, width, BLOCK - 2);
    }
  }

  drawLabel(row, left, width, top) {
    const { context, record } = this;
    const { batches } = record.tables;
    const reason = record.words.reason[batches.reason(row)] ?? "";
    context.save();
    context.beginPath();
    context.rect(left, top + WAITING, width, BLOCK);
    context.clip();
    context.fillStyle = "#fff";
    context.font = `11px ${getComputedStyle(this.page.root).fontFamily}`;
    context.textAlign = "left";
    const size = String(batches.size(row));
    const whole = reason ? `${size} · ${reason}` : size;
    context.fillText(context.measureText(whole).width < width - 8 ? whole : size, Math.max(left, LEFT) + 4, top + WAITING + 16);
    context.restore();
  }

  drawRunning(one, now) {
    const lane = this.lanes.indexOf(one.instance);
    if (lane < 0) return;
    const { context, colours } = this;
    const top = this.laneTop(lane) + WAITING;
    const [left, right] = [this.x(one.start), this.x(Math.max(now, one.start))];
    const width = Math.max(right - left, 2);
    context.fillStyle = colours.good;
    context.globalAlpha = 0.75;
    context.fillRect(left, top, width, BLOCK);
    context.globalAlpha = 1;
    if (width > 50) {
      context.fillStyle = "#fff";
      context.textAlign = "left";
      context.font = `11px ${getComputedStyle(this.page.root).fontFamily}`;
      context.fillText(`${one.size} · runs ${duration(now - one.start)}`, Math.max(left, LEFT) + 4, top + 16);
    }
  }

  /** Requests in the queue, above the first lane: nobody knows yet which instance gets them. */
  drawWaiting(now) {
    const { context, colours, record } = this;
    const waiting = record.live.waiting ?? [];
    context.fillStyle = colours.warn;
    const height = WAITING / Math.min(Math.max(waiting.length, 4), MOST_ROWS);
    for (const [place, queued] of waiting.slice(0, MOST_ROWS).entries()) {
      const left = this.x(queued);
      context.fillRect(left, this.laneTop(0) + place * height + 0.5, Math.max(this.x(now) - left, 1.5), Math.max(height - 1, 1));
    }
  }

  /** Where requests in view found the queue full; others that ended in it have a mark. */
  full() {
    return [...this.store.rejected(...this.view)].filter(([, reason]) => reason === 0).map(([time]) => this.x(time));
  }

  drawMarks() {
    const { context, colours, record } = this;
    const y = this.marksTop + 8;
    context.fillStyle = colours.warn;
    for (const x of new Set(this.full().map(Math.round))) context.fillRect(x - 1, y - 5, 2, 9);
    for (const mark of record.marks) {
      const x = this.x(mark.time);
      if (x < LEFT || x > LEFT + this.width) continue;
      context.fillStyle = colours[MARK_COLOURS[mark.kind]] ?? colours.dim;
      context.beginPath();
      if (mark.kind === "state") context.arc(x, y, 3, 0, 7);
      else {
        context.moveTo(x, y - 5);
        context.lineTo(x + 5, y + 4);
        context.lineTo(x - 5, y + 4);
      }
      context.fill();
    }
  }

  // -- words

  facts() {
    const { store, record, page } = this;
    const facts = store.facts(...this.view);
    const live = record.live;
    const now = [];
    if (live.waiting_count) now.push(`${live.waiting_count} waiting`);
    if (live.running?.length) now.push(`${live.running.length} running`);
    if (record.dropped) now.push(`${record.dropped.toLocaleString("en")} events not kept`);
    page.summary.textContent = now.join(" · ");
    const words = this.model.get("state").rejections ?? [];
    const lost = [...facts.lost].map(([number, count]) => [words[number], count]);
    page.facts.replaceChildren(sizes(facts), reasons(facts), split(facts), ...(lost.length ? [rejections(lost)] : []));
    return sentence(facts) + lost.map(([reason, count]) => ` ${counted(count, "request")} ended in the queue: ${reason}.`).join("");
  }

  tell() {
    const { store, record, page } = this;
    const { selected } = store;
    if (!selected) {
      page.detail.textContent = this.lanes?.length ? "Click a block or a waiting request; two requests say why they were not batched." : "";
      return;
    }
    const { batches, requests } = record.tables;
    const row = selected.batch;
    const took = ["input", "infer", "output"].map((part) => `${part} ${duration(batches[`compute_${part}`](row))}`).join(", ");
    const reason = record.words.reason[batches.reason(row)] || "unknown";
    const lines = [
      `Batch ${row} on ${record.words.instance[batches.instance(row)]}, version ${batches.version(row)}: ${counted(batches.count(row), "request")}, size ` +
        `${batches.size(row)}, closed because: ${reason}. It took ${duration(batches.end(row) - batches.start(row))} (${took})` +
        (batches.failed(row) ? " and failed." : "."),
    ];
    for (const one of [store.other, selected.request]) if (one !== null && one >= requests.oldest) lines.push(this.life(one));
    if (this.values?.row === selected.request) lines.push(...this.values.values);
    if (this.why) lines.push(this.why);
    page.detail.replaceChildren(...lines.map((line, n) => element("div", line, n === lines.length - 1 && this.why ? "tl-why" : "")));
  }

  life(row) {
    const { record } = this;
    const { batches, requests } = record.tables;
    const batch = requests.batch(row);
    const shapes = (record.words.shapes[requests.shapes(row)] ?? []).map(([name, shape]) => `${name} [${shape.join(", ")}]`).join(", ");
    const known = batch >= batches.oldest;
    const waited = known ? `, waited ${duration(batches.start(batch) - requests.queued(row))}, answered after ${duration(batches.end(batch) - requests.arrived(row))}` : "";
    const failed = record.marks.find((mark) => mark.serial && mark.serial === requests.serial(row));
    return `${record.name(row)}: ${shapes || "shapes not kept"}${waited}` + (failed ? `; ${failed.kind}: ${failed.text}` : "");
  }

  rows() {
    const { record, store } = this;
    const { batches, requests } = record.tables;
    const table = element("table", "", "tl-tensors");
    const head = ["batch", "instance", "start", "took", "requests", "size", "closed because", "longest wait"];
    table.append(cells(head, "th"));
    const rows = [...store.visible(...this.view)];
    for (const row of rows.slice(-TABLE_ROWS)) {
      const [first, end] = store.requestsOf(row);
      let longest = 0;
      for (let one = first; one < end; one++) longest = Math.max(longest, batches.start(row) - requests.queued(one));
      table.append(
        cells([
          row, record.words.instance[batches.instance(row)], duration(batches.start(row) - store.zero()), duration(batches.end(row) - batches.start(row)),
          batches.count(row), batches.size(row), record.words.reason[batches.reason(row)] ?? "", duration(longest),
        ]),
      );
    }
    return table;
  }
}

function sentence(facts) {
  if (!facts.batches) return "Nothing was executed in the time shown.";
  return (
    `${counted(facts.requests, "request")} in ${counted(facts.batches, "batch")}; waited ${duration(facts.queue.p50)} at the median, ` +
    `${duration(facts.queue.p95)} at the 95th percentile; executed ${duration(facts.compute.p50)} and ${duration(facts.compute.p95)}.`
  );
}

const sizes = (facts) => bars("Batch sizes", [...facts.sizes].sort((one, other) => one[0] - other[0]), "accent");
function reasons(facts) {
  const box = bars("Closed because", [...facts.reasons].sort((one, other) => other[1] - one[1]), "accent");
  box.classList.add("tl-words");
  return box;
}

function rejections(lost) {
  const box = bars("Ended in the queue", lost, "warn");
  box.classList.add("tl-words");
  return box;
}

function split(facts) {
  const box = element("div", "", "tl-chart");
  box.append(element("div", "Queue and compute", "tl-dim"));
  const whole = facts.queued + facts.computed;
  const strip = element("div", "", "tl-bar");
  // a piece is a pixel wide at least
  for (const [part, tone] of whole ? [["queued", "warn"], ["computed", "accent"]] : []) {
    const piece = element("span");
    piece.style.cssText = `width:${(facts[part] / whole) * 100}%;background:var(--tl-${tone})`;
    strip.append(piece);
  }
  box.append(strip);
  for (const [word, of] of [["queue", facts.queue], ["compute", facts.compute]]) {
    box.append(element("div", `${word}  p50 ${duration(of.p50)}  p95 ${duration(of.p95)}`));
  }
  return box;
}

export default { render: renderer(Timeline, TimelineStore) };
