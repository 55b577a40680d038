"""Notes of requests that execute alone, which become the same rows as if they had been written at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.record.events import RecorderHooks, make_call, make_request
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.record.lone_executions import NOTES, LoneKind
from tritonlab.record.model_record import ModelRecord
from tritonlab.testing import MS

ONE, OTHER = object(), object()
#: How many requests execute together, their inputs' columns, and what else differs between executions.
EXECUTED = st.tuples(
    st.sampled_from([1, 1, 1, 2, 5]),
    st.sampled_from([2, 3]),
    st.fixed_dictionaries(
        {
            "instance": st.sampled_from(["add_0_0", "add_0_1"]),
            "version": st.sampled_from([1, 2]),
            "reason": st.sampled_from(["full", "delay"]),
            "failed": st.booleans(),
        }
    ),
    st.sampled_from([{}, {}, {}, {"request_id": "a"}, {"timeout": 7}, {"correlation_id": "s"}]),
)


def read_all(record: ModelRecord) -> dict[str, Any]:
    """Return all that a record has, and how much it has dropped."""
    tables = {name: (ring.total, ring.dropped, ring.rows().tolist()) for name, ring in record.tables.items()}
    return {**tables, "words": record.words.lists(), "ids": list(record.ids), "dropped": record.dropped}


def execute_all(hooks: RecorderHooks, executed: Sequence[Any], keyed: bool, looks: int) -> ModelRecord:
    """Execute all that, with shape keys as models with fixed dims set them. A view looks at each `looks`-th."""
    record, serial = hooks.recording.model("add"), 0
    for number, (count, columns, facts, fields) in enumerate(executed):
        requests = [make_request(serial + i, number, columns, **fields) for i in range(count)]
        serial += count
        for request in requests:
            request.shape_key = (ONE if columns == 2 else OTHER) if keyed else None
        hooks.execute(*requests, start=number + 1, end=number + 2, **facts)
        if looks and number % looks == 0:
            assert record.requests.total == serial and record.batches.total == number + 1
    return record


@settings(deadline=None)
@given(st.lists(EXECUTED, max_size=40), st.integers(0, 5), st.sampled_from([1, 7, 200]))
def test_notes_become_the_rows_that_would_have_been_written(executed: list[Any], looks: int, events: int) -> None:
    noted = execute_all(RecorderHooks(events), executed, keyed=True, looks=looks)
    assert read_all(noted) == read_all(execute_all(RecorderHooks(events), executed, keyed=False, looks=0))


@pytest.mark.parametrize("count", [1, 255, 256, NOTES - 1, NOTES, NOTES + 1, 2 * NOTES + 70])
@pytest.mark.parametrize("events", [10, NOTES + 5, 10_000])
def test_many_notes_become_rows_too(count: int, events: int) -> None:
    executed = [(1, 2, {"instance": f"add_0_{number % 3}"}, {}) for number in range(count)]
    noted = execute_all(RecorderHooks(events), executed, keyed=True, looks=0)
    assert len(noted.lone.notes) <= NOTES * 80
    assert read_all(noted) == read_all(execute_all(RecorderHooks(events), executed, keyed=False, looks=0))
    assert not noted.lone.notes


def test_only_executions_that_are_known_are_noted() -> None:
    hooks = RecorderHooks()
    record = hooks.recording.model("add")

    def noted(*requests: InferenceRequest, **facts: Any) -> bool:
        record.settle()
        for request in requests:
            request.shape_key = ONE
        hooks.execute(*requests, start=1, end=2, **facts)
        return bool(record.lone.notes)

    assert not noted(make_request(1))  # the first of its kind
    assert noted(make_request(2))
    assert not noted(make_request(3), make_request(4))
    assert not noted(make_request(5, request_id="x"))
    assert not noted(make_request(6), failed=True) and noted(make_request(7), failed=True)
    assert not noted(make_call(8, "b_0", 1))
    assert noted(make_request(9))
    assert record.requests.rows()[:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_tables_fit_together_while_the_lock_is_held() -> None:
    hooks = RecorderHooks()
    record = execute_all(hooks, [(1, 2, {}, {})] * 3, keyed=True, looks=0)
    late = make_request(4)
    late.shape_key = ONE
    with record.lock:
        batches = record.batches.total
        hooks.execute(late, start=1, end=2)  # as another thread may
        with record.lock:
            assert record.requests.total == batches == 3
    assert record.requests.total == record.batches.total == 4


def test_kinds_without_end_do_not_fill_the_memory() -> None:
    lone = ModelRecord("m").lone
    numbers = [lone.learn(LoneKind(0, 1, 1, 0, 0, number)) for number in range(1_002)]
    assert numbers == [*range(1_000), None, None]


def test_what_is_forgotten_meanwhile_is_recorded_again() -> None:
    hooks = RecorderHooks()
    executed = [(1, 2, {}, {})] * 3
    old = execute_all(hooks, executed, keyed=True, looks=0)
    hooks.recording.clear()
    hooks.recording.learn(old, ("add", ONE, 1, "add_0_0", 1, "full", False), LoneKind(0, 1, 1, 0, 0, 0))  # too late
    assert execute_all(hooks, executed, keyed=True, looks=0).requests.total == 3


def test_threads_note_and_look_at_the_same_time() -> None:
    hooks = RecorderHooks()
    first = make_request(0)
    first.shape_key = ONE
    hooks.execute(first, start=0, end=0)
    record, looked, done = hooks.recording.model("add"), [0], threading.Event()

    def note(thread: int) -> None:
        for number in range(2_000):
            request = make_request(1 + thread * 2_000 + number, at=number)
            request.shape_key = ONE
            hooks.execute(request, start=number, end=number + 1)

    def look() -> None:
        while not done.is_set():
            looked.append(record.requests.total)

    threads = [threading.Thread(target=note, args=(number,)) for number in range(3)]
    looker = threading.Thread(target=look)
    for thread in (looker, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    looker.join()
    requests, batches = record.requests.rows(), record.batches.rows()
    assert looked == sorted(looked)
    assert sorted(requests[:, 0].tolist()) == list(range(6_001))
    assert requests[:, 3].tolist() == batches[:, 12].tolist() == list(range(6_001))
    assert ((batches[1:, 1] - requests[1:, 1]) == MS).all()  # both rows are of the same execution
