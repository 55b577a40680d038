from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.machines import NUMBERS, choose
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import InvalidArgumentError, ModelError, TritonError
from tritonlab.engine.schedulers.sequence_config import SequenceConfig
from tritonlab.engine.schedulers.sequence_table import SequenceTable, Slot
from tritonlab.testing import MS

IDLE = 1000 * MS
START, END = 1, 2
NEVER = 1 << 62
#: The id, the flags and the timeout in ms of a request.
REQUESTS = st.tuples(
    st.sampled_from([1, 2, 3, "1", 0]),
    st.sampled_from([START, START, 0, END, START | END]),
    st.sampled_from([0, 300, 900]),
)
ERROR = ModelError("gone")


def request(ident: int | str, flags: int = 0, timeout: int = 0, name: str = "") -> InferenceRequest:
    return InferenceRequest("m", {}, correlation_id=ident, flags=flags, timeout=timeout, request_id=name)


class Book:
    """A table with one instance, fed by the test: `admit` queues, `run` executes what stands first in a slot."""

    def __init__(self, slots: int = 2, hosts: int = 1, **config: bool) -> None:
        self.table = SequenceTable("m", SequenceConfig(slots=slots, max_idle=IDLE, **config))
        for host in range(hosts):
            self.table.add_host(host, 0)

    def admit(self, ident: int | str, flags: int = 0, now: int = 0, timeout_ms: int = 0, name: str = "") -> Slot | None:
        return self.table.admit(request(ident, flags, timeout_ms * 1000, name), now)

    def run(self, number: int, now: int = 0, host: int = 0) -> InferenceRequest:
        slot = self.table.slots(host)[number]
        taken = self.table.taken(slot, now)
        self.table.done(slot, now)
        return taken

    def waiting(self, host: int = 0) -> list[list[int | str]]:
        return [[r.correlation_id for r in slot.queue] for slot in self.table.slots(host)]

    @property
    def sequences(self) -> list[int | str | None]:
        return [slot.sequence for slot in self.table.slots(0)]


def places(found: list[Slot | None]) -> list[tuple[int, int] | None]:
    return [None if slot is None else (slot.host, slot.number) for slot in found]


# -- admission


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (request(0, START), "inference request to model 'm' must specify a non-zero or non-empty correlation ID"),
        (request("", START), "inference request to model 'm' must specify a non-zero or non-empty correlation ID"),
        (
            request(9),
            "inference request for sequence 9 to model 'm' must specify the START flag on the first request of the "
            "sequence",
        ),
        (
            request("nine", END),
            "inference request for sequence nine to model 'm' must specify the START flag on the first request of the "
            "sequence",
        ),
    ],
)
def test_what_starts_no_sequence_is_refused(made: InferenceRequest, text: str) -> None:  # rule 5.6.1
    book = Book()
    with pytest.raises(InvalidArgumentError, match=re.escape(text)):
        book.table.admit(made, 0)
    assert book.table.queued == 0


def test_a_batch_of_requests_is_refused() -> None:
    made = request(1, START)
    made.batch_size = 2
    text = "inference request to model 'm' must specify batch-size 1 due to requirements of sequence batcher"
    with pytest.raises(InvalidArgumentError, match=re.escape(text)):
        Book().table.admit(made, 0)


def test_the_sequence_keeps_its_slot() -> None:  # rule 5.6.2
    book = Book()
    assert places([book.admit(7, START), book.admit(8, START), book.admit(7), book.admit(8)]) == [(0, 0), (0, 1)] * 2
    assert book.waiting() == [[7, 7], [8, 8]]


def test_low_slots_of_all_instances_go_first() -> None:  # measured: two instances of two slots
    book = Book(hosts=2)
    assert places([book.admit(i, START) for i in range(1, 6)]) == [(0, 0), (1, 0), (0, 1), (1, 1), None]


def test_of_equal_numbers_the_slot_that_was_freed_last_is_not_the_next() -> None:  # measured
    book = Book(slots=1)
    book.table.add_host(1, 0)
    hosts = []
    for ident in range(1, 5):
        slot = book.admit(ident, START | END)
        book.table.taken(slot, 0)
        hosts.append(slot.host)
    assert hosts == [0, 1, 0, 1]


