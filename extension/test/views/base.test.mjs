import assert from "node:assert/strict";
import { test } from "node:test";

import { counted, numberColumns, send, sendItself } from "../../lib/views/base.js";

function closed(text) {
  return {
    send: () => {
      throw new Error(text);
    },
    get: () => "",
  };
}

test("a message to a kernel that is gone is dropped, and no other problem is", async () => {
  sendItself(closed("Cannot send"), {});
  await send(closed("Cannot send"), {});
  assert.throws(() => sendItself(closed("no such trait"), {}), /no such trait/);
});

test("columns of numbers stand at the right", () => {
  const rows = [
    ["1", "embed_0_0", "12.5 ms", "12:00:01.250", "full", "–"],
    ["1,024", "embed_0_1", "–", "12:00:02.000", "", "3 MiB"],
  ];
  assert.deepEqual(numberColumns(rows), [true, false, true, false, false, true]);
  assert.deepEqual(numberColumns([]), []);
  assert.deepEqual(numberColumns([["–"]]), [false]);
});

test("words for numbers of things", () => {
  assert.deepEqual([counted(1, "batch"), counted(2, "batch"), counted(0, "request")], ["1 batch", "2 batches", "0 requests"]);
});
