// Which time a view shows: it follows what happens until it is paused, and is zoomed and moved. Draws nothing.

const LEAST_SPAN = 1e3; // a microsecond
const LEAST_FOLLOWED = 1e6;
const MOST_SPAN = 3600e9 * 24;
// What is followed comes to rest this share of the width before the right edge, and does not leave the view.
const REST = 0.25;

/**
 * Subclasses tell `first()` and `last()`: when what is kept began, and when something happened last; `chosenTime` of what
 * is selected, or NaN; `busy` while something goes on.
 */
export class TimeWindow {
  constructor(record) {
    this.record = record;
    this.span = 2e9;
    this.end = 0; // of the view, while it does not follow
    this.following = true;
    this.offset = null; // kernel's clock less the browser's
  }

  /** A message came at `browserNs` that was sent at `kernelNs`: the least delay tells the difference of the clocks. */
  heardAt(kernelNs, browserNs) {
    const offset = kernelNs - browserNs;
    // slowly down again, as clocks drift
    this.offset = this.offset === null || offset > this.offset ? offset : this.offset - Math.min(1e5, this.offset - offset);
  }

  now(browserNs) {
    return this.offset === null ? this.last() : browserNs + this.offset;
  }

  /** Where time 0 of the scale is. */
  zero() {
    const mark = this.record.marks.length ? this.record.marks[0].time : Infinity;
    const zero = Math.min(this.first(), mark);
    return Number.isFinite(zero) ? zero : 0;
  }

  /** The time in view. */
  window(now) {
    const end = this.following ? this.#present(now) : this.end;
    return [end - this.span, end];
  }

  /** Whether the next moment shows another time. */
  moves(now) {
    return this.following && this.window(now)[1] === now;
  }

  #present(now) {
    const last = this.last();
    return this.busy || !last ? now : Math.min(now, last + this.span * REST);
  }

  pause(now) {
    if (this.following) [, this.end] = this.window(now);
    this.following = false;
  }

  follow() {
    this.following = true;
    this.span = Math.max(this.span, LEAST_FOLLOWED);
  }

  /** Zooms by a factor (below 1 is nearer) and leaves the time at `share` of the width where it is. */
  zoom(factor, share, now) {
    const [from, to] = this.window(now);
    const span = Math.min(Math.max(this.span * factor, this.following ? LEAST_FOLLOWED : LEAST_SPAN), MOST_SPAN);
    const fixed = from + (to - from) * share;
    this.span = span;
    if (!this.following) this.end = fixed + span * (1 - share);
  }

  /** Zooms with what is selected (`chosenTime`) where it is, if it is in view. */
  zoomAtSelected(factor, now) {
    const [from, to] = this.window(now);
    const at = (this.chosenTime - from) / (to - from);
    this.zoom(factor, at >= 0 && at <= 1 ? at : 0.5, now);
  }

  pan(share, now) {
    this.pause(now);
    this.end = Math.min(this.end + this.span * share, now + this.span / 2);
  }

  /** Shows all that is kept. */
  fit(now) {
    const end = this.last() || now;
    const first = this.first();
    this.following = false;
    this.span = Math.max((end - (Number.isFinite(first) ? first : this.zero())) * 1.04, LEAST_SPAN);
    this.end = end + this.span * 0.02;
  }
}
