import assert from "node:assert/strict";
import test from "node:test";

import { magicWord } from "../lib/magicWord.js";

test("a name is one word of a magic's line, and no expression that IPython evaluates", () => {
  // each as tests/core/test_quoting.py finds that IPython and shlex read it
  const words = {
    add_sub: "add_sub",
    "{run()}": "{{run()}}",
    $run: "$$run",
    "a b": "'a b'",
    "a $run": "'a $run'",
    "it's": `'it'"'"'s'`,
    "it's $run": `'it'"'"'s $run'`,
    "$run it's": `'$$run it'"'"'s'`,
    "a\nrun()": `'a\\u{{a}}run()'`,
    "": "''",
  };
  for (const [name, word] of Object.entries(words)) assert.equal(magicWord(name), word);
});
