from __future__ import annotations

from collections.abc import Callable

import pytest

from tritonlab.core.infer_request import InferenceRequest, RequestEvent
from tritonlab.frontends.shared import lone_requests
from tritonlab.frontends.shared.lone_requests import PAUSE, LoneRequests


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [100.0]
    monkeypatch.setattr(lone_requests.time, "perf_counter", lambda: time[0])
    return time


def request() -> InferenceRequest:
    return InferenceRequest("m", {})


def test_one_at_a_time_is_alone(now: list[float]) -> None:
    lone = LoneRequests()
    for _ in range(3):
        one = request()
        assert lone.begin(one)
        lone.end(one)
        now[0] += 2 * PAUSE


def test_what_came_during_another_is_not(now: list[float]) -> None:
    lone = LoneRequests()
    first, second, third, fourth = (request() for _ in range(4))
    assert lone.begin(first)
    assert not lone.begin(second)
    lone.end(first)
    now[0] += 2 * PAUSE
    assert not lone.begin(third)  # the second is under way
    for one in (second, third):
        lone.end(one)
    now[0] += PAUSE / 2
    assert not lone.begin(fourth)  # it waited to be read


class Executor:
    def __init__(self) -> None:
        self.asked: list[tuple[bool, bool]] = []

    def lead(self, done: Callable[[], bool], patient: bool = True) -> bool:
        self.asked.append((done(), patient))
        return True


def test_it_polls_until_the_answer_or_for_a_moment() -> None:
    one, executor = request(), Executor()
    LoneRequests.poll(one)  # it waits in a queue
    one.executor = executor
    LoneRequests.poll(one)
    one.advance(RequestEvent.RELEASE)
    LoneRequests.poll(one)
    assert executor.asked == [(False, False), (True, False)]
