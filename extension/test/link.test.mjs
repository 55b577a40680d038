import assert from "node:assert/strict";
import test from "node:test";

import { Signal } from "@lumino/signaling";

import { KernelLink } from "../lib/link.js";

/** A kernel whose comm answers as `hello` says; what it was sent is in `sent`. */
class Kernel {
  constructor(hello) {
    this.hello = hello;
    this.sent = [];
    this.comms = [];
    this.statusChanged = new Signal(this);
    this.connectionStatusChanged = new Signal(this);
  }
  createComm() {
    const kernel = this;
    const comm = {
      isDisposed: false,
      open() {
        setTimeout(() => {
          if (kernel.hello === null) comm.onClose({});
          else comm.hear({ hello: kernel.hello });
        });
      },
      send: (data) => kernel.sent.push(data),
      close: () => (comm.isDisposed = true),
      hear: (data) => comm.onMsg({ content: { data } }),
    };
    this.comms.push(comm);
    return comm;
  }
}

const HELLO = { protocol: 3, version: "0.1.0" };

test("what is asked is answered, whatever the order", async () => {
  const kernel = new Kernel(HELLO);
  const link = new KernelLink(kernel);
  const [one, two] = [link.ask("load", { name: "a" }), link.ask("load", { name: "b" })];
  await link.connect();
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(kernel.sent.map((sent) => sent.with.name), ["a", "b"]);
  kernel.comms[0].hear({ id: kernel.sent[1].id, ok: 2 });
  kernel.comms[0].hear({ id: kernel.sent[0].id, error: { kind: "NOT_FOUND", text: "no a" } });
  assert.equal(await two, 2);
  await assert.rejects(one, { kind: "NOT_FOUND", message: "no a" });
  assert.equal(kernel.comms.length, 1);
});

test("a kernel that waits for a line hears of its box, also of one that has gone", async () => {
  const kernel = new Kernel(HELLO);
  const link = new KernelLink(kernel);
  link.inputBox = () => ({ asked: true, shown: false });
  await link.connect();
  kernel.comms[0].hear({ typing: true });
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(kernel.sent.map((sent) => [sent.do, sent.with]), [["typing", { asked: true, shown: false }]]);
  kernel.hasPendingInput = true;
  kernel.comms[0].hear({ typing: false });
  assert.equal(kernel.hasPendingInput, false);
});

test("models are told, and gone with the kernel", async () => {
  const kernel = new Kernel(HELLO);
  const link = new KernelLink(kernel);
  await link.connect();
  kernel.comms[0].hear({ models: [{ name: "a" }] });
  assert.equal(link.models.length, 1);
  const asked = link.ask("load", { name: "a" });
  await new Promise((resolve) => setTimeout(resolve));
  kernel.statusChanged.emit("restarting");
  await assert.rejects(asked, { kind: "gone" });
  assert.deepEqual([link.state, link.models], ["closed", []]);
  assert.equal(await link.connect(), true);
  assert.equal(kernel.comms.length, 2);
});

test("a kernel without tritonlab, or with another, is told from one that goes", async () => {
  const without = new KernelLink(new Kernel(null));
  assert.equal(await without.connect(), false);
  assert.equal(without.state, "absent");
  const other = new KernelLink(new Kernel({ protocol: 99, version: "9" }));
  assert.equal(await other.connect(), false);
  assert.deepEqual([other.state, other.version], ["foreign", "9"]);

  const kernel = new Kernel(HELLO);
  const going = new KernelLink(kernel);
  const connecting = going.connect();
  kernel.statusChanged.emit("dead");
  assert.equal(await connecting, false);
  assert.equal(going.state, "closed");
});

test("a second notebook of a kernel gets no comm, and says so", async () => {
  const kernel = new Kernel(HELLO);
  kernel.createComm = () => {
    throw new Error("Comms are disabled on this kernel connection");
  };
  const link = new KernelLink(kernel);
  await assert.rejects(link.ask("load", { name: "a" }), { kind: "absent" });
});
