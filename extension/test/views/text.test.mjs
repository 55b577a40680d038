import assert from "node:assert/strict";
import test from "node:test";

import { bytes, duration, quantile, seconds, short, size } from "../../lib/views/text.js";

test("what people read", () => {
  assert.deepEqual([0, 999, 1500, 12_340_000, 250e6, 61e9].map(duration), ["0 µs", "0.999 µs", "1.5 µs", "12.3 ms", "250 ms", "61 s"]); // as the kernel
  assert.equal(duration(NaN), "–");
  assert.deepEqual([quantile([1, 2, 3, 4], 0.5), quantile([], 0.5)], [3, NaN]);
});

test("seconds never make sixty", () => {
  const texts = [0, 3.24, 59.94, 59.96, 60, 119.4, 119.6, 3599.6, 7259, 90061].map(seconds);
  const wanted = ["0.0 s", "3.2 s", "59.9 s", "1 min 0 s", "1 min 0 s", "1 min 59 s", "2 min 0 s", "1 h 0 min"];
  assert.deepEqual(texts, [...wanted, "2 h 1 min", "25 h 1 min"]);
});

test("a rate has three digits and no power of ten", () => {
  assert.deepEqual([0, 0.4, 12.54, 999.7, 1240.2].map(short), ["0", "0.4", "12.5", "1,000", "1,240"]);
});

test("memory counts by 1024, files by 1000", () => {
  assert.deepEqual([900, 12_345, 3.5 * 2 ** 20, -(2 ** 31)].map(bytes), ["900 B", "12.1 KiB", "3.5 MiB", "-2 GiB"]);
  assert.deepEqual([900, 12_345, 3_400_000, 1.25e9].map(size), ["900 bytes", "12 kB", "3.4 MB", "1.3 GB"]);
});
