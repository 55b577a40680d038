import assert from "node:assert/strict";
import test from "node:test";

import { artifactsOf, defaults, findingsAt, optionsOf, pythonCall } from "../lib/exportOptions.js";

const CHOICES = { targets: [], target: "2.51", environments: ["requirements", "dir", "archive", "none"], kinds: ["docker", "k8s", "kserve"] };

test("an export without options has none", () => {
  const options = optionsOf(defaults(CHOICES), CHOICES);
  assert.deepEqual(options, {});
  assert.equal(pythonCall(["echo"], "model_repository", options, false), 'tritonlab.export("echo", "model_repository")');
});

test("what is chosen is what is asked for, in the order of the kinds", () => {
  const fields = {
    target: "2.41",
    env: "prefix",
    prefix: " /opt/env ",
    deploy: ["kserve", "docker"],
    capture: true,
    include: [".env"],
    artifacts: "w.npy = weights\n\nnote.txt = 'a = b'",
    verify: true,
    releases: "2.51, 2.41",
    last: 2,
  };
  const options = optionsOf(fields, CHOICES);
  assert.deepEqual(options, {
    target: "2.41",
    env: "/opt/env",
    deploy: ["docker", "kserve"],
    capture: true,
    artifacts: { "w.npy": "weights", "note.txt": "'a = b'" },
    include: [".env"],
    verify: ["2.51", "2.41"],
    last: 2,
  });
  assert.equal(
    pythonCall(["a", "b"], "x/models", options, true),
    'tritonlab.export(["a", "b"], "x/models", overwrite=True, target="2.41", env="/opt/env", ' +
      'deploy=["docker", "kserve"], capture=True, artifacts={"w.npy": weights, "note.txt": \'a = b\'}, ' +
      'include=[".env"], verify=["2.51", "2.41"], last=2)',
  );
  assert.equal(optionsOf({ ...fields, prefix: "" }, CHOICES).env, undefined);
  assert.equal(optionsOf({ ...fields, last: null }, CHOICES).last, undefined);
  assert.equal(optionsOf({ ...fields, verify: false }, CHOICES).last, undefined);
});

test("a line that is no artifact is said", () => {
  assert.deepEqual(artifactsOf("w.npy = w\nweights"), { found: { "w.npy": "w" }, problem: "write file = expression, not “weights”" });
});

test("a finding stands beside its choice, those that stop a model first", () => {
  const finding = (row, outcome) => ({ row, outcome, sentence: row, remedy: "", source_line: "" });
  const plans = [{ name: "m", findings: [finding("P8", "attention"), finding("P7", "does not load"), finding("P1", "fails"), finding("P99", "fails")] }];
  assert.deepEqual(findingsAt("target", plans).map((one) => [one.model, one.row]), [["m", "P7"], ["m", "P99"], ["m", "P8"]]);
  assert.deepEqual(findingsAt("capture", plans).map((one) => one.row), ["P1"]);
});
