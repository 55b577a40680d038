import assert from "node:assert/strict";
import { test } from "node:test";

import { elided, placeKeys } from "../../lib/views/legend.js";

const width = (text) => text.length * 6;

test("keys stand side by side, and below each other where they do not fit", () => {
  const keys = ["execution", "failed", "a request that waits"].map((text) => ({ shape: "block", tone: "text", text }));
  const places = (right) => placeKeys(keys, 8, right, width).map(({ x, y }) => [x, y]);
  assert.deepEqual(places(900), [[8, 8], [96, 8], [166, 8]]);
  assert.deepEqual(places(200), [[8, 8], [96, 8], [8, 24]]);
  assert.deepEqual(places(20), [[8, 8], [8, 24], [8, 40]]); // never outside at the left
});

test("a text that does not fit loses its end, and a name its begin", () => {
  assert.equal(elided("embed_0_0", 60, width), "embed_0_0");
  assert.equal(elided("embed_0_0", 36, width), "embed…");
  assert.equal(elided("a_very_long_model_0_1", 36, width, true), "…l_0_1");
  assert.equal(elided("abc", 0, width), "…");
});
