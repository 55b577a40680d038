// Writes what the bundle was built from beside it: `tests/test_labextension.py` and the wheel's build compare.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const FILES = [".yarnrc.yml", "package.json", "tsconfig.json", "bundleViews.mjs", "webpack.config.cjs", "yarn.lock"];
FILES.push("../tritonlab/notebook/static/theme.css"); // widgets read it where our extension is not
const FOLDERS = ["schema", "src", "style"];

function filesBelow(folder) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name));
}

const files = [...FILES, ...FOLDERS.flatMap(filesBelow)].sort();
const hash = createHash("sha256");
for (const file of files) hash.update(`${file}\0`).update(readFileSync(file)).update("\0");
writeFileSync("../tritonlab/labextension/sources.sha256", `${hash.digest("hex")}\n`);
