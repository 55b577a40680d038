import assert from "node:assert/strict";
import { test } from "node:test";
import { RecordStore } from "../../lib/views/recordStore.js";
import { EMPTY, FINAL, StreamsStore, hanging, stopping } from "../../lib/views/streamsStore.js";
import { duration } from "../../lib/views/text.js";

const COLUMNS = {
  responses: ["serial", "time", "number", "kind", "shapes"],
  streams: ["serial", "arrived", "executed", "first", "last", "end", "count", "kind", "polls", "asked", "noticed"],
  requests: ["serial", "arrived", "queued", "batch", "size", "shapes"],
  batches: ["start", "end", "instance"],
};
const MS = 1e6;

function store() {
  const made = new StreamsStore(new RecordStore(COLUMNS, 100));
  made.put = (tables, more = {}) => {
    const names = Object.keys(tables);
    const rows = names.map((table) => ({ table, at: made.record.tables[table].total, oldest: 0 }));
    made.record.apply({ epoch: 1, rows, ...more }, names.map((table) => Float64Array.from(tables[table].flat()).buffer));
    made.refresh();
  };
  return made;
}

const open = (serial, more = {}) => ({ serial, id: "", arrived: 1 * MS, executed: 2 * MS, instance: "m_0_0", executes: false, polls: 0, asked: 0, noticed: 0, ...more });

test("a stream is open until it has ended", () => {
  const streams = store();
  streams.put({ responses: [[7, 4 * MS, 0, 0, 0], [7, 6 * MS, 1, 0, 0]] }, { live: { open: [open(7, { id: "mine" })] } });
  const [one] = streams.visible(0, 1e9);
  assert.deepEqual([one.open, one.id, one.instance, one.responses.length, streams.busy], [true, "mine", "m_0_0", 2, true]);
  assert.match(hanging(one), /every kind of client waits/);
  assert.deepEqual([streams.facts([one]).first.p50, streams.facts([one]).gap.p50], [3 * MS, 2 * MS]);
  const ended = [7, 1 * MS, 2 * MS, 4 * MS, 6 * MS, 9 * MS, 2, FINAL + EMPTY, 0, 0, 0];
  streams.put({ responses: [[7, 9 * MS, 2, FINAL + EMPTY, 0]], streams: [ended] }, { live: { open: [] } });
  assert.deepEqual([one.open, one.end, streams.busy, streams.first(), streams.last()], [false, 9 * MS, false, 1 * MS, 9 * MS]);
  assert.match(hanging(one), /triton_enable_empty_final_response/);
  const facts = streams.facts([one]);
  assert.deepEqual([facts.responses, facts.empty, facts.open, facts.failed], [2, 1, 0, 0]);
});

test("requests tell names and instances of streams, and are none themselves", () => {
  const streams = store();
  streams.put({ responses: [[3, 4 * MS, 0, FINAL, 0]], streams: [[3, 1, 1, 1, 1, 5 * MS, 1, FINAL, 0, 0, 0]] });
  const more = { ids: [[0, "third"]], words: { instance: [0, ["m_0_1"]] } };
  streams.put({ batches: [[0, 1, 0]], requests: [[3, 2 * MS, 2 * MS, 0, 1, 0], [4, 2 * MS, 2 * MS, 0, 1, 0]] }, more);
  assert.deepEqual([...streams.streams.keys()], [3]);
  assert.deepEqual([streams.streams.get(3).id, streams.streams.get(3).instance], ["third", "m_0_1"]);
  assert.match(hanging(streams.streams.get(3)), /every gRPC stream client sees the end/);
});

test("an ordinary request that runs is shown only while it runs", () => {
  const streams = store();
  streams.put({}, { live: { open: [open(5, { executes: true })] } });
  assert.deepEqual([streams.streams.size, hanging(streams.streams.get(5))], [1, "The final flag was not sent yet."]);
  streams.put({}, { live: { open: [] } });
  assert.equal(streams.streams.size, 0);
});

test("what came of asking it to stop", () => {
  const told = (one) => stopping({ end: 0, noticed: 0, polls: 0, asked: 10 * MS, ...one }, 30 * MS, duration);
  assert.equal(told({ asked: 0 }), "");
  assert.equal(told({}), "Cancelled; never polled: its model does not call is_cancelled(), it still runs after 20 ms.");
  assert.equal(told({ polls: 2 }), "Cancelled; its model has not called is_cancelled() since, it still runs after 20 ms.");
  assert.equal(told({ polls: 3, noticed: 12 * MS, end: 15 * MS }), "Cancelled; is_cancelled() returned True after 2 ms, the sender closed after 5 ms.");
});

test("the next one in view is chosen", () => {
  const streams = store();
  streams.put({ responses: [[1, 4 * MS, 0, 0, 0], [2, 6 * MS, 0, 0, 0]] }, { live: { open: [open(1), open(2, { arrived: 3 * MS })] } });
  streams.step(1, 1e9);
  streams.step(1, 1e9);
  streams.step(1, 1e9);
  assert.deepEqual([streams.selected, streams.selectedTime], [2, 3 * MS]);
});

test("a model that was recorded anew has other streams", () => {
  const streams = store();
  streams.put({ responses: [[1, 4 * MS, 0, 0, 0]] }, { live: { open: [open(1)] } });
  streams.record.apply({ epoch: 2, rows: [] }, []);
  streams.refresh();
  assert.equal(streams.streams.size, 0);
});
