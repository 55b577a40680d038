from __future__ import annotations

import pytest

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.frontends.shared import lone_requests
from tritonlab.frontends.shared.lone_requests import IN_A_ROW, PAUSE, LoneRequests


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [100.0]
    monkeypatch.setattr(lone_requests.time, "perf_counter", lambda: time[0])
    return time


def request() -> InferenceRequest:
    return InferenceRequest("m", {})


def sent(lone: LoneRequests, sender: object) -> bool:
    """Sends a request that is answered before anything else comes; tells whether it was alone."""
    one = request()
    alone = lone.begin(one, sender)
    lone.end(one)
    return alone


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


def test_the_only_client_is_alone_though_it_is_back_at_once(now: list[float]) -> None:
    lone, client = LoneRequests(), object()
    assert [sent(lone, client) for _ in range(IN_A_ROW + 3)] == [False] * IN_A_ROW + [True] * 3


def test_clients_that_take_turns_are_not_alone_however_long_they_pause(now: list[float]) -> None:
    """The thread that would wait for one's answer is the one that reads the others."""
    lone, clients = LoneRequests(), [object(), object()]
    for number in range(4 * IN_A_ROW):
        assert not sent(lone, clients[number % 2])
        now[0] += 2 * PAUSE


def test_what_another_client_sent_meanwhile_is_not(now: list[float]) -> None:
    lone, client, other = LoneRequests(), object(), object()
    for _ in range(IN_A_ROW):
        sent(lone, client)
    assert not sent(lone, other)  # it waited to be read
    assert not sent(lone, client)  # that may have, too, while the other's was under way


def test_the_only_client_is_not_alone_with_two_requests(now: list[float]) -> None:
    lone, client = LoneRequests(), object()
    for _ in range(IN_A_ROW):
        sent(lone, client)
    assert lone.begin(request(), client)
    assert not lone.begin(request(), client)


def test_who_does_not_say_who_it_is_is_never_the_only_one(now: list[float]) -> None:
    lone = LoneRequests()
    assert [sent(lone, None) for _ in range(2 * IN_A_ROW)] == [True] + [False] * (2 * IN_A_ROW - 1)
