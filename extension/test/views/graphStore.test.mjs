import assert from "node:assert/strict";
import { test } from "node:test";
import { GraphStore } from "../../lib/views/graphStore.js";

const drawn = (summary) => ({ kind: "graph", summary, figure: "<svg/>", table: [], slots: [], sequences: ["  m_0_0  1 of 3"], kept: 2, following: true });

test("a selection stays within the boxes", () => {
  const store = new GraphStore();
  store.apply(drawn("q took 1 ms."));
  store.step(-1, 3);
  assert.equal(store.selected, -1);
  for (let n = 0; n < 5; n++) store.step(1, 3);
  assert.equal(store.selected, 2);
  store.step(-Infinity, 0);
  assert.equal(store.selected, -1);
});

test("another request has another selection, the same one keeps it", () => {
  const store = new GraphStore();
  store.apply(drawn("q took 1 ms."));
  store.step(1, 3);
  store.apply(drawn("q took 1 ms."));
  assert.equal(store.selected, 0);
  store.apply({ ...drawn("r took 2 ms."), following: false });
  assert.equal(store.selected, -1);
  assert.equal(store.following, false);
  assert.equal(store.sentence(), "r took 2 ms. m_0_0  1 of 3");
});
