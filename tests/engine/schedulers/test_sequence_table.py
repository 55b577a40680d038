from __future__ import annotations

import re

import pytest

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import InvalidArgumentError, ModelError, TritonError
from tritonlab.engine.schedulers.sequence_config import SequenceConfig
from tritonlab.engine.schedulers.sequence_table import SequenceTable, Slot
from tritonlab.testing import MS

IDLE = 1000 * MS
START, END = 1, 2
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


def test_numbers_and_texts_are_different_ids() -> None:
    book = Book()
    assert places([book.admit(7, START), book.admit("7", START)]) == [(0, 0), (0, 1)]


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


def test_the_end_frees_the_slot_when_it_is_taken() -> None:
    book = Book()
    book.admit(7, START)
    book.admit(7, END)
    assert book.sequences == [7, None]
    book.run(0)
    assert book.sequences == [7, None]
    book.run(0)
    assert book.sequences == [None, None]
    with pytest.raises(InvalidArgumentError):
        book.admit(7)


def test_a_request_can_be_a_whole_sequence() -> None:
    book = Book()
    book.admit(7, START | END)
    assert book.sequences == [7, None]
    book.run(0)
    assert book.sequences == [None, None]


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


def test_a_sequence_that_leaves_the_backlog_unfinished_goes_on_in_its_slot() -> None:
    book = Book(slots=1)
    book.admit(1, START | END)
    book.admit(2, START)
    book.run(0)
    assert places([book.admit(2)]) == [(0, 0)]


def test_an_id_that_ended_in_the_backlog_starts_again_behind() -> None:
    book = Book(slots=1)
    book.admit(1, START | END)
    book.admit(2, START)
    book.admit(2, END)
    book.admit(2, START, name="second")
    assert book.table.backlogged == 2
    book.run(0)
    book.run(0)
    assert book.run(0).flags == END
    assert book.run(0).request_id == "second"


def reaped(book: Book, now: int) -> list[tuple[int | str, str]]:
    return [(r.correlation_id, error.message) for r, error in book.table.reap(now)]


EXPIRED = "timeout of the corresponding sequence has been expired"


def test_a_backlogged_sequence_is_refused_when_the_first_timeout_of_its_requests_has_passed() -> None:
    book = Book(slots=1)
    book.admit(1, START)
    book.admit(2, START, timeout_ms=300)
    book.admit(2, 0, timeout_ms=900)
    book.admit(3, START, timeout_ms=900)
    book.admit(3, 0, now=10 * MS, timeout_ms=100)
    book.admit(4, START)
    assert book.table.deadline() == 110 * MS
    assert reaped(book, 110 * MS - 1) == []
    assert reaped(book, 110 * MS) == [(3, EXPIRED)] * 2
    assert book.table.deadline() == 300 * MS
    assert reaped(book, 300 * MS) == [(2, EXPIRED)] * 2
    with pytest.raises(InvalidArgumentError):
        book.admit(2)
    assert places([book.admit(4)]) == [None]  # without a timeout it waits on


def test_a_sequence_that_has_a_slot_does_not_time_out() -> None:
    book = Book()
    book.admit(1, START, timeout_ms=1)
    assert reaped(book, 500 * MS) == []


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


def test_an_ended_table_has_no_deadline() -> None:
    book = Book()
    book.admit(1, START)
    book.admit(1, END)
    assert book.table.deadline() is None


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


def test_the_backlog_moves_into_a_new_instance() -> None:
    book = Book(slots=1, hosts=0)
    book.admit(1, START)
    book.table.add_host(0, 0)
    assert book.waiting() == [[1]]


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


def test_an_instance_that_is_gone_takes_its_sequences_along_the_last_one_the_backlog() -> None:
    book = Book(slots=1, hosts=2)
    for ident in (1, 2, 3):
        book.admit(ident, START)
    assert failed(book.table.remove_host(0, ERROR, 0)) == [1]
    assert book.waiting(1) == [[2]]
    assert places([book.admit(4, START)]) == [None]
    assert failed(book.table.remove_host(1, ERROR, 0)) == [2, 3, 4]
    assert book.table.queued == 0


def test_a_free_slot_of_a_gone_instance_is_not_taken() -> None:
    book = Book(slots=2, hosts=2)
    book.table.remove_host(0, ERROR, 0)
    assert places([book.admit(i, START) for i in (1, 2, 3)]) == [(1, 0), (1, 1), None]


def test_at_the_end_sequences_that_only_wait_for_requests_are_over() -> None:
    book = Book(slots=1)
    book.admit(1, START)
    book.run(0)
    book.admit(2, START)
    book.admit(3, START)
    book.table.end_idle(0)
    assert book.waiting() == [[2]]
    book.run(0)
    assert book.waiting() == [[3]]
    book.run(0)
    assert book.sequences == [None]


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
