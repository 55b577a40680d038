// What the graph shows: the kernel's drawing, and which of its boxes is selected. Draws nothing.

export class GraphStore {
  constructor() {
    this.drawn = { said: "", figure: "", table: [], slots: [], sequences: [], kept: 0 };
    this.following = true;
    this.selected = -1;
  }

  /** Takes a message of the kernel; another request has another selection. */
  apply(message) {
    if (message.said !== this.drawn.said) this.selected = -1;
    this.drawn = message;
    this.following = message.following;
  }

  /** Selects the next or last box of `count`; before the first is none. */
  step(by, count) {
    this.selected = Math.min(Math.max(this.selected + by, -1), count - 1);
  }

  /** The sentence that stands for the picture. */
  sentence() {
    return [this.drawn.said, ...this.drawn.sequences.map((line) => line.trim())].join(" ");
  }
}
