from __future__ import annotations

from tritonlab.ipc.processes.memory_room import RESERVE, MemoryRoom

MB = 1 << 20


class Machine:
    """A machine with so much memory left, and somebody who can give some back."""

    def __init__(self, left: int, residue: int = 0) -> None:
        self.left = left + RESERVE
        self.residue = residue
        self.looks = self.given = 0
        self.now = 1000.0
        self.room = MemoryRoom(self.look, lambda: self.now)
        self.room.givers.add(self)

    def look(self) -> int:
        self.looks += 1
        return self.left

    def give_back_now(self) -> None:
        self.given += 1
        self.left, self.residue = self.left + self.residue, 0


def test_what_fits_with_what_follows_has_room() -> None:
    machine = Machine(left=30 * MB)
    assert machine.room.has(10 * MB, later=20 * MB)
    machine = Machine(left=30 * MB)
    assert not machine.room.has(10 * MB, later=20 * MB + 1)


def test_what_earlier_requests_have_left_is_given_back_before_the_answer() -> None:
    machine = Machine(left=10 * MB, residue=20 * MB)
    assert machine.room.has(5 * MB)
    assert machine.given == 0
    assert machine.room.has(30 * MB)
    assert machine.given == 1


def test_who_asks_often_does_not_have_memory_given_back_each_time() -> None:
    machine = Machine(left=10 * MB)
    assert not any(machine.room.has(11 * MB) for _ in range(100))
    assert machine.given == 1
    machine.now += 1
    assert not machine.room.has(11 * MB)
    assert machine.given == 2


def test_between_two_looks_what_was_granted_is_no_longer_there() -> None:
    machine = Machine(left=100 * MB)
    assert [machine.room.has(30 * MB) for _ in range(3)] == [True] * 3
    machine.left -= 90 * MB  # it has been allocated
    assert not machine.room.has(30 * MB)


def test_a_look_holds_longer_for_little_than_for_much() -> None:
    machine = Machine(left=100 * MB * 100)
    assert machine.room.has(MB)
    machine.now += 0.5
    assert machine.room.has(MB)
    assert machine.looks == 1
    assert machine.room.has(1000 * MB)
    assert machine.looks == 2
    machine.now += 2
    assert machine.room.has(MB)
    assert machine.looks == 3


def test_a_giver_that_is_gone_is_not_asked() -> None:
    machine = Machine(left=0)
    room = MemoryRoom(lambda: 0, lambda: 0.0)
    room.givers.add(machine)
    del machine
    assert not room.has(1)