def test_a_second_start_follows_in_the_same_slot() -> None:  # rule 5.6.2
    book = Book()
    book.admit(7, START)
    again = request(7, START)
    assert book.table.conflict(again)
    assert places([book.table.admit(again, 0)]) == [(0, 0)]


def test_a_start_after_the_end_is_no_conflict_and_gets_its_own_slot() -> None:  # measured
    book = Book()
    book.admit(7, START)
    book.admit(7, END)
    again = request(7, START)
    assert not book.table.conflict(again)
    assert places([book.table.admit(again, 0)]) == [(0, 1)]


# -- backlog


def test_when_all_slots_are_taken_sequences_wait_in_order() -> None:  # rule 5.6.3
    book = Book()
    book.admit(1, START | END)
    book.admit(2, START)
    assert places([book.admit(3, START), book.admit(3), book.admit(4, START | END), book.admit(3, END)]) == [None] * 4
    assert (book.table.active, book.table.backlogged, book.table.queued) == (2, 2, 6)
    book.run(0)
    assert book.waiting() == [[3, 3, 3], [2]]
    for _ in range(3):
        book.run(0)
    assert book.waiting() == [[4], [2]]
    assert book.table.backlogged == 0


EXPIRED = "timeout of the corresponding sequence has been expired"


# -- idle sequences


def test_an_idle_sequence_loses_its_slot() -> None:  # rule 5.6.4
    book = Book(slots=1)
    book.admit(1, START)
    book.run(0)
    book.admit(1, 0, now=300 * MS)
    book.run(0)
    book.admit(2, START, now=400 * MS)
    assert book.table.deadline() == 1300 * MS
    book.table.reap(1300 * MS - 1)
    assert book.sequences == [1]
    book.table.reap(1300 * MS)
    assert book.sequences == [2]
    with pytest.raises(InvalidArgumentError):
        book.admit(1)


def test_what_an_idle_sequence_still_has_to_do_is_done_first() -> None:  # measured
    book = Book(slots=1)
    book.admit(1, START)
    book.admit(1)
    book.admit(2, START, now=900 * MS)
    book.table.reap(1000 * MS)
    assert book.waiting() == [[1, 1]]
    with pytest.raises(InvalidArgumentError):
        book.admit(1)
    book.run(0, 1000 * MS)
    book.run(0, 1000 * MS)
    assert book.waiting() == [[2]]


def test_time_in_the_backlog_is_idle_time() -> None:  # measured: it is looked at 50 ms after it got its slot at last
    book = Book(slots=1)
    book.admit(1, START)
    book.run(0)
    book.admit(2, START)
    book.table.reap(1000 * MS)
    book.run(0, 1000 * MS)
    assert book.table.deadline() == 1050 * MS
    book.admit(2, 0, now=1040 * MS)
    assert book.table.deadline() == 2040 * MS


# -- cancellation


def test_a_cancelled_request_takes_what_waits_behind_it_along() -> None:  # measured
    book = Book(slots=1)
    for name in ("a", "b", "c"):
        book.admit(1, START if name == "a" else 0, name=name)
    book.admit(2, START)
    (slot,) = book.table.slots(0)
    slot.queue[1].cancel()
    assert book.table.drop_cancelled(slot, 0) == []
    assert book.table.taken(slot, 0).request_id == "a"
    dropped = book.table.drop_cancelled(slot, 0)
    assert [r.request_id for r, _ in dropped] == ["b", "c"]
    assert {(error.code.name, error.message) for _, error in dropped} == {("CANCELLED", "")}
    assert book.sequences == [2]
    with pytest.raises(InvalidArgumentError):
        book.admit(1)


# -- iterative sequences


def test_an_iterative_model_numbers_the_requests() -> None:  # rule 3.9.2
    book = Book(slots=3, iterative=True)
    made = [request(0), request(2, START), request(""), request(0)]
    for one in made:
        book.table.admit(one, 0)
    assert [r.correlation_id for r in made] == [1, 2, 3, 4]  # 2 is taken
    assert [r.flags for r in made] == [START] * 4
    with pytest.raises(InvalidArgumentError, match="sequence 9 "):
        book.admit(9)


