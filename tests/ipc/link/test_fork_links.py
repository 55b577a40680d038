from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.serving import eventually, open_descriptors
from tritonlab.ipc.link import fork_links
from tritonlab.ipc.link.fork_links import ForkLinks
from tritonlab.ipc.link.link_reader import LinkReader
from tritonlab.ipc.link.stub_link import Log, StubLink
from tritonlab.stub._pb_stub.api import bridge
from tritonlab.stub._pb_stub.api.bridge import Bridge, BridgeError
from tritonlab.stub._pb_stub.process.forked import ForkedBridge
from tritonlab.stub._pb_stub.wire.message_bodies import IsModelReady
from tritonlab.stub._pb_stub.wire.shm_manager import SharedMemoryError


class Parent(Bridge):
    phase = "initialize"
    instance_name = "m_0_0"
    model_dir = "/m/1"


class Kernel:
    """The kernel's side: it answers IS_MODEL_READY with the model's name and records what is logged."""

    def __init__(self, reader: LinkReader) -> None:
        #: `door`: what a stub inherits
        ours, self.door = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.forks = ForkLinks(ours, reader, 1 << 16, 1 << 16, None)
        self.before = bridge.current()
        self.children: list[ForkedBridge] = []
        self.links: list[StubLink] = []
        self.ended: list[StubLink] = []
        self.logged: list[Any] = []
        self.forks.on_link = self._serve
        self.forks.on_end = self.ended.append
        self.forks.watch.start()

    def _serve(self, link: StubLink) -> None:
        self.links.append(link)
        link.on_calls(lambda ident, call: link.reply(ident, call.name))
        link.on_message(Log, lambda ident, record: self.logged.append(record))

    def child(self) -> ForkedBridge:
        made = ForkedBridge(Parent(), {5: frozenset(("OUT",))}, self.door)
        self.children.append(made)
        return made

    def end_children(self) -> None:
        """End the children as the end of their processes would: here they are all in this one."""
        bridge.install(self.before)
        while self.children:
            linked = self.children.pop()._link
            if linked is not None:
                linked.connection.close()
                linked.region.close()
                linked.reader.close()
        eventually(lambda: self.forks.count == 0)
        self.links.clear()
        self.ended.clear()


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    reader = LinkReader()
    kernel = Kernel(reader)
    yield kernel
    kernel.end_children()
    kernel.door.close()
    kernel.forks.close()
    reader.close()


def test_each_process_gets_a_link_at_its_first_use(kernel: Kernel) -> None:
    first, second = kernel.child(), kernel.child()
    assert kernel.forks.count == 0
    assert first.call(IsModelReady("a", "")) == "a"
    assert kernel.forks.count == 1
    assert second.call(IsModelReady("b", "")) == "b"
    assert first.call(IsModelReady("c", "")) == "c"
    first.log(0, "hello", "f.py", 3)
    eventually(lambda: kernel.logged == [(0, "f.py", 3, "hello")])
    assert kernel.forks.count == 2


def test_the_link_takes_over_with_what_the_parent_knew(kernel: Kernel) -> None:
    child = kernel.child()
    linked = child.linked()
    assert bridge.current() is linked
    assert (linked.phase, linked.instance_name, linked.model_dir) == ("execute", "m_0_0", "/m/1")
    assert linked.open_requests == {5: frozenset(("OUT",))}
    linked.forgotten(5, False)  # the parent's affair
    assert 5 in linked.open_requests


@pytest.mark.parametrize("phase", ["finalize", "auto_complete", "import"])
def test_a_phase_without_bls_stays_one(kernel: Kernel, phase: str) -> None:
    parent = Parent()
    parent.phase = phase
    assert ForkedBridge(parent, {}, kernel.door).phase == phase


def test_a_link_ends_with_its_process_and_leaves_nothing(kernel: Kernel) -> None:
    before = open_descriptors()
    kernel.child().linked().connection.shutdown()
    eventually(lambda: kernel.ended == kernel.links)
    assert kernel.forks.count == 0
    kernel.end_children()
    eventually(lambda: open_descriptors() <= before)  # those of tests before this one may close meanwhile


def test_with_the_stub_all_links_end_and_no_new_one_is_made(kernel: Kernel) -> None:
    child = kernel.child().linked()
    kernel.forks.close()
    assert kernel.ended == kernel.links
    with pytest.raises(BridgeError, match="the server has ended"):
        kernel.child().linked()
    assert child.connection.wait(timeout=60)


def _no_descriptor(door: socket.socket) -> None:
    door.send(b"12345678")


def _a_pipe(door: socket.socket) -> None:
    reader, writer = os.pipe()
    socket.send_fds(door, [b"x"], [reader])
    os.close(reader)
    os.close(writer)


def _a_dead_socket(door: socket.socket) -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    socket.send_fds(door, [b"x"], [theirs.fileno()])
    theirs.close()


def _too_many(door: socket.socket) -> None:
    ours, theirs = socket.socketpair()
    socket.send_fds(door, [b"x"], [theirs.fileno(), 0, 1, 2, 0, 1])
    ours.close()
    theirs.close()


@pytest.mark.parametrize("nonsense", [_no_descriptor, _a_pipe, _a_dead_socket, _too_many])
def test_nonsense_costs_nothing_but_itself(kernel: Kernel, nonsense: Callable[[socket.socket], None]) -> None:
    before = open_descriptors()
    nonsense(kernel.door)
    assert kernel.child().call(IsModelReady("a", "")) == "a"
    eventually(lambda: kernel.forks.count == 1)
    kernel.end_children()
    eventually(lambda: open_descriptors() <= before)  # those of tests before this one may close meanwhile


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), SharedMemoryError("no memory")])
@pytest.mark.parametrize("step", ["create_region_file", "RegionReader", "Region"])
def test_a_link_that_cannot_be_made_leaves_nothing_and_the_next_one_can(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception
) -> None:
    before = open_descriptors()
    real, calls = getattr(fork_links, step), iter([True, False])

    def fails_once(*arguments: Any) -> Any:
        if next(calls, False) is (step != "create_region_file"):  # the second of the two files
            raise error
        return real(*arguments)

    monkeypatch.setattr(fork_links, step, fails_once)
    with pytest.raises(BridgeError, match="the server has ended"):
        kernel.child().linked()
    monkeypatch.undo()
    eventually(lambda: open_descriptors() <= before)
    assert kernel.child().call(IsModelReady("next", "")) == "next"
