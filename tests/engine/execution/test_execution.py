"""What an executor makes of its stub's answers, with a link that never leaves the process."""

from __future__ import annotations

import itertools
import os
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tritonlab.core.inference.copies import Copies
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.metrics.infer_stats import ExecuteTimes, InferStats
from tritonlab.core.observe.instrument import Instrument, Instruments
from tritonlab.core.status import InvalidArgumentError, ModelError
from tritonlab.engine.execution.execution import StubExecutor
from tritonlab.engine.execution.execution_record import ExecutionRecord
from tritonlab.engine.execution.payload import Payload
from tritonlab.ipc.link.stub_link import RESCHEDULED, Executed, SharedMemoryError
from tritonlab.ipc.link.wait_policy import STUB_SPIN_US, Cores
from tritonlab.testing import MockClock

MICROSECOND = 1000


class Bench:
    """An executor whose stub answers when the test lets it."""

    def __init__(self) -> None:
        self.clock = MockClock(10**9)
        self.quiet = False
        self.cores = Cores(2)
        self.cores.are_quiet = lambda now: self.quiet  # type: ignore[method-assign]
        self.late: list[int] = []
        self.cores.answered = lambda late, now: self.late.append(late)  # type: ignore[method-assign]
        self.stub = MagicMock()
        self.stub.link.lost = False
        self.stub.link.devices.brought = False
        self.instruments = instruments = Instruments()
        services: Any = SimpleNamespace(
            clock=self.clock,
            instruments=instruments,
            cores=self.cores,
            copies=Copies(instruments, self.clock),
            failures=MagicMock(capacity=0),
        )
        plan: Any = SimpleNamespace(source=SimpleNamespace(version=1), label="m_0_0", reshapes=None, decoupled=False)
        self.events: Any = SimpleNamespace(reschedule=None, iterative=False, leads=False, idle=lambda: None)
        self.stats = InferStats()
        record = ExecutionRecord("m_0_0", 1, self.stats, self.clock, instruments)
        self.executor = StubExecutor(
            self.stub, plan, services, self.events, record, itertools.count(1), lambda executor: None
        )
        handlers = dict(call.args for call in self.stub.link.on_message.call_args_list)
        self.executed = handlers[Executed]
        self._serials = itertools.count(1)

    def execute(self, takes: int, infer: int) -> int:
        """Execute a request that takes `takes` us, of which the stub needs `infer`; return how long the stub polls for
        the next.
        """
        self.executor.send(self.payload())
        batch, _, spin_us = self.stub.link.send_batch.call_args.args
        self.clock.advance(takes * MICROSECOND)
        self.executed(batch, Executed(0, infer * MICROSECOND, 0, None, None, [[[], None, ""]]))
        return int(spin_us)

    def payload(self) -> Payload:
        request = InferenceRequest("m", {})
        request.serial = next(self._serials)
        return Payload([request], 1, "no dynamic batching")


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_it_is_noted_how_late_the_answers_of_stubs_that_poll_are(bench: Bench) -> None:
    assert bench.execute(takes=300, infer=20) == STUB_SPIN_US
    assert bench.late == []  # the stub slept until then
    bench.execute(takes=300, infer=20)
    bench.execute(takes=5000, infer=4990)
    assert bench.late == [280 * MICROSECOND, 10 * MICROSECOND]
    bench.clock.advance(STUB_SPIN_US * MICROSECOND)  # it has gone to sleep
    bench.execute(takes=300, infer=20)
    assert len(bench.late) == 2


def test_answers_nobody_polls_for_say_nothing(bench: Bench) -> None:
    bench.execute(takes=30, infer=20)
    bench.cores.may_poll = lambda now: False  # type: ignore[method-assign]
    assert bench.execute(takes=300, infer=20) == 0
    assert bench.late == []


