import assert from "node:assert/strict";
import { test } from "node:test";
import { RecordStore } from "../../lib/views/recordStore.js";
import { TimelineStore } from "../../lib/views/timelineStore.js";

const BATCHES = ["start", "end", "instance", "size", "count", "reason", "failed", "first"];
const REQUESTS = ["serial", "arrived", "queued", "batch", "size", "shapes"];
const MS = 1e6;

/** Batches as [start, end, instance, requests, reason] in milliseconds, each request queued 2 ms before. */
function recorded(...batches) {
  const record = new RecordStore({ batches: BATCHES, requests: REQUESTS }, 1000);
  const requests = [];
  const rows = batches.flatMap(([start, end, instance, count, reason], number) => {
    const first = requests.length;
    for (let n = 0; n < count; n++) requests.push([requests.length, (start - 2) * MS, (start - 2) * MS, number, 1, 0]);
    return [start * MS, end * MS, instance, count, count, reason, 0, first];
  });
  const message = { epoch: 1, words: { instance: [0, ["m_0_10", "m_0_2"]], reason: [0, ["full", "delay"]] } };
  message.rows = [{ table: "batches", at: 0, oldest: 0 }, { table: "requests", at: 0, oldest: 0 }];
  record.apply(message, [Float64Array.from(rows).buffer, Float64Array.from(requests.flat()).buffer]);
  return new TimelineStore(record);
}

const some = () => recorded([10, 20, 0, 2, 0], [12, 22, 1, 1, 1], [20, 30, 0, 3, 0], [100, 140, 1, 1, 1]);

test("lanes stand in the order of their numbers, those that run for the first time too", () => {
  const store = some();
  store.refresh();
  assert.deepEqual(store.lanes(0, 1), ["m_0_2", "m_0_10"]); // of a file: all
  store.record.live = { running: [{ instance: "m_0_1" }] };
  assert.deepEqual(store.lanes(0, 1), ["m_0_1", "m_0_2", "m_0_10"]);
  assert.equal(store.longest, 40 * MS);
});

test("the lane of an instance that is gone folds away once its executions are out of view", () => {
  const store = some(); // m_0_2 executes until 140 ms, m_0_10 until 30 ms
  store.refresh();
  store.record.live = { instances: ["m_0_2", "m_1_0"], running: [] };
  assert.deepEqual(store.lanes(0, 50 * MS), ["m_0_2", "m_0_10", "m_1_0"]);
  assert.deepEqual(store.lanes(90 * MS, 150 * MS), ["m_0_2", "m_1_0"]); // it has a lane before its first execution, too
  store.record.live = { instances: [], running: [] }; // unloaded
  assert.deepEqual(store.lanes(90 * MS, 150 * MS), ["m_0_2"]);
  assert.deepEqual(store.lanes(200 * MS, 300 * MS), []);
});

test("a paused view knows since when, and one that shows all follows what comes of a file", () => {
  const store = some();
  store.refresh();
  store.pause(50 * MS);
  store.pan(-0.5, 70 * MS);
  assert.deepEqual([store.following, store.pausedAt, store.moves(80 * MS)], [false, 50 * MS, false]);
  store.fit(90 * MS);
  assert.equal(store.isFitted, true);
  store.zoom(0.5, 0.5, 90 * MS);
  assert.equal(store.isFitted, false);
  store.follow();
  store.fit(0);
  assert.equal(store.pausedAt, 140 * MS);
});

test("what touches a time is visible, a long one too that began long before", () => {
  const store = some();
  store.refresh();
  assert.deepEqual([...store.visible(21 * MS, 50 * MS)], [1, 2]);
  assert.deepEqual([...store.visible(120 * MS, 121 * MS)], [3]);
  assert.deepEqual([...store.visible(31 * MS, 99 * MS)], []);
});

test("numbers about what is in view", () => {
  const store = some();
  store.refresh();
  const facts = store.facts(0, 50 * MS);
  assert.deepEqual([facts.batches, facts.requests, facts.failed], [3, 6, 0]);
  assert.deepEqual([...facts.sizes], [[2, 1], [1, 1], [3, 1]]);
  assert.deepEqual([...facts.reasons], [["full", 2], ["delay", 1]]);
  assert.deepEqual([facts.queue, facts.compute], [{ p50: 2 * MS, p95: 2 * MS }, { p50: 10 * MS, p95: 10 * MS }]);
  assert.deepEqual([facts.queued, facts.computed], [12 * MS, 60 * MS]);
});

