import assert from "node:assert/strict";
import test from "node:test";

import { markOf, mentionsTriton, missesTriton, modelOf } from "../lib/cells.js";

const CELL = "%%triton_model echo --input IN:FP32[1]\nclass TritonPythonModel:\n    pass\n";

function model(facts) {
  return { name: "echo", version: 1, state: "READY", reason: "", cell: CELL, served: CELL, error: null, ...facts };
}

test("a model's cell names it", () => {
  assert.equal(modelOf(CELL), "echo");
  assert.equal(modelOf("\n  %%triton_model 'my model'"), "'my");
  assert.equal(modelOf('%%triton_model "echo"\n'), "echo");
  assert.equal(modelOf("%%triton_model \\\n    echo \\\n --quiet\n"), "echo");
  assert.equal(modelOf("%%triton_model \\"), null);
  assert.equal(modelOf("%%triton_models echo"), null);
  assert.equal(modelOf("# %%triton_model echo"), null);
  assert.equal(modelOf("%%triton_model"), null);
});

test("a notebook is ours once it mentions us", () => {
  assert.ok(mentionsTriton("%load_ext tritonlab"));
  assert.ok(mentionsTriton("x = 1\n%triton status"));
  assert.ok(!mentionsTriton("import tritonclient"));
});

test("a cell whose model is unknown has no mark", () => {
  assert.equal(markOf(CELL, []), null);
  assert.equal(markOf("print(1)", [model()]), null);
});

test("the mark is the state of what the cell says", () => {
  assert.deepEqual(markOf(CELL, [model()]), {
    model: "echo",
    serves: true,
    kind: "ready",
    label: "READY",
    title: "echo, version 1, is READY",
    line: null,
  });
  assert.equal(markOf(CELL.trimEnd(), [model()]).kind, "ready");
  assert.equal(markOf(CELL, [model({ state: "LOADING" })]).kind, "loading");
  assert.equal(markOf(CELL, [model({ state: "UNLOADED" })]).kind, "off");
  assert.equal(markOf(CELL, [model({ state: "NOT READY", reason: "it died" })]).title, "it died");
});

test("another text than the one that serves is stale", () => {
  const edited = markOf(CELL + "# more", [model()]);
  assert.equal(edited.kind, "stale");
  assert.match(edited.title, /run the cell/);
  assert.equal(markOf(CELL.replace("[1]", "[2]"), [model()]).kind, "stale");
});

test("a failure is the cell's that was tried, and the version before keeps serving", () => {
  const error = { text: "KeyError: 'nope'", line: 4 };
  const tried = model({ cell: CELL + "# tried", error });
  const failed = markOf(CELL + "# tried", [tried]);
  assert.deepEqual([failed.kind, failed.label, failed.line], ["failed", "failed\nline 4", 4]);
  assert.match(failed.title, /KeyError: 'nope'\. The version loaded before keeps serving/);
  assert.equal(markOf(CELL, [tried]).kind, "ready");
  assert.equal(markOf(CELL, [model({ state: "FAILED", error: { text: "no", line: null } })]).label, "failed");
});

test("a magic of ours that the kernel does not know", () => {
  assert.ok(missesTriton("UsageError", "Cell magic `%%triton_model` not found."));
  assert.ok(missesTriton("UsageError", "Line magic function `%triton` not found."));
  assert.ok(!missesTriton("UsageError", "Cell magic `%%trito` not found."));
  assert.ok(!missesTriton("UsageError", "Line magic function `%timeit_` not found."));
  assert.ok(!missesTriton("NameError", "Cell magic `%%triton_model` not found."));
});
