import assert from "node:assert/strict";
import test from "node:test";

import { modelsOf, treeOf } from "../lib/exported.js";

function model(name, changed) {
  return { name, path: `/r/${name}`, files: [], changed, backup: "", warnings: [] };
}

// an ensemble with its step, then the step itself
const EXPORTS = [
  { models: [model("whole", true), model("part", true)], tree: "r/\n  whole/\n    config.pbtxt\n  part/\n    1/\n      model.py" },
  { models: [model("part", false)], tree: "r/\n  part/  (was up to date)\n    1/\n      model.py" },
];

test("a model that several exports wrote is told once", () => {
  assert.deepEqual(modelsOf(EXPORTS).map((one) => [one.name, one.changed]), [["whole", true], ["part", true]]);
  assert.deepEqual(treeOf(EXPORTS), ["  whole/", "    config.pbtxt", "  part/", "    1/", "      model.py"]);
});

test("the repeated model may come first, and others follow", () => {
  const lines = treeOf([EXPORTS[1], EXPORTS[0]]);
  assert.deepEqual(lines, ["  part/  (was up to date)", "    1/", "      model.py", "  whole/", "    config.pbtxt"]);
});
