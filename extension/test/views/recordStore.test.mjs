import assert from "node:assert/strict";
import { test } from "node:test";
import { RecordStore } from "../../lib/views/recordStore.js";
import { makeTable, numbersOf } from "../../lib/views/table.js";

const rows = (from, to) => Float64Array.from({ length: (to - from) * 2 }, (_, n) => (n % 2 ? -(from + (n >> 1)) : from + (n >> 1)));

const message = (more) => ({ kind: "record", epoch: 1, rows: [], ...more });

test("a table keeps its last rows, however they come", () => {
  for (const step of [1, 3, 700, 2500, 6000]) {
    const table = makeTable(["serial", "other"], 2000);
    for (let from = 0; from < 5000; from += step) table.put(from, rows(from, Math.min(from + step, 5000)));
    assert.deepEqual([table.total, table.oldest, table.length], [5000, 3000, 2000]);
    for (let row = 3000; row < 5000; row++) assert.deepEqual([table.serial(row), table.other(row)], [row, -row]);
  }
});

test("rows that are known are skipped, and others may be missing", () => {
  const table = makeTable(["serial", "other"], 100);
  table.put(0, rows(0, 10));
  table.put(5, rows(5, 12));
  assert.deepEqual([table.total, table.serial(11)], [12, 11]);
  table.put(50, rows(50, 55));
  assert.deepEqual([table.oldest, table.total, table.serial(50)], [50, 55, 50]);
});

test("a row is found by a number that does not fall", () => {
  const table = makeTable(["serial", "other"], 10);
  table.put(0, rows(0, 25));
  assert.deepEqual([0, 17, 24, 99].map((limit) => table.find(table.serial, limit)), [15, 17, 24, 25]);
});

test("a message that was lost is seen, one that comes twice is not", () => {
  const store = new RecordStore({ requests: ["serial", "other"] }, 100);
  const part = (at, to, oldest = 0) => [message({ rows: [{ table: "requests", at, oldest }] }), [rows(at, to).buffer]];
  assert.equal(store.apply(...part(0, 5)), true);
  assert.equal(store.apply(...part(0, 5)), true);
  assert.equal(store.apply(...part(9, 12)), false);
  assert.deepEqual(store.known, { epoch: 1, rows: { requests: 5 }, marks: 0, words: { instance: 0, reason: 0, shapes: 0, sequence: 0 } });
  assert.equal(store.apply(...part(9, 12, 9)), true); // the kernel does not have it any more either
  assert.equal(store.tables.requests.oldest, 9);
});

test("words, names, marks and what is live", () => {
  const store = new RecordStore({ requests: ["serial", "other"] }, 2);
  const first = { words: { reason: [0, ["full", "delay"]] }, marks: [[0, 5, "error", "no", 3]], ids: [[0, "mine"]], live: { waiting: [1] } };
  store.apply(message({ ...first, rows: [{ table: "requests", at: 0, oldest: 0 }], dropped: 7 }), [rows(0, 2).buffer]);
  assert.equal(store.apply(message({ words: { reason: [3, ["later"]] } }), []), false);
  store.apply(message({ words: { reason: [2, ["shape"]] }, marks: [[0, 5, "error", "no", 3], [1, 6, "state", "READY", 0]] }), []);
  assert.deepEqual(store.words.reason, ["full", "delay", "shape"]);
  assert.deepEqual(store.marks.map((mark) => mark.text), ["no", "READY"]);
  assert.deepEqual([store.name(0), store.name(1), store.dropped, store.live.waiting], ["mine", "request 1", 7, [1]]);
  store.apply(message({ rows: [{ table: "requests", at: 2, oldest: 0 }] }), [rows(2, 5).buffer]);
  store.apply(message({ ids: [[3, "a"], [4, "b"]] }), []);
  assert.deepEqual([...store.ids], [[3, "a"], [4, "b"]]);
});

test("a model that was recorded anew begins again", () => {
  const store = new RecordStore({ requests: ["serial", "other"] }, 10);
  store.apply(message({ rows: [{ table: "requests", at: 0, oldest: 0 }], words: { reason: [0, ["full"]] } }), [rows(0, 5).buffer]);
  store.apply({ ...message({}), epoch: 2 }, []);
  assert.deepEqual(store.known, { epoch: 2, rows: { requests: 0 }, marks: 0, words: { instance: 0, reason: 0, shapes: 0, sequence: 0 } });
});

test("numbers are read wherever they lie", () => {
  const bytes = new Uint8Array(24);
  bytes.set(new Uint8Array(Float64Array.of(1.5, 2.5).buffer), 3);
  assert.deepEqual([...numbersOf(new DataView(bytes.buffer, 3, 16))], [1.5, 2.5]);
});
