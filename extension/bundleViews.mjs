// Bundles each view of `src/views` into one ES module, where the Python widgets read it: anywidget makes a blob of the
// text, and a blob cannot import modules of ours. Run after `tsc`.
import { readdirSync, rmSync } from "node:fs";
import { resolve } from "node:path";

import { rspack } from "@rspack/core";

/** The modules that `LiveView.MODULE` names; what they import is part of them. */
const VIEWS = ["card", "failure", "formKeys", "graph", "loadPanel", "metrics", "opened", "panel", "streams", "timeline", "token"];
const FOLDER = resolve("../tritonlab/notebook/static");

for (const file of readdirSync(FOLDER)) if (file.endsWith(".js")) rmSync(`${FOLDER}/${file}`);
const compiler = rspack({
  mode: "production",
  target: ["web", "es2022"],
  entry: Object.fromEntries(VIEWS.map((name) => [name, `./lib/views/${name}.js`])),
  output: { path: FOLDER, filename: "[name].js", library: { type: "module" }, module: true },
  experiments: { outputModule: true },
  optimization: { moduleIds: "named", chunkIds: "named" },
  resolve: { symlinks: false },
});
function report(error, stats) {
  if (!error && !stats.hasErrors()) return;
  console.error(error ?? stats.toString("errors-only"));
  process.exitCode = 1;
}

if (process.argv.includes("--watch")) compiler.watch({}, report);
else {
  compiler.run((error, stats) => {
    report(error, stats);
    compiler.close(() => undefined);
  });
}
