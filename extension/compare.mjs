// Builds the bundles again and fails if one byte differs from the committed ones, which they then replace.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

const BUNDLE = "../tritonlab/labextension";
const BEFORE = `${BUNDLE}.before`;
const VIEWS = "../tritonlab/notebook/static";

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

rmSync(BEFORE, { recursive: true, force: true });
if (existsSync(BUNDLE)) renameSync(BUNDLE, BEFORE);
const views = contents(VIEWS);
execFileSync("jlpm", ["build"], { stdio: ["ignore", "ignore", "inherit"] });
const differ = [...differences(contents(BEFORE), contents(BUNDLE)), ...differences(views, contents(VIEWS))];
if (differ.length) {
  rmSync(BEFORE, { recursive: true, force: true });
  console.error(`The bundles were not those of the sources; they are now, to be committed: ${differ.join(", ")}`);
  process.exitCode = 1;
} else {
  rmSync(BUNDLE, { recursive: true, force: true });
  renameSync(BEFORE, BUNDLE); // with the times it had, for make
}
