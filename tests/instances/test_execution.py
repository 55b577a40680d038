"""These tests check what an executor says of its stub's answers, with a link that never leaves the process."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tritonlab.core.infer_request import InferenceRequest
from tritonlab.core.infer_stats import InferStats
from tritonlab.core.instrument import Instruments
from tritonlab.instances.execution import StubExecutor
from tritonlab.instances.execution_record import ExecutionRecord
from tritonlab.instances.payload import Payload
from tritonlab.ipc.spin import STUB_SPIN_US, SpinBudget
from tritonlab.ipc.stub_link import Executed
from tritonlab.testing import MockClock

MICROSECOND = 1000


class Bench:
    """An executor whose stub answers when the test says so."""

    def __init__(self) -> None:
        self.clock = MockClock(10**9)
        self.spin = SpinBudget(cores=2)
        self.late: list[int] = []
        self.spin.crowd.answered = lambda late, now: self.late.append(late)  # type: ignore[method-assign]
        self.stub = MagicMock()
        self.stub.link.lost = False
        self.stub.link.devices.brought = False
        instruments = Instruments()
        services: Any = SimpleNamespace(
            clock=self.clock, instruments=instruments, spin=self.spin, failures=MagicMock(kept=0)
        )
        plan: Any = SimpleNamespace(source=SimpleNamespace(version=1), label="m_0_0", reshapes=None)
        events: Any = SimpleNamespace(reschedule=None, iterative=False, leads=False, idle=lambda: None)
        record = ExecutionRecord("m_0_0", 1, InferStats(), self.clock, instruments)
        self.executor = StubExecutor(
            self.stub, plan, services, events, record, itertools.count(1), lambda executor: None
        )
        self.executed = self.stub.link.on_executed.call_args.args[0]
        self._serials = itertools.count(1)

    def execute(self, takes: int, infer: int) -> int:
        """Executes a request; the answer comes after `takes` us, `infer` of which the stub needed. Returns how long the
        stub was told to poll for the next."""
        request = InferenceRequest("m", {})
        request.serial = next(self._serials)
        self.executor.execute(Payload([request], 1, "no dynamic batching"))
        batch, _, spin_us = self.stub.link.execute.call_args.args
        self.clock.advance(takes * MICROSECOND)
        self.executed(batch, Executed(0, infer * MICROSECOND, 0, None, None, [[[], None, ""]]))
        return int(spin_us)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_crowd_hears_how_late_the_answers_of_stubs_that_poll_are(bench: Bench) -> None:
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
    bench.spin.crowd.there = True
    bench.spin.crowd.look = lambda now: None  # type: ignore[method-assign]
    assert bench.execute(takes=300, infer=20) == 0
    assert bench.late == []
