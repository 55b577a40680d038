import assert from "node:assert/strict";
import { test } from "node:test";
import { WhatIfStore } from "../../lib/views/whatIfStore.js";

const NOW = { max_batch_size: 8, dynamic_batching: false, preferred_batch_size: [], max_queue_delay_microseconds: 0, instances: 1 };
const CHOICES = {
  now: NOW,
  max_queue_delay_microseconds: [0, 100],
  preferred_batch_size: [[], [4], [8]],
  max_batch_size: [1, 2, 4, 8, 16],
  instances: [1, 2],
};

function offered() {
  const store = new WhatIfStore();
  store.offer(CHOICES);
  return store;
}

test("the sliders begin where the model is", () => {
  const store = offered();
  assert.deepEqual(store.settings, NOW);
  assert.deepEqual([store.place("max_batch_size"), store.place("preferred_batch_size")], [3, 0]);
});

test("what is set never contradicts itself", () => {
  const store = offered();
  store.set("preferred_batch_size", 2);
  assert.equal(store.settings.dynamic_batching, true);
  store.set("max_batch_size", 2);
  assert.deepEqual(store.settings.preferred_batch_size, []);
  store.set("preferred_batch_size", 1);
  assert.equal(store.settings.max_batch_size, 4);
  assert.equal(NOW.max_batch_size, 8);
});

test("replayed batches are found by time, long ones too", () => {
  const store = offered();
  const rows = [[0, 100, 0, 2, 2, 0], [10, 20, 1, 1, 1, 1], [50, 60, 2, 1, 1, 1], [200, 210, 1, 3, 3, 0]];
  store.apply({ part: "all", reasons: ["full", "delay"], lanes: ["m_0_0", "m_0_1"] }, Float64Array.from(rows.flat()).buffer);
  assert.equal(store.length, 4);
  assert.deepEqual(store.lanes, ["m_0_0", "m_0_1", "instance 3"]);
  assert.deepEqual([...store.visible(70, 150)].map((batch) => batch.start), [0]);
  assert.deepEqual([...store.visible(0, 55)].map((batch) => batch.reason), ["full", "delay", "delay"]);
  assert.deepEqual([...store.visible(205, 205)][0], { start: 200, end: 210, lane: 1, size: 3, count: 3, reason: "full" });
  assert.deepEqual([...store.visible(211, 300)], []);
  store.clear();
  assert.deepEqual([...store.visible(0, 300)], []);
});