test("requests that ended in the queue are counted by their reasons", () => {
  const columns = { batches: BATCHES, requests: REQUESTS, rejected: ["time", "reason"] };
  const record = new RecordStore(columns, 1000);
  const rows = Float64Array.from([[1, 0], [2, 0], [3, 2], [90, 1]].flatMap(([time, reason]) => [time * MS, reason]));
  record.apply({ epoch: 1, rows: [{ table: "rejected", at: 0, oldest: 0 }] }, [rows.buffer]);
  const store = new TimelineStore(record);
  assert.deepEqual([...store.facts(0, 50 * MS).lost], [[0, 2], [2, 1]]);
  assert.equal(store.last(), 90 * MS);
  assert.deepEqual([...some().facts(0, 50 * MS).lost], []);
});

test("it follows until it is paused", () => {
  const store = some();
  store.record.live = { running: [{ instance: "m_0_1" }] };
  assert.deepEqual(store.window(3e9), [1e9, 3e9]);
  store.pause(3e9);
  assert.deepEqual(store.window(9e9), [1e9, 3e9]);
  store.pan(0.5, 9e9);
  assert.deepEqual(store.window(9e9), [2e9, 4e9]);
  store.zoom(0.5, 0.25, 9e9);
  assert.deepEqual(store.window(9e9), [2.25e9, 3.25e9]);
  store.follow();
  assert.deepEqual(store.window(9e9), [8e9, 9e9]);
});

test("what happened last stays in view while nothing happens", () => {
  const store = some();
  assert.deepEqual([store.window(0.2e9), store.moves(0.2e9)], [[-1.8e9, 0.2e9], true]);
  assert.deepEqual([store.window(9e9), store.moves(9e9)], [[-1.36e9, 0.64e9], false]); // the last batch ends at 0.14
  store.record.live = { waiting: [{}] };
  assert.deepEqual([store.window(9e9), store.moves(9e9)], [[7e9, 9e9], true]);
});

test("everything fits", () => {
  const store = some();
  store.fit(1e12);
  const [from, to] = store.window(1e12);
  assert.ok(from < 8 * MS && to > 140 * MS && to - from < 150 * MS);
});

test("a batch is chosen by steps in its lane, a request within it", () => {
  const store = some();
  store.refresh();
  store.fit(1e9);
  store.step(1, 1e9);
  store.step(1, 1e9);
  assert.deepEqual(store.selected, { batch: 2, request: null });
  store.step(1, 1e9);
  assert.deepEqual(store.selected, { batch: 2, request: null });
  store.stepRequest(1);
  store.stepRequest(1);
  assert.deepEqual([store.selected, store.other], [{ batch: 2, request: 4 }, 3]);
  store.stepRequest(-5);
  assert.equal(store.selected.request, null);
});

test("two requests that are chosen one after the other are a question", () => {
  const store = some();
  store.select({ batch: 0, request: 1 });
  store.select({ batch: 1, request: 2 });
  assert.equal(store.other, 1);
  store.select({ batch: 1, request: null });
  assert.equal(store.other, null);
});

test("the clocks' difference is that of the quickest message", () => {
  const store = some();
  store.synchronize(5e9, 2.1e9);
  store.synchronize(6e9, 3.01e9);
  assert.equal(store.now(4e9), 4e9 + 2.99e9);
  store.synchronize(7e9, 5e9); // late
  assert.ok(store.now(4e9) > 4e9 + 2.98e9);
});

test("what was forgotten in the kernel has no lane and is not selected any more", () => {
  const store = some();
  store.refresh();
  store.select({ batch: 3, request: null });
  const message = { epoch: 2, words: { instance: [0, ["m_1_0", "m_0_2"]] }, rows: [{ table: "batches", at: 0, oldest: 0 }] };
  store.record.apply(message, [Float64Array.from([200 * MS, 203 * MS, 1, 1, 1, 0, 0, 0]).buffer]);
  store.refresh();
  assert.deepEqual(store.lanes(0, 1), ["m_0_2"]);
  assert.deepEqual([store.selected, store.longest], [null, 3 * MS]);
});
