// Which time a view shows: it follows what happens until it is paused, and is zoomed and moved. Draws nothing.

const LEAST_SPAN = 1e3; // a microsecond
const LEAST_FOLLOWED = 1e6;
const MOST_SPAN = 3600e9 * 24;
// What is followed comes to rest this share of the width before the right edge, and does not leave the view.
const REST = 0.25;
// How fast the difference of the clocks may fall from message to message, in nanoseconds: clocks drift.
const DRIFT = 1e5;

export type Span = [from: number, to: number];

/** The base of what views over time know. Times are the kernel's clock, in nanoseconds. */
export abstract class TimeWindow {
  span = 2e9;
  /** of the view, while it does not follow */
  end = 0;
  following = true;
  pausedAt = 0;
  /** shows all that is kept */
  isFitted = false;
  /** the kernel's clock less the browser's; null before the first message */
  offset: number | null = null;

  /** When the kept events begin; Infinity if there are none. */
  abstract first(): number;
  /** When something happened last; 0 if nothing has. */
  abstract last(): number;
  /** The time of the selection, or NaN. */
  abstract get selectedTime(): number;
  /** Whether something goes on. */
  abstract get busy(): boolean;
  /** A message came at `browserNs` that was sent at `kernelNs`: the least delay is the difference of the clocks. */
  synchronize(kernelNs: number, browserNs: number): void {
    const offset = kernelNs - browserNs;
    this.offset = this.offset === null || offset > this.offset ? offset : this.offset - Math.min(DRIFT, this.offset - offset);
  }

  now(browserNs: number): number {
    return this.offset === null ? this.last() : browserNs + this.offset;
  }

  /** The time in view. */
  window(now: number): Span {
    const end = this.following ? this._present(now) : this.end;
    return [end - this.span, end];
  }

  /** Whether the next moment shows another time. */
  moves(now: number): boolean {
    return this.following && this.window(now)[1] === now;
  }

  pause(now: number): void {
    this.isFitted = false;
    if (this.following) {
      [, this.end] = this.window(now);
      this.pausedAt = now;
    }
    this.following = false;
  }

  follow(): void {
    this.isFitted = false;
    this.following = true;
    this.span = Math.max(this.span, LEAST_FOLLOWED);
  }

  /** Zooms by a factor (below 1 is nearer) and leaves the time at `share` of the width where it is. */
  zoom(factor: number, share: number, now: number): void {
    this.isFitted = false;
    const [from, to] = this.window(now);
    const span = Math.min(Math.max(this.span * factor, this.following ? LEAST_FOLLOWED : LEAST_SPAN), MOST_SPAN);
    const fixed = from + (to - from) * share;
    this.span = span;
    if (!this.following) this.end = fixed + span * (1 - share);
  }

  /** Zooms with the selection where it is, if it is in view. */
  zoomAtSelected(factor: number, now: number): void {
    const [from, to] = this.window(now);
    const at = (this.selectedTime - from) / (to - from);
    this.zoom(factor, at >= 0 && at <= 1 ? at : 0.5, now);
  }

  pan(share: number, now: number): void {
    this.pause(now);
    this.end = Math.min(this.end + this.span * share, now + this.span / 2);
  }

  /** Shows all that is kept. */
  fit(now: number): void {
    const end = this.last() || now;
    const first = Math.min(this.first(), end);
    if (this.following) this.pausedAt = now || end;
    this.following = false;
    this.isFitted = true;
    this.span = Math.max((end - first) * 1.04, LEAST_SPAN);
    this.end = end + this.span * 0.02;
  }

  private _present(now: number): number {
    const last = this.last();
    return this.busy || !last ? now : Math.min(now, last + this.span * REST);
  }
}
