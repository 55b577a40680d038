import assert from "node:assert/strict";
import test from "node:test";

import { withBreak } from "../lib/breakLine.js";

const CELL = "%%triton_model m --input A:FP32[1]\nclass TritonPythonModel:\n    def execute(self, requests):\n        x = 1\n        return []";

test("a breakpoint goes in front of the line, and away again", () => {
  const stopped = withBreak(CELL, 3);
  assert.equal(stopped.split("\n")[3], "        breakpoint()");
  assert.equal(withBreak(stopped, 3), CELL);
  assert.equal(withBreak(stopped, 4), CELL);
});

test("a line that cannot stop a request is left alone", () => {
  assert.equal(withBreak(CELL, 0), null);
  assert.equal(withBreak(CELL, 1), null);
  assert.equal(withBreak("x = 1\n    y = 2", 1), null);
  assert.equal(withBreak("%%triton_model m \\\n  --input A:FP32[1]\n    x = 1", 1), null);
});
