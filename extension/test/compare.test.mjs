import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import process from "node:process";
import test from "node:test";

const COMPARE = resolve("compare.mjs");
const BUNDLE = "tritonlab/labextension";
const VIEW = "tritonlab/notebook/static/card.js";

/** Compares in a tree whose build is this shell script, and returns the exit status and what is there then. */
function compared(t, build, left = "") {
  const root = mkdtempSync(join(tmpdir(), "compare-"));
  t.after(() => rmSync(root, { recursive: true }));
  for (const folder of ["bin", "extension", BUNDLE, "tritonlab/notebook/static"]) mkdirSync(join(root, folder), { recursive: true });
  writeFileSync(join(root, BUNDLE, "package.json"), left ? "half" : "old");
  writeFileSync(join(root, VIEW), "old");
  if (left) {
    mkdirSync(join(root, `${BUNDLE}.before`));
    writeFileSync(join(root, `${BUNDLE}.before`, "package.json"), left);
  }
  writeFileSync(join(root, "bin/jlpm"), `#!/bin/sh\nmkdir -p ../${BUNDLE}\n${build}\n`, { mode: 0o755 });
  const env = { ...process.env, PATH: join(root, "bin") + delimiter + process.env.PATH };
  const { status } = spawnSync(process.execPath, [COMPARE], { cwd: join(root, "extension"), env });
  assert.equal(existsSync(join(root, `${BUNDLE}.before`)), false);
  return [status, readFileSync(join(root, BUNDLE, "package.json"), "utf8"), readFileSync(join(root, VIEW), "utf8")];
}

const WRITE = (text) => `printf ${text} > ../${BUNDLE}/package.json; printf ${text} > ../${VIEW}`;

test("bundles that are those of the sources stay", (t) => {
  assert.deepEqual(compared(t, WRITE("old")), [0, "old", "old"]);
});

test("bundles that are not are replaced, to be committed", (t) => {
  assert.deepEqual(compared(t, WRITE("new")), [1, "new", "new"]);
});

test("a build that fails midway, or is interrupted, leaves all as it was", (t) => {
  assert.deepEqual(compared(t, `${WRITE("half")}; exit 2`), [1, "old", "old"]);
  assert.deepEqual(compared(t, `${WRITE("half")}; kill -INT $PPID; sleep 0.2; kill -INT $$`), [1, "old", "old"]);
});

test("what a killed run has left is taken back first", (t) => {
  assert.deepEqual(compared(t, WRITE("old"), "old"), [0, "old", "old"]);
});
