"""Blocks that go back to a stub that gets no other message."""

from __future__ import annotations

import pytest

from tritonlab.ipc.link.block_reader import COPY_BELOW, BlockReader
from tritonlab.testing import FakeStub


def read(stub: FakeStub, nbytes: int, *, more: bool) -> None:
    """Read a response of that many bytes, and forget it."""
    block = stub.region.allocate(nbytes)
    reader = BlockReader(stub.link, block)
    reader.tensors([["OUT", 2, [nbytes], 0, 0, block, nbytes]])
    reader.finish(more=more)


def test_blocks_of_small_responses_go_back_together(stub: FakeStub) -> None:
    for count in range(1, 64):
        read(stub, 4, more=True)
        assert len(stub.link.freed) == count
    read(stub, 4, more=True)
    assert stub.expect("REPLY") == (0, [None, None])
    assert stub.region.used == 0


def test_the_block_of_a_large_response_goes_back_at_once(stub: FakeStub) -> None:
    read(stub, COPY_BELOW, more=True)
    stub.expect("REPLY")
    assert stub.region.used == 0


@pytest.mark.parametrize("nbytes", [4, COPY_BELOW])
def test_blocks_wait_for_the_next_message_where_one_comes(stub: FakeStub, nbytes: int) -> None:
    for _ in range(100):
        read(stub, nbytes, more=False)
    assert len(stub.link.freed) == 100
    with pytest.raises(TimeoutError):
        stub.receive(timeout=0)
