from __future__ import annotations

from tritonlab.ipc.processes.memory_room import RESERVE, MemoryRoom

MB = 1 << 20


class SmallMachine:
    """A machine with so much memory left, which can return its residue."""

    def __init__(self, left: int, residue: int = 0) -> None:
        self.left = left + RESERVE
        self.residue = residue
        self.looks = self.returns = 0
        self.now = 1000.0
        self.room = MemoryRoom(self.look, lambda: self.now)
        self.room.add(self.give_back_now)

    def look(self) -> int:
        self.looks += 1
        return self.left

    def give_back_now(self) -> None:
        self.returns += 1
        self.left, self.residue = self.left + self.residue, 0


def test_what_fits_with_what_follows_has_room() -> None:
    machine = SmallMachine(left=30 * MB)
    assert machine.room.has(10 * MB, later=20 * MB)
    machine = SmallMachine(left=30 * MB)
    assert not machine.room.has(10 * MB, later=20 * MB + 1)


def test_residue_of_earlier_requests_is_returned_before_the_answer() -> None:
    machine = SmallMachine(left=10 * MB, residue=20 * MB)
    assert machine.room.has(5 * MB)
    assert machine.returns == 0
    assert machine.room.has(30 * MB)
    assert machine.returns == 1


def test_memory_is_not_returned_at_every_question() -> None:
    machine = SmallMachine(left=10 * MB)
    assert not any(machine.room.has(11 * MB) for _ in range(100))
    assert machine.returns == 1
    machine.now += 1
    assert not machine.room.has(11 * MB)
    assert machine.returns == 2


def test_between_two_looks_what_was_granted_is_no_longer_there() -> None:
    machine = SmallMachine(left=100 * MB)
    assert [machine.room.has(30 * MB) for _ in range(3)] == [True] * 3
    machine.left -= 90 * MB  # it has been allocated
    assert not machine.room.has(30 * MB)


def test_a_look_holds_longer_for_little_than_for_much() -> None:
    machine = SmallMachine(left=100 * MB * 100)
    assert machine.room.has(MB)
    machine.now += 0.5
    assert machine.room.has(MB)
    assert machine.looks == 1
    assert machine.room.has(1000 * MB)
    assert machine.looks == 2
    machine.now += 2
    assert machine.room.has(MB)
    assert machine.looks == 3


def test_an_owner_that_was_deleted_is_skipped() -> None:
    machine = SmallMachine(left=0)
    room = MemoryRoom(lambda: 0, lambda: 0.0)
    room.add(machine.give_back_now)
    del machine
    assert not room.has(1)
