import assert from "node:assert/strict";
import { test } from "node:test";

import { configOfCell, rangeOf } from "../lib/configText.js";

const CELL = '%%triton_config "my model"\nmax_batch_size: 8\ninput [ { nam: "A" } ]\n';
const at = (refused) => {
  const { from, to } = rangeOf(CELL, configOfCell(CELL), refused);
  return CELL.slice(from, to);
};

test("the config of a cell begins after its magic", () => {
  assert.deepEqual(configOfCell("%%triton_config m\nx: 1"), { from: 18, model: "m" });
  assert.deepEqual(configOfCell("\n%%triton_config\nx: 1"), { from: 17, model: "" });
  assert.deepEqual(configOfCell("%%triton_config m \\\n  --file a \\\n -q\nx: 1"), { from: 37, model: "m" });
  assert.deepEqual(configOfCell("%%triton_config \\\n  m\nx: 1"), { from: 22, model: "m" });
  assert.deepEqual(configOfCell("%%triton_config m"), { from: 17, model: "m" });
  assert.equal(configOfCell(CELL).model, "my model");
  assert.equal(configOfCell("%%triton_model m\nx: 1"), null);
  assert.equal(configOfCell("x = 1"), null);
});

test("what is refused is underlined where it stands", () => {
  assert.equal(at({ line: 2, start: 10, end: 13 }), "nam");
  assert.equal(at({ line: 1, start: 0, end: 17 }), "max_batch_size: 8");
  assert.equal(at({ line: 0, start: 0, end: 0 }), '%%triton_config "my model"');
  assert.equal(at({ line: 2, start: 90, end: 99 }), "");
  assert.equal(at({ line: 99, start: 0, end: 1 }), "");
});
