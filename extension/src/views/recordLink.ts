// Connects a record in the browser with the kernel: nothing is sent while no view of it is open.
import { Cleanup, Model } from "./anywidget.js";
import { send } from "./base.js";
import { BrowserRecord } from "./recordStore.js";

const ALIVE_MS = 20000;
/** The least time between two requests for what was lost. */
const RESUME_MS = 500;

const PROTOCOL = 1;
export const FOREIGN = "This view is of another version of tritonlab. Run its cell again.";

/** The state of every view of a record (`views/record_view.py`). */
export interface RecordState {
  protocol: number;
  columns?: Record<string, string[]>;
  capacity: number;
  title?: string;
  label: string;
  /** false for a recording from a file */
  live: boolean;
  /** nanoseconds since the epoch in the kernel's time zone, less the kernel's clock; null if that is not known */
  wall?: number | null;
}

interface Link {
  record: BrowserRecord;
  drawings: number;
}

type RecordClass<R extends BrowserRecord> = new (columns: Record<string, string[]>, capacity: number) => R;

/** By the id of a view: what the browser has of its record, and how many drawings of it there are. */
const links = new Map<string, Link>();

/** The record of a view's model; null for a saved state of another version. All drawings of the view share it. */
export function recordOf<R extends BrowserRecord>(model: Model<RecordState>, Record: RecordClass<R>): R | null {
  const { protocol, columns, capacity } = model.get("state");
  if (protocol !== PROTOCOL || !columns) return null;
  const id = model.get("view");
  const link = links.get(id) ?? { record: new Record(columns, capacity), drawings: 0 };
  links.set(id, link);
  return link.record as R;
}

/** Any message of a view of a record. */
export interface ViewMessage {
  kind: string;
  /** what went wrong, of kind "problem" */
  text?: string;
  /** the record is complete, of kind "record" */
  done?: boolean;
  /** the kernel's clock, of kind "record" */
  now?: number;
}

/**
 * Feeds the record for as long as a view of it is open. `onMessage(message, buffers)` is called after each message,
 * `report(text)` with what went wrong, or "". Returns what ends it.
 */
export function connect(
  model: Model<RecordState, ViewMessage>,
  onMessage: (message: ViewMessage, buffers: DataView[]) => void,
  report: (text: string) => void,
): Cleanup {
  const link = links.get(model.get("view"));
  if (!link) throw new Error("connect() comes after recordOf()");
  const { record } = link;
  const open = (): void => void send(model, { do: "open", known: record.known });
  let resumedAt = 0;
  const listen = (message: ViewMessage, buffers: DataView[]): void => {
    if (message.kind === "problem") report(message.text ?? "");
    if (message.kind === "record" && !record.apply(message as never, buffers) && performance.now() - resumedAt > RESUME_MS) {
      resumedAt = performance.now();
      open(); // one was lost: from where we are
    }
    if (message.kind === "record" && message.done) report("");
    onMessage(message, buffers);
  };
  model.on("msg:custom", listen);
  link.drawings += 1;
  open();
  const alive = setInterval(() => void send(model, { do: "alive" }), ALIVE_MS);
  return () => {
    clearInterval(alive);
    model.off("msg:custom", listen);
    link.drawings -= 1;
    if (!link.drawings) void send(model, { do: "close" });
  };
}