def test_a_request_comes_back_without_its_start() -> None:  # rule 3.9.2
    book = Book(slots=1, iterative=True)
    slot = book.admit(0)
    assert slot is not None
    taken = book.table.taken(slot, 0)
    assert slot.busy
    assert book.table.back(taken, 5) is slot
    assert (taken.flags, slot.busy, list(slot.queue)) == (0, False, [taken])
    assert book.table.deadline() == 5 + IDLE


def test_an_iterative_sequence_ends_with_its_release() -> None:  # rule 5.6.9
    book = Book(slots=1, iterative=True)
    slot = book.admit(0)
    assert slot is not None
    book.table.taken(slot, 0)
    assert book.sequences == [1]
    book.table.done(slot, 0)
    assert book.sequences == [None]


@pytest.mark.parametrize("how", ["END", "idle"])
def test_what_has_ended_cannot_come_back(how: str) -> None:  # measured; Triton's client waits for ever
    book = Book(slots=1, iterative=True)
    slot = book.admit(8, START | END if how == "END" else START)
    assert slot is not None
    taken = book.table.taken(slot, 0)
    book.table.reap(IDLE)
    assert book.sequences == [8]  # it executes, so the slot is not given away
    with pytest.raises(InvalidArgumentError, match=r"sequence 8 .* must specify the START flag"):
        book.table.back(taken, IDLE)
    book.table.done(slot, IDLE)
    assert book.sequences == [None]


# -- instances come and go


def failed(failures: list[tuple[InferenceRequest, TritonError]]) -> list[int | str]:
    assert {error for _, error in failures} <= {ERROR}
    return [r.correlation_id for r, _ in failures]


def test_a_stub_that_dies_takes_its_running_sequences_along() -> None:
    book = Book(slots=3)
    book.admit(1, START)
    book.run(0)
    book.admit(1)
    book.admit(2, START)
    book.admit(3, START)
    book.run(2)
    book.admit(4, START)
    assert failed(book.table.abandon(0, (), ERROR, 0)) == [1]
    # nothing of 2 was executed, so nothing is lost; 4 was in the backlog
    assert book.sequences == [4, 2, None]
    for lost in (1, 3):
        with pytest.raises(InvalidArgumentError):
            book.admit(lost)


def test_repr_tells_the_state() -> None:
    book = Book()
    slot = book.admit(7, START)
    assert repr(slot) == "<Slot 0.0 [sequence 7 | 1 queued]>"
    assert slot is not None
    book.admit(7, END)
    book.table.taken(slot, 0)
    assert repr(slot) == "<Slot 0.0 [sequence 7 ending | 1 queued | busy]>"
    book.run(0)
    assert repr(slot) == "<Slot 0.0 [free | 0 queued]>"


# -- all of it, in any order


@dataclass(eq=False)
class Sequence:
    """A sequence of the model: its requests that wait, and whether more may come."""

    ident: int | str
    open: bool = True
    queue: list[InferenceRequest] = field(default_factory=list)
    last_seen: int = 0
    expires: int = NEVER
    place: int = 0  # in the order in which sequences got their slots


