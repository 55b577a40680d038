from __future__ import annotations

import re

import pytest

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.config.model_config_rules import autofill
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import UnavailableError
from tritonlab.engine.schedulers.policy_queue import PolicyQueue, QueuePolicies, QueuePolicy

MS = 1_000_000


def request(name: str, priority: int = 0, queued: int = 0, timeout_ms: int = 0) -> InferenceRequest:
    made = InferenceRequest("m", {}, request_id=name, priority=priority, timeout=timeout_ms * 1000)
    made.queue_start = queued
    return made


def queue(*policies: QueuePolicy, default: int = 1) -> PolicyQueue:
    return PolicyQueue(QueuePolicies(dict(enumerate(policies, 1)), count=len(policies), default_level=default))


def names(requests: object) -> str:
    return " ".join(r.request_id for r in requests)  # type: ignore[attr-defined]


# -- levels


@pytest.mark.parametrize(("priority", "level"), [(1, 1), (2, 2), (3, 3), (0, 2), (4, 2), (99, 2)])
def test_a_priority_out_of_range_means_the_default(priority: int, level: int) -> None:  # rule 5.5.8
    assert QueuePolicies(count=3, default_level=2).level(priority) == level


def test_higher_levels_go_first_and_within_one_the_order_is_that_of_arrival() -> None:  # rule 5.5.8
    waiting = queue(*[QueuePolicy()] * 3, default=2)
    for name, priority in (("c", 3), ("b", 0), ("a", 1), ("x", 9), ("b2", 2), ("a2", 1)):
        waiting.append(request(name, priority))
    assert names(waiting) == "a a2 b x b2 c"
    assert [waiting.popleft().request_id for _ in range(len(waiting))] == ["a", "a2", "b", "x", "b2", "c"]
    with pytest.raises(IndexError):
        waiting.popleft()


# -- size


def test_each_level_has_its_own_limit() -> None:  # rule 5.5.9
    waiting = queue(QueuePolicy(max_size=1), QueuePolicy(max_size=2), default=2)
    for name, priority in (("a", 1), ("b", 2), ("b2", 2)):
        waiting.append(request(name, priority))
    for name, priority in (("a2", 1), ("b3", 2)):
        with pytest.raises(UnavailableError, match=re.escape(f"[request id: {name}] Exceeds maximum queue size")):
            waiting.append(request(name, priority))
    waiting.popleft()
    waiting.append(request("a3", 1))
    assert names(waiting) == "a3 b b2"


def test_delayed_requests_count() -> None:
    waiting = queue(QueuePolicy(max_size=1, timeout=MS, delay=True))
    waiting.append(request("a"))
    waiting.expire(MS)
    with pytest.raises(UnavailableError):
        waiting.append(request("b", queued=MS))


# -- time


@pytest.mark.parametrize(
    ("default_ms", "own_ms", "override", "expected_ms"),
    [
        (0, 0, True, None),
        (0, 100, True, None),  # measured: without a default the request's own has no effect
        (300, 0, True, 300),
        (300, 100, True, 100),
        (300, 900, True, 300),  # it can only shorten
        (300, 100, False, 300),
    ],
)
def test_which_timeout_counts(default_ms: int, own_ms: int, override: bool, expected_ms: int | None) -> None:
    policy = QueuePolicy(timeout=default_ms * MS, override=override)
    expected = None if expected_ms is None else 7 + expected_ms * MS
    assert policy.deadline(request("a", queued=7, timeout_ms=own_ms)) == expected


def test_requests_whose_time_is_up_are_refused() -> None:  # rule 5.5.9
    waiting = queue(QueuePolicy(timeout=300 * MS, override=True))
    for name, queued, own in (("a", 0, 0), ("b", 0, 100), ("c", 50 * MS, 0)):
        waiting.append(request(name, queued=queued, timeout_ms=own))
    assert waiting.next_deadline() == 100 * MS
    assert names(waiting.expire(100 * MS - 1)) == ""
    assert names(waiting.expire(100 * MS)) == "b"
    assert names(waiting) == "a c"
    assert names(waiting.expire(400 * MS)) == "a c"
    assert waiting.next_deadline() is None
    assert len(waiting) == 0


