import assert from "node:assert/strict";
import test from "node:test";

import { send, sendItself } from "../../lib/views/base.js";

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
