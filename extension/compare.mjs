// Builds the bundles again and fails if one byte differs from the committed ones, which they then replace.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const BUNDLE = "../tritonlab/labextension";
const BEFORE = `${BUNDLE}.before`;
const VIEWS = "../tritonlab/notebook/static";
const TYPES = "generated"; // of the messages, for the tests of the kernel's half

function contents(folder) {
  const entries = existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }) : [];
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name));
  return new Map(files.map((file) => [file.slice(folder.length + 1), readFileSync(file)]));
}

/** The names of the files that are not the same in both. */
function differences(before, now) {
  const names = [...new Set([...before.keys(), ...now.keys()])];
  return names.filter((name) => !before.has(name) || !now.has(name) || !before.get(name).equals(now.get(name)));
}

/** Puts the bundle back, with the times it had, for make. */
function putBack() {
  rmSync(BUNDLE, { recursive: true, force: true });
  renameSync(BEFORE, BUNDLE);
}

if (existsSync(BEFORE)) putBack(); // a run that was killed has left it
if (existsSync(BUNDLE)) renameSync(BUNDLE, BEFORE);
const views = contents(VIEWS);
const types = contents(TYPES);
process.on("SIGINT", () => undefined); // the build ends by it, too, and that is an error here
try {
  execFileSync("jlpm", ["build"], { stdio: ["ignore", "ignore", "inherit"] });
} catch {
  if (existsSync(BEFORE)) putBack();
  for (const name of differences(views, contents(VIEWS))) {
    if (views.has(name)) writeFileSync(join(VIEWS, name), views.get(name));
    else rmSync(join(VIEWS, name));
  }
  console.error("The build failed; the bundles are as they were.");
  process.exit(1);
}
const differ = [...differences(contents(BEFORE), contents(BUNDLE)), ...differences(views, contents(VIEWS)), ...differences(types, contents(TYPES))];
if (differ.length) {
  rmSync(BEFORE, { recursive: true, force: true });
  console.error(`The bundles were not those of the sources; they are now, to be committed: ${differ.join(", ")}`);
  process.exitCode = 1;
} else {
  putBack();
}