def test_or_go_behind_all_others_of_their_level() -> None:  # rule 5.5.9
    delaying = QueuePolicy(timeout=100 * MS, delay=True)
    waiting = queue(delaying, delaying)
    for name, priority, queued in (("a", 1, 0), ("b", 2, 0), ("a2", 1, 50 * MS), ("a3", 1, 90 * MS)):
        waiting.append(request(name, priority, queued))
    assert waiting.expire(150 * MS) == []
    waiting.append(request("a4", 1, 150 * MS))
    assert names(waiting) == "a3 a4 a a2 b"  # the level still comes first: measured
    assert waiting.next_deadline() == 190 * MS
    assert [waiting.popleft().request_id for _ in range(5)] == ["a3", "a4", "a", "a2", "b"]


def test_levels_without_a_timeout_wait_as_long_as_it_takes() -> None:
    waiting = queue(QueuePolicy(timeout=MS), QueuePolicy())
    for priority in (1, 2):
        waiting.append(request(f"p{priority}", priority))
    assert names(waiting.expire(1000 * MS)) == "p1"
    assert names(waiting) == "p2"


def test_requests_are_taken_out_wherever_they_stand() -> None:
    waiting = queue(QueuePolicy(timeout=MS, delay=True), QueuePolicy())
    requests = [request("a", 1), request("b", 1), request("c", 2), request("d", 2)]
    for one in requests:
        waiting.append(one)
    waiting.expire(MS)
    waiting.take_out([requests[0], requests[3]])
    assert names(waiting) == "b c"
    waiting.clear()
    assert not waiting


def test_levels_are_made_when_a_request_uses_them() -> None:
    most = (1 << 64) - 1
    waiting = PolicyQueue(QueuePolicies({most: QueuePolicy(max_size=1)}, count=most, default_level=1 << 32))
    for name, priority in (("c", most), ("b", 0), ("a", 1)):
        waiting.append(request(name, priority))
    with pytest.raises(UnavailableError):
        waiting.append(request("full", most))
    assert names([waiting.popleft() for _ in range(3)]) == "a b c"
    for priority in range(1, 100_000):  # a client may name them all
        waiting.append(request("", priority))
        waiting.popleft()
    assert repr(waiting).count(":") < 100


# -- QueuePolicies.from_config


def policies_of(batching: str) -> QueuePolicies | None:
    text = f"max_batch_size: 8 dynamic_batching {{ {batching} }}"
    return QueuePolicies.from_config(autofill(parse_pbtxt(text, "config.pbtxt"), model_name="m", files=["model.py"]))


def test_a_plain_batcher_has_no_policies() -> None:
    assert policies_of("") is None
    assert policies_of("max_queue_delay_microseconds: 100 preserve_ordering: true") is None
    assert policies_of("default_queue_policy { allow_timeout_override: true }") is None


def test_the_policies_of_a_configuration() -> None:
    found = policies_of(
        """
        priority_levels: 3 default_priority_level: 2
        default_queue_policy { max_queue_size: 5 default_timeout_microseconds: 100 allow_timeout_override: true }
        priority_queue_policy { key: 1 value { timeout_action: DELAY default_timeout_microseconds: 7 } }
        """
    )
    default = QueuePolicy(max_size=5, timeout=100_000, override=True)
    assert found == QueuePolicies({1: QueuePolicy(timeout=7_000, delay=True)}, default, 3, 2)


def test_a_configuration_may_have_all_levels_there_are() -> None:
    found = policies_of(f"priority_levels: {(1 << 64) - 1} default_priority_level: 4294967296")
    assert found == QueuePolicies(count=(1 << 64) - 1, default_level=1 << 32)


def test_repr_tells_the_state() -> None:
    waiting = queue(QueuePolicy(timeout=MS, delay=True), QueuePolicy())
    for name, priority, queued in (("a", 1, 0), ("b", 1, 9 * MS), ("c", 2, 0)):
        waiting.append(request(name, priority, queued))
    waiting.expire(MS)
    assert repr(waiting) == "<PolicyQueue [waiting+delayed by level: 1: 1+1, 2: 1+0]>"
