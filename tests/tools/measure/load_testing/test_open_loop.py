"""The times at which the requests of an open loop are due and sent."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tritonlab.core.status import InvalidArgumentError
from tritonlab.testing import MS, MockClock
from tritonlab.tools.measure.load_testing.open_loop import due_times, explicit_times, fire
from tritonlab.tools.measure.load_testing.request_mix import Lane, RequestMix

from .fakes import FakeTarget, model_inputs


def test_constant_arrivals_have_one_gap() -> None:
    assert list(itertools.islice(due_times(200, "constant"), 4)) == [0, 5 * MS, 10 * MS, 15 * MS]


def test_poisson_arrivals_have_the_rate_and_its_variance() -> None:
    gaps = np.diff(list(itertools.islice(due_times(1000, "poisson", seed=3), 20_000)))
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(MS, rel=0.05)
    assert gaps.std() == pytest.approx(MS, rel=0.05)  # of an exponential distribution: that of its mean
    assert [*itertools.islice(due_times(1000, "poisson", seed=3), 5)] == [
        *itertools.islice(due_times(1000, "poisson", seed=3), 5)
    ]


def test_explicit_arrivals_begin_with_the_first() -> None:
    assert explicit_times([2.0, 1.0, 1.5], "m") == [0, 500 * MS, 1000 * MS]
    wrong: list[Any] = [[], [float("nan")], "recording.npz", [[1.0], [2.0, 3.0]], None]
    for arrivals in wrong:
        with pytest.raises(InvalidArgumentError):
            explicit_times(arrivals, "m")


def fired(times: list[int], target: FakeTarget, clock: MockClock, halt: Callable[[], bool], lanes: int = 1) -> None:
    """Fire with a clock that stands still except while the sender waits."""
    stop = threading.Event()

    def wait(seconds: float) -> None:
        clock.advance(round(seconds * 1e9))
        if halt():
            stop.set()

    mix = RequestMix(model_inputs())
    fire(times, [Lane(number) for number in range(lanes)], target, mix, stop, 2, clock.now, wait)


def test_each_request_is_sent_when_it_is_due() -> None:
    target, clock = FakeTarget(), MockClock(now=7 * MS)
    fired([0, 3 * MS, 3 * MS, 10 * MS], target, clock, lambda: False, lanes=2)
    assert [due for _, due, _ in target.sent] == [7 * MS, 10 * MS, 10 * MS, 17 * MS]
    assert [lane.number for _, _, lane in target.sent] == [0, 1, 0, 1]
    assert clock.now() == 17 * MS


def test_requests_that_wait_for_room_keep_their_time_and_none_is_left_out() -> None:
    target, clock = FakeTarget(), MockClock()
    target.under_way = 2

    def halt() -> bool:
        target.under_way = 0 if clock.now() >= 50 * MS else 2  # the server stalls for 50 ms
        return False

    fired([0, 10 * MS, 20 * MS, 60 * MS], target, clock, halt)
    assert [due for _, due, _ in target.sent] == [0, 10 * MS, 20 * MS, 60 * MS]
    assert clock.now() == 60 * MS


def test_halt_ends_the_schedule() -> None:
    target, clock = FakeTarget(), MockClock()
    fired([0, 10 * MS, 20 * MS, 30 * MS], target, clock, lambda: clock.now() >= 20 * MS)
    assert [due for _, due, _ in target.sent] == [0, 10 * MS]
