from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stub.stub_side import MIB, StubSide
from tritonlab.stub._pb_stub.wire.ipc_message import NUMBER
from tritonlab.stub._pb_stub.wire.message_bodies import Finalize, Reply


@pytest.fixture
def side() -> Iterator[StubSide]:
    side = StubSide(stub_limit=2 * MIB)
    yield side
    side.close()


def test_a_busy_stub_takes_what_came_before_its_region_grows(side: StubSide) -> None:
    region, inbox = side.bridge.region, side.bridge.inbox
    block = region.allocate(MIB // 2)
    box = inbox.open(7)
    side.kernel.send(NUMBER["FINALIZE"], 3, Finalize())
    side.kernel.send(NUMBER["REPLY"], 7, Reply("mine"))
    side.kernel.freed.append(block)
    side.kernel.send(NUMBER["REPLY"], 0, Reply(None))
    assert region.allocate(MIB * 3 // 4) is not None
    assert region.size == MIB
    assert list(box) == [Reply("mine")]
    assert inbox.next_command(0.0)[:2] == (NUMBER["FINALIZE"], 3)


def test_nothing_is_taken_from_a_thread_that_reads(side: StubSide) -> None:
    inbox = side.bridge.inbox
    side.kernel.send(NUMBER["FINALIZE"], 3, Finalize())
    with inbox._lead:
        inbox.drain()
    assert not inbox._commands
