import assert from "node:assert/strict";
import test from "node:test";

import { ms, rate, seconds } from "../lib/words.js";

test("seconds never make sixty", () => {
  const said = [0, 3.24, 59.94, 59.96, 60, 119.4, 119.6, 3599.6, 7259, 90061].map(seconds);
  const wanted = ["0.0 s", "3.2 s", "59.9 s", "1 min 0 s", "1 min 0 s", "1 min 59 s", "2 min 0 s", "1 h 0 min"];
  assert.deepEqual(said, [...wanted, "2 h 1 min", "25 h 1 min"]);
});

test("milliseconds and rates have three digits and no power of ten", () => {
  assert.deepEqual([0.18, 0.9997, 41.32, 999.7, 1200].map(ms), ["180 µs", "1.00 ms", "41.3 ms", "1.0 s", "1.2 s"]);
  assert.deepEqual([0, 0.4, 12.54, 999.7, 1240.2].map(rate), ["0", "0.4", "12.5", "1,000", "1,240"]);
});
