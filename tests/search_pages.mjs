// Prints the pages that the search of a built site finds for each query, best first, as JSON: the site's own program
// without a browser. Usage: node search_pages.mjs SITE QUERY...
import { readFileSync } from "node:fs";
import vm from "node:vm";

const [site, ...queries] = process.argv.slice(2);
const nothing = { getElementById: () => null, addEventListener() {}, documentElement: { dataset: {} }, readyState: "loading" };
const context = vm.createContext({ document: nothing, console, URLSearchParams });
vm.runInContext("var window = globalThis; var SPHINX_HIGHLIGHT_ENABLED = false;", context);
const read = (name) => readFileSync(`${site}/${name}`, "utf8");
for (const name of ["_static/documentation_options.js", "_static/doctools.js", "_static/language_data.js"]) {
  vm.runInContext(read(name), context);
}
for (const name of ["_static/searchtools.js", "searchindex.js"]) vm.runInContext(read(name), context);
const find = vm.runInContext(
  `(query) => {
    const [, terms, excluded, highlighted, objects] = Search._parseQuery(query);
    return Search._performSearch(query, terms, excluded, highlighted, objects).map((found) => found[0]).reverse();
  }`,
  context,
);
console.log(JSON.stringify(Object.fromEntries(queries.map((query) => [query, [...new Set(find(query))]]))));
