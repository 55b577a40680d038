// What the graph shows: the kernel's drawing, and which of its boxes is selected. Draws nothing.

/** A drawing of the kernel (`views/graph.py`). */
export interface GraphMessage {
  kind: "graph";
  summary: string;
  figure: string;
  slots: string[];
  table: (string | number)[][];
  sequences: string[];
  kept: number;
  following: boolean;
}

export class GraphStore {
  drawn: Omit<GraphMessage, "kind" | "following"> = { summary: "", figure: "", table: [], slots: [], sequences: [], kept: 0 };
  following = true;
  selected = -1;

  /** Takes a message of the kernel; another request has another selection. */
  apply(message: GraphMessage): void {
    if (message.summary !== this.drawn.summary) this.selected = -1;
    this.drawn = message;
    this.following = message.following;
  }

  /** Selects the next or last box of `count`; before the first is none. */
  step(by: number, count: number): void {
    this.selected = Math.min(Math.max(this.selected + by, -1), count - 1);
  }

  /** The sentence that stands for the picture. */
  sentence(): string {
    return [this.drawn.summary, ...this.drawn.sequences.map((line) => line.trim())].join(" ");
  }
}
