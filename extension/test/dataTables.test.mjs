import assert from "node:assert/strict";
import test from "node:test";

import { compareCells, csvOf, numberOf } from "../lib/dataTables.js";

test("numbers are read with their separators and units", () => {
  assert.equal(numberOf("12,345.5"), 12345.5);
  assert.equal(numberOf("1.5 ms"), 1.5e-3);
  assert.equal(numberOf("900 µs"), 900e-6);
  assert.equal(numberOf("−3"), -3);
  assert.ok(Number.isNaN(numberOf("none")));
});

test("cells are ordered by value, and words come last", () => {
  const cells = ["2 ms", "none", "900 µs", "1,000 ms", "10 µs", "a10", "a9"];
  assert.deepEqual(cells.sort(compareCells), ["10 µs", "900 µs", "2 ms", "1,000 ms", "a9", "a10", "none"]);
});

test("a file has the rows with their quotes", () => {
  assert.equal(csvOf([["name", "value"], ['a "b"', "1,5"]]), 'name,value\r\n"a ""b""","1,5"\r\n');
});
