"""Which call ends for want of memory, on a machine that is told how much it has left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tritonlab.frontends.grpc import grpc_server
from tritonlab.frontends.grpc.calls import RECEIVING, GRPCCall, UnaryCall
from tritonlab.frontends.grpc.grpc_server import ReceptionWatch
from tritonlab.frontends.shared.request_memory import RequestMemory
from tritonlab.ipc.processes.memory_room import RESERVE, MemoryRoom
from tritonlab.testing import MS, MockClock

MB = 1 << 20


class Machine:
    """A machine with a process that has 100 MB and receives messages."""

    def __init__(self, left: int) -> None:
        self.left = left + RESERVE
        self.used = 100 * MB
        self.refused: list[tuple[GRPCCall, str]] = []
        self._clock = MockClock()
        room = MemoryRoom(lambda: self.left, lambda: self._clock.now() / 1e9)
        self._watch = ReceptionWatch(RequestMemory(1000 * MB, room))

    def receive(self, kind: type[GRPCCall]) -> GRPCCall:
        """Return a call that begins to wait for a message."""
        call = object.__new__(kind)  # without grpcio's call
        call.refuse_message = lambda text: self.refused.append((call, text))  # type: ignore[method-assign]
        RECEIVING[call] = call.least = None
        return call

    def grow(self, nbytes: int) -> None:
        self.used += nbytes
        self.left -= nbytes

    def look(self) -> float:
        self._clock.advance(2000 * MS)
        return self._watch.watch()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Machine]]:
    def make(left: int) -> Machine:
        made = Machine(left)
        monkeypatch.setattr(grpc_server, "private", lambda pid: made.used)
        return made

    RECEIVING.clear()
    yield make
    RECEIVING.clear()


def test_a_message_whose_copies_would_not_fit_is_refused_while_it_comes(machine: Callable[[int], Machine]) -> None:
    small = machine(300 * MB)
    call = small.receive(UnaryCall)
    small.look()
    small.grow(90 * MB)
    small.look()  # 180 of the 210 MB that are left
    assert small.refused == []
    small.grow(20 * MB)
    small.look()  # 220 of 190
    assert small.refused == [(call, f"There is no memory for a request of {110 * MB} bytes. Send it again later.")]
    assert call not in RECEIVING


def test_what_the_process_had_before_is_no_message(machine: Callable[[int], Machine]) -> None:
    small = machine(20 * MB)
    small.receive(UnaryCall)
    small.look()
    small.grow(16 * MB)  # too little to be one that matters
    small.look()
    assert small.refused == []


def test_memory_that_the_process_gives_back_is_not_counted_as_received_later(
    machine: Callable[[int], Machine],
) -> None:
    small = machine(100 * MB)
    call = small.receive(UnaryCall)
    small.look()
    small.grow(-60 * MB)
    small.look()
    small.grow(60 * MB)
    small.look()  # 60 MB since the least, twice: more than the 100 MB that are left
    assert [refused for refused, _ in small.refused] == [call]


def test_the_newest_call_with_one_message_ends_before_a_stream(machine: Callable[[int], Machine]) -> None:
    small = machine(100 * MB)
    older, newer, stream = (small.receive(kind) for kind in (UnaryCall, UnaryCall, GRPCCall))
    small.look()
    small.grow(50 * MB)
    small.look()
    small.look()
    small.look()
    small.look()
    assert [refused for refused, _ in small.refused] == [newer, older, stream]


def test_it_looks_again_sooner_the_less_is_left(machine: Callable[[int], Machine]) -> None:
    waits = [machine(left * MB).look() for left in (100_000, 6_000, 0)]
    assert waits[0] == 1.0 and waits[2] == 0.005
    assert waits[1] == pytest.approx(6_000 * MB / 3 / (4 << 30))


def test_memory_that_an_earlier_message_frees_hides_no_later_message(machine: Callable[[int], Machine]) -> None:
    small = machine(400 * MB)
    earlier = small.receive(UnaryCall)
    small.look()
    small.grow(100 * MB)
    small.look()
    later = small.receive(UnaryCall)
    small.look()
    del RECEIVING[earlier]
    small.grow(-100 * MB + 60 * MB)
    small.look()
    small.left = 100 * MB
    small.look()  # 60 MB were received, twice
    assert [refused for refused, _ in small.refused] == [later]