class SequenceTableMachine(RuleBasedStateMachine):
    """A table beside a model of it. A sequence has one slot from its START to its END, or waits in the backlog for the
    next that is free; what idles or times out ends; what a cancellation or the end of an instance takes along fails.
    """

    @initialize(iterative=st.booleans(), slots=st.integers(1, 2))
    def begin(self, iterative: bool, slots: int) -> None:
        self.iterative, self.size, self.now = iterative, slots, 0
        self.table = SequenceTable("m", SequenceConfig(slots=slots, max_idle=IDLE, iterative=iterative))
        self.slots: dict[tuple[int, int], Sequence | None] = {}
        self.running: dict[tuple[int, int], InferenceRequest] = {}
        self.backlog: list[Sequence] = []
        self.places = itertools.count()
        self.add_host(0)

    # -- the model

    def sequences(self, *, with_slot: bool = False) -> list[Sequence]:
        """Return the open sequences: those with a slot in the order in which they got it, then the backlog's."""
        there = sorted((s for s in self.slots.values() if s is not None and s.open), key=lambda s: s.place)
        return there if with_slot else [*there, *(s for s in self.backlog if s.open)]

    def at(self, key: tuple[int, int]) -> Slot:
        return self.table.slots(key[0])[key[1]]

    def queued(self) -> list[tuple[int, int]]:
        """Return the slots in which a request waits."""
        return [key for key, sequence in self.slots.items() if sequence is not None and sequence.queue]

    def startable(self) -> list[tuple[int, int]]:
        return [key for key in self.queued() if key not in self.running]

    def vacate_if_over(self, key: tuple[int, int]) -> None:
        sequence = self.slots[key]
        if sequence is None or sequence.open or sequence.queue or (self.iterative and key in self.running):
            return
        self.vacate(key)

    def vacate(self, key: tuple[int, int]) -> None:
        self.slots[key] = None
        if self.backlog:
            self.slots[key] = moved = self.backlog.pop(0)
            moved.place = next(self.places)
            # 50 ms after it got its slot it is looked at, unless it was seen later: measured
            moved.last_seen = max(moved.last_seen, self.now + 50 * MS - IDLE)

    def end(self, key: tuple[int, int]) -> list[InferenceRequest]:
        sequence = self.slots[key]
        assert sequence is not None
        sequence.open, failed = False, [*sequence.queue]
        sequence.queue.clear()
        self.vacate_if_over(key)
        return failed

    # -- what happens

    @rule(requests=st.lists(REQUESTS, min_size=1, max_size=4), passed_ms=st.sampled_from([0, 10, 300]))
    def admit_each(self, requests: list[tuple[int | str, int, int]], passed_ms: int) -> None:
        for made in requests:
            self.admit(*made)
        self.now += passed_ms * MS

    def admit(self, ident: int | str, flags: int, timeout_ms: int) -> None:
        made = request(ident, flags, timeout_ms * 1000)
        sequence = next((s for s in self.sequences() if s.ident == ident), None)
        if not (ident or self.iterative) or (ident and sequence is None and not flags & START):
            with pytest.raises(InvalidArgumentError):
                self.table.admit(made, self.now)
            return
        free = [key for key, there in self.slots.items() if there is None]
        slot = self.table.admit(made, self.now)
        if sequence is None:
            sequence = Sequence(made.correlation_id, place=next(self.places))
            assert sequence.ident not in [s.ident for s in self.sequences()]
            if free:
                assert slot is not None and slot.number == min(number for _, number in free)
                self.slots[slot.host, slot.number] = sequence
            else:
                self.backlog.append(sequence)
        assert made.flags == flags | (0 if ident else START)
        assert (slot is None) == (sequence in self.backlog)
        sequence.queue.append(made)
        sequence.last_seen = self.now
        sequence.open = not made.flags & END
        if timeout_ms:
            sequence.expires = min(sequence.expires, self.now + timeout_ms * MS)

    @precondition(startable)
    @rule(number=NUMBERS)
    def take(self, number: int) -> None:
        key = choose(number, self.startable())
        sequence = self.slots[key]
        assert sequence is not None
        self.running[key] = sequence.queue.pop(0)
        assert self.table.taken(self.at(key), self.now) is self.running[key]
        self.vacate_if_over(key)

    @precondition(lambda self: self.running)
    @rule(number=NUMBERS)
    def done(self, number: int) -> None:
        key = choose(number, self.running)
        self.table.done(self.at(key), self.now)
        del self.running[key]
        if self.iterative and (sequence := self.slots[key]) is not None:
            sequence.open = False
        self.vacate_if_over(key)

    @precondition(lambda self: self.iterative and self.running)
    @rule(number=NUMBERS)
    def come_back(self, number: int) -> None:
        key = choose(number, self.running)
        made, sequence = self.running[key], self.slots[key]
        if sequence is not None and sequence.open:
            assert self.table.back(made, self.now) is self.at(key)
            assert not made.flags & START
            del self.running[key]
            sequence.queue.append(made)
            sequence.last_seen = self.now
        elif made.correlation_id not in [s.ident for s in self.sequences()]:
            with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
                self.table.back(made, self.now)

    @precondition(queued)
    @rule(number=NUMBERS, first=st.booleans())
    def cancel(self, number: int, first: bool) -> None:
        key = choose(number, self.queued())
        sequence = self.slots[key]
        assert sequence is not None
        sequence.queue[0 if first else -1].cancel()
        dropped = self.end(key) if sequence.queue[0].cancelled else []
        assert [made for made, _ in self.table.drop_cancelled(self.at(key), self.now)] == dropped

    @rule(passed_ms=st.sampled_from([0, 10, 300, 1000]))
    def reap(self, passed_ms: int) -> None:
        self.now += passed_ms * MS
        for sequence in [s for s in self.sequences(with_slot=True) if s.last_seen + IDLE <= self.now]:
            sequence.open = False
            self.vacate_if_over(next(key for key, there in self.slots.items() if there is sequence))
        late = [sequence for sequence in self.backlog if sequence.expires <= self.now]
        self.backlog = [sequence for sequence in self.backlog if sequence not in late]
        failures = self.table.reap(self.now)
        assert [made for made, _ in failures] == [made for sequence in late for made in sequence.queue]
        assert {error.message for _, error in failures} <= {EXPIRED}

    @rule()
    def end_idle(self) -> None:
        self.table.end_idle(self.now)
        for sequence in [] if self.iterative else self.backlog:
            sequence.open = False
        for sequence in [] if self.iterative else self.sequences(with_slot=True):
            sequence.open = False
            self.vacate_if_over(next(key for key, there in self.slots.items() if there is sequence))

    # -- instances

    @precondition(lambda self: len(self.slots) < 2 * self.size)
    @rule()
    def add_next_host(self) -> None:
        self.add_host(next(host for host in (0, 1) if (host, 0) not in self.slots))

    def add_host(self, host: int) -> None:
        self.table.add_host(host, self.now)
        for number in range(self.size):
            self.vacate((host, number))

    @precondition(lambda self: self.slots)
    @rule(number=NUMBERS)
    def abandon(self, number: int) -> None:
        host, failed = choose(number, {host for host, _ in self.slots}), []
        for slot in range(self.size):
            self.running.pop((host, slot), None)
            sequence = self.slots[host, slot]
            if sequence is not None and not (sequence.queue and sequence.queue[0].flags & START):
                failed += self.end((host, slot))
        assert [made for made, _ in self.table.abandon(host, (), ERROR, self.now)] == failed

    @precondition(lambda self: self.slots)
    @rule(number=NUMBERS)
    def remove_host(self, number: int) -> None:
        host, failed = choose(number, {host for host, _ in self.slots}), []
        for slot in range(self.size):
            self.running.pop((host, slot), None)
            sequence = self.slots.pop((host, slot))
            failed += sequence.queue if sequence is not None else []
        if not self.slots:
            failed += [made for sequence in self.backlog for made in sequence.queue]
            self.backlog.clear()
        assert [made for made, _ in self.table.remove_host(host, ERROR, self.now)] == failed

    @invariant()
    def the_table_is_the_model(self) -> None:
        for key, sequence in self.slots.items():
            slot, there = self.at(key), sequence or Sequence("", open=False)
            expected = (sequence and sequence.ident, there.open, there.queue, key in self.running)
            assert (slot.sequence, slot.open, list(slot.queue), slot.busy) == expected
        assert [(s.sequence, list(s.queue)) for s in self.table.backlog] == [(s.ident, s.queue) for s in self.backlog]
        idle = [s.last_seen + IDLE for s in self.sequences(with_slot=True)]
        times = [*idle, *(s.expires for s in self.backlog if s.expires != NEVER)]
        assert self.table.deadline() == min(times, default=None)
        assert self.table.active == sum(sequence is not None for sequence in self.slots.values())
        assert self.table.backlogged == len(self.backlog)
        waiting = [made for s in self.slots.values() if s is not None for made in s.queue]
        assert self.table.queued == len(waiting) + sum(len(s.queue) for s in self.backlog)


TestSequenceTableMachine = SequenceTableMachine.TestCase
TestSequenceTableMachine.settings = settings(max_examples=60)
