from __future__ import annotations

import pytest

from tritonlab.core.infer_request import InferenceRequest
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
