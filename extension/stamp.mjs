// Writes what the bundle was built from beside it: `tests/test_labextension.py` and the wheel's build compare.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const FILES = [".yarnrc.yml", "package.json", "tsconfig.json", "webpack.config.cjs", "yarn.lock"];
const FOLDERS = ["schema", "src", "style"];

const files = [...FILES, ...FOLDERS.flatMap((folder) => readdirSync(folder).map((name) => `${folder}/${name}`))].sort();
const hash = createHash("sha256");
for (const file of files) hash.update(`${file}\0`).update(readFileSync(file)).update("\0");
writeFileSync("../tritonlab/labextension/sources.sha256", `${hash.digest("hex")}\n`);
