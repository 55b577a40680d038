import assert from "node:assert/strict";
import test from "node:test";

import { highlightTree, tagHighlighter, tags } from "@lezer/highlight";

import { headOf, wordsOf } from "../lib/magicLine.js";
import { pbtxt } from "../lib/pbtxt.js";

const KINDS = tagHighlighter([
  { tag: tags.comment, class: "comment" },
  { tag: tags.string, class: "string" },
  { tag: tags.number, class: "number" },
  { tag: tags.bool, class: "bool" },
  { tag: tags.propertyName, class: "property" },
  { tag: tags.atom, class: "atom" },
  { tag: tags.keyword, class: "keyword" },
]);

function tokens(text) {
  const found = [];
  const tree = pbtxt().language.parser.parse(text);
  highlightTree(tree, KINDS, (from, to, kind) => found.push([text.slice(from, to), kind]));
  return found;
}

test("a config's words are told apart", () => {
  assert.deepEqual(tokens('%%triton_config m\nmax_batch_size: 8 # rows\ninput [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]\nx: true'), [
    ["%%triton_config", "keyword"],
    ["max_batch_size", "property"],
    ["8", "number"],
    ["# rows", "comment"],
    ["input", "property"],
    ["name", "property"],
    ['"IN"', "string"],
    ["data_type", "property"],
    ["TYPE_FP32", "atom"],
    ["dims", "property"],
    ["-1", "number"],
    ["x", "property"],
    ["true", "bool"],
  ]);
});

test("a magic's line is read as its words", () => {
  const line = '%%triton_model echo --input "IN:FP32[1]" --decoupled';
  assert.deepEqual(
    wordsOf(line).map(({ from, to, kind }) => [line.slice(from, to), kind]),
    [
      ["%%triton_model", "magic"],
      ["echo", "name"],
      ["--input", "option"],
      ['"IN:FP32[1]"', "value"],
      ["--decoupled", "option"],
    ],
  );
  assert.deepEqual(wordsOf("%%triton_models echo"), []);
  const broken = "\n%%triton_model \\\n  echo --file a.bin \\ \n  --quiet";
  assert.equal(headOf(`${broken}\nx = 1 \\\n + 2`), broken);
  assert.deepEqual(
    wordsOf(broken).map(({ from, to, kind }) => [broken.slice(from, to), kind]),
    [
      ["%%triton_model", "magic"],
      ["echo", "name"],
      ["--file", "option"],
      ["a.bin", "value"],
      ["--quiet", "option"],
    ],
  );
  assert.deepEqual(wordsOf("x = 1"), []);
});
