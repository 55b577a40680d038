// Builds the bundle anew and fails if one byte is another than in the committed one, whose place it then takes.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

const BUNDLE = "../tritonlab/labextension";
const BEFORE = `${BUNDLE}.before`;

function contents(folder) {
  const entries = existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }) : [];
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name));
  return new Map(files.map((file) => [file.slice(folder.length + 1), readFileSync(file)]));
}

rmSync(BEFORE, { recursive: true, force: true });
if (existsSync(BUNDLE)) renameSync(BUNDLE, BEFORE);
execFileSync("jlpm", ["build"], { stdio: ["ignore", "ignore", "inherit"] });
const [before, now] = [contents(BEFORE), contents(BUNDLE)];
const differ = [...new Set([...before.keys(), ...now.keys()])].filter(
  (name) => !before.has(name) || !now.has(name) || !before.get(name).equals(now.get(name)),
);
if (differ.length) {
  rmSync(BEFORE, { recursive: true, force: true });
  console.error(`The bundle was not what is built from the sources; it is now, to be committed: ${differ.join(", ")}`);
  process.exitCode = 1;
} else {
  rmSync(BUNDLE, { recursive: true, force: true });
  renameSync(BEFORE, BUNDLE); // with the times it had, for make
}