@pytest.mark.parametrize("but", ["", "others have work", "the stub is awake", "nobody waits for it here"])
def test_a_stub_that_slept_runs_before_the_thread_that_waits_for_it(
    bench: Bench, but: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr(os, "sched_yield", lambda: order.append("yield"))
    bench.quiet = but != "others have work"
    bench.stub.link.held = but != "nobody waits for it here"
    bench.execute(takes=30, infer=20)
    order.clear()
    bench.clock.advance(1 if but == "the stub is awake" else STUB_SPIN_US * MICROSECOND)
    bench.stub.link.send_batch.side_effect = lambda *batch: order.append("send")
    bench.execute(takes=30, infer=20)
    assert order == (["send"] if but else ["send", "yield"])


class ReadLink:
    """A link that records who is to read it."""

    def __init__(self, bench: Bench) -> None:
        self.moves: list[object] = []
        self._link = bench.stub.link
        self._link.reader = None
        self._link.read_by = self._read_by

    def _read_by(self, reader: object) -> None:
        self._link.reader = reader
        self.moves.append(reader)


def test_an_answer_is_read_by_who_waits_for_the_batch(bench: Bench) -> None:
    link, loop = ReadLink(bench), object()
    for reader in (None, loop, loop, None):
        payload = bench.payload()
        payload.requests[0].reader = reader
        bench.executor.send(payload)
        batch, _, _ = bench.stub.link.send_batch.call_args.args
        bench.executed(batch, Executed(0, 1, 0, None, None, [[[], None, ""]]))
    assert link.moves == [loop, None]


def test_while_a_model_waits_for_another_the_link_reader_reads_its_link(bench: Bench) -> None:
    link, loop = ReadLink(bench), object()
    bench.executor.lead.wait_for_another(True)
    assert link.moves == []
    bench.stub.link.reader = loop
    bench.executor.lead.wait_for_another(True)
    bench.executor.lead.wait_for_another(False)
    assert link.moves == [None]


RESCHEDULE: list[Any] = [RESCHEDULED]


@pytest.mark.parametrize("order", ["answer, death", "death, answer, burial", "answer in the burial"])
def test_an_iteration_that_comes_back_from_a_dead_stub_fails_with_its_death(bench: Bench, order: str) -> None:
    """The sequence batcher has heard of the death, and has ended the sequence."""
    death_error = ModelError("Stub process 'm_0_0' is not healthy.")
    answers: list[str] = []
    bench.events.iterative = True
    payload = bench.payload()
    payload.requests[0].on_response = lambda request, response: answers.append(str(response.error))
    bench.executor.send(payload)
    deaths: list[Any] = []

    def ended(request: InferenceRequest) -> bool:
        if order == "answer, death":  # it had been taken out when the stub died
            deaths.append(bench.executor.die())
        elif order == "answer in the burial":
            deaths.append(bench.executor.die())
            bench.executor.bury(deaths[0], death_error)
        raise InvalidArgumentError("inference request for sequence 1 must specify the START flag")

    bench.executor.inflight._reschedule = ended
    if order == "death, answer, burial":
        deaths.append(bench.executor.die())
        bench.executor.inflight.give_back_released(payload.requests, RESCHEDULE)
    else:
        batch = bench.stub.link.send_batch.call_args.args[0]
        bench.executed(batch, Executed(0, 0, 0, None, None, RESCHEDULE))
    if order != "answer in the burial":
        assert answers == []
        bench.executor.bury(deaths[0], death_error)
    assert answers == [str(death_error)]
    assert not bench.executor.inflight


def test_listeners_learn_the_end_of_an_execution_whose_stub_is_killed(bench: Bench) -> None:
    ends: list[int] = []

    class Ends(Instrument):
        def execute_finished(self, instance: str, batch_id: int, times: ExecuteTimes, now: int) -> None:
            ends.append(batch_id)

    bench.instruments.add(Ends())
    bench.executor.send(bench.payload())
    batch, _, _ = bench.stub.link.send_batch.call_args.args
    bench.executor.abort(ModelError("killed"))
    bench.executor.abort(ModelError("killed"))
    assert ends == [batch]
    assert bench.stats.to_dict("m", 1)["execution_count"] == 0


def test_an_iteration_whose_sequence_is_over_fails_with_what_its_scheduler_says(bench: Bench) -> None:
    payload = bench.payload()
    answers: list[str] = []
    payload.requests[0].on_response = lambda request, response: answers.append(str(response.error))
    bench.executor.send(payload)
    refusal = InvalidArgumentError("inference request for sequence 1 must specify the START flag")
    bench.executor.inflight._reschedule = MagicMock(side_effect=refusal)
    bench.executor.inflight.give_back_released(payload.requests, RESCHEDULE)
    assert answers == [str(refusal)]


@pytest.mark.parametrize("late", [False, True])
def test_a_queue_of_requests_that_are_not_sent_ends_in_a_loop_not_in_a_recursion(bench: Bench, late: bool) -> None:
    queue = [bench.payload() for _ in range(2000)]
    ended: list[InferenceRequest] = []
    for payload in queue:
        payload.requests[0].on_response = lambda request, response: ended.append(request)
        if late:
            payload.late = lambda requests: ended.extend(requests) or requests  # type: ignore[func-returns-value]
    bench.stub.link.pack.side_effect = SharedMemoryError("no room")
    waiting = list(queue)
    bench.events.idle = lambda: waiting and bench.executor.send(waiting.pop(0))
    bench.events.idle()
    assert ended == [payload.requests[0] for payload in queue]


def test_a_stub_that_dies_before_it_has_got_its_batch_counts_no_longer_as_busy(bench: Bench) -> None:
    begin = bench.executor._begin

    def begin_and_die(*arguments: Any) -> bool:
        begun = begin(*arguments)
        bench.executor.die()
        return begun

    bench.executor._begin = begin_and_die  # type: ignore[method-assign]
    bench.executor.send(bench.payload())
    assert not bench.cores.executing
