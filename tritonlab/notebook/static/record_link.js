// Connects a record in the browser with the kernel: nothing is sent while no view of it is open.
import { ask } from "./base.js";
import { RecordStore } from "./record_store.js";

const ALIVE_MS = 20000;

const PROTOCOL = 1;

/** By the id of a view: what the browser has of its record, and how many drawings of it there are. */
const links = new Map();

/** The record of a view's model; null for a saved state of another version. All drawings of the view have the same. */
export function recordOf(model, Record = RecordStore) {
  const { protocol, columns, capacity } = model.get("state");
  if (protocol !== PROTOCOL || !columns) return null;
  const id = model.get("view");
  if (!links.has(id)) links.set(id, { record: new Record(columns, capacity), drawings: 0 });
  return links.get(id).record;
}

/**
 * Feeds the record for as long as a view of it is open. `heard(message, buffers)` is called after each message, `say(text)`
 * with what has gone wrong, or "". Returns what ends it.
 */
export function connect(model, heard, say) {
  const link = links.get(model.get("view"));
  const { record } = link;
  const open = () => ask(model, { do: "open", known: record.known });
  let asked = 0;
  const listen = (message, buffers) => {
    if (message.kind === "problem") say(message.text);
    if (message.kind === "record" && !record.apply(message, buffers) && performance.now() - asked > 500) {
      asked = performance.now();
      open(); // one was lost: from where we are
    }
    if (message.kind === "record" && message.done) say("");
    heard(message, buffers);
  };
  model.on("msg:custom", listen);
  link.drawings += 1;
  open();
  const alive = setInterval(() => ask(model, { do: "alive" }), ALIVE_MS);
  return () => {
    clearInterval(alive);
    model.off("msg:custom", listen);
    link.drawings -= 1;
    if (!link.drawings) ask(model, { do: "close" });
  };
}
