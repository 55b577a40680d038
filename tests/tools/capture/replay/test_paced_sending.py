"""The pace and the order in which a replay sends requests, with a sender and a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from tests.tools.capture.replay.captures import MS, planned
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.exchanges.exchange import Exchange
from tritonlab.tools.capture.replay.paced_sending import Replayed, play


class Waited(SimpleQueue[Any]):
    """A queue whose waits move a clock instead of taking time."""

    def __init__(self, sender: FakeSender) -> None:
        self._sender = sender

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if block and timeout:
            self._sender.wait(round(timeout * 1e9))
        return super().get(block=False)


class FakeSender:
    """A sender that answers each request after `took` nanoseconds, or never."""

    def __init__(self, took: Callable[[InferenceRequest], int | None] = lambda request: 0) -> None:
        self.took = took
        self.answers: Any = Waited(self)
        self.time = 0
        self.sent: list[tuple[int, InferenceRequest]] = []
        self.pending: list[tuple[int, int, InferenceRequest]] = []
        self.most = 0
        self.is_cancelled = self.is_closed = False

    def start(self, request: InferenceRequest) -> int:
        self.sent.append((self.time, request))
        took = self.took(request)
        if took is not None:
            self.pending.append((self.time + took, len(self.sent), request))
        self.most = max(self.most, len(self.pending))
        self.wait(0)
        return len(self.sent)

    def wait(self, nanoseconds: int) -> None:
        """Move the clock until the next answer, or by so much."""
        end = self.time + nanoseconds
        self.pending.sort(key=lambda each: each[:2])
        if self.pending and self.pending[0][0] <= end:
            at, key, request = self.pending.pop(0)
            self.time = max(self.time, at)
            self.answers.put((key, Exchange(request)))
        else:
            self.time = end

    def cancel(self) -> None:
        self.is_cancelled = True

    def close(self) -> None:
        self.is_closed = True


def run(sender: FakeSender, requests: list[Any], **options: Any) -> list[Replayed]:
    return list(play(requests, sender, now=lambda: sender.time, **options))


@pytest.mark.parametrize(("speed", "times"), [(1.0, [0, 4, 10]), (2.0, [0, 2, 5]), (None, [0, 0, 0])])
def test_requests_are_sent_when_they_are_due(speed: float | None, times: list[int]) -> None:
    sender = FakeSender()
    found = run(sender, [planned(n, at_ns=(100 + at) * MS) for n, at in enumerate([0, 4, 10])], speed=speed)
    assert [at / MS for at, _ in sender.sent] == times
    assert [each.planned.number for each in found] == [0, 1, 2] and sender.is_closed


def test_requests_overlap_as_they_did_up_to_a_limit() -> None:
    sender = FakeSender(lambda request: 10 * MS)
    found = run(sender, [planned(n, at_ns=n * MS) for n in range(6)], in_flight=3)
    assert sender.most == 3
    assert [at // MS for at, _ in sender.sent] == [0, 1, 2, 10, 11, 12]
    assert max(each.behind_ns for each in found) == 7 * MS


def test_a_request_of_a_sequence_waits_for_the_one_before_it() -> None:
    sender = FakeSender(lambda request: 5 * MS if request.correlation_id == 1 else 0)
    sequences = enumerate([1, 1, 2, 1])
    requests = [planned(n, at_ns=n * MS, correlation_id=sequence, priority=n) for n, sequence in sequences]
    run(sender, requests)
    assert [(at // MS, request.priority) for at, request in sender.sent] == [(0, 0), (2, 2), (5, 1), (10, 3)]


def test_requests_without_an_answer_end_with_an_error() -> None:
    sender = FakeSender(lambda request: None if request.correlation_id else 0)
    found = run(sender, [planned(0, correlation_id=7), planned(1, correlation_id=7), planned(2)], stall=9.0)
    assert [(each.planned.number, each.exchange.error_text) for each in found] == [
        (2, ""),
        (0, "no answer within 9 s"),
        (1, "no answer within 9 s"),
    ]
