from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.config.model_config_rules import autofill
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import UnavailableError
from tritonlab.engine.schedulers.policy_queue import PolicyQueue, QueuePolicies, QueuePolicy

MS = 1_000_000
NEVER = 1 << 62
#: In nanoseconds.
TIMES = st.sampled_from([5 * MS, 20 * MS, 0])


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


class PolicyQueueMachine(RuleBasedStateMachine):
    """A queue beside a list of its requests (rules 5.5.8, 5.5.9). Higher levels go first; within one those that wait by
    arrival, then those that were delayed. A level refuses what is more than its size, delayed ones counted.
    """

    @initialize(
        policies=st.lists(
            st.builds(QueuePolicy, st.sampled_from([1, 2, 0]), TIMES, st.booleans(), st.booleans()),
            min_size=1,
            max_size=2,
        ),
        default=st.integers(1, 2),
    )
    def begin(self, policies: list[QueuePolicy], default: int) -> None:
        self.policies, self.default = policies, min(default, len(policies))
        self.queue = queue(*policies, default=self.default)
        self.now = 0
        #: (level, delayed, place) -> deadline and request
        self.model: dict[tuple[int, bool, int], tuple[int, InferenceRequest]] = {}
        self.places = itertools.count()

    @rule(requests=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 3, 50])), min_size=1, max_size=5))
    def append_each(self, requests: list[tuple[int, int]]) -> None:
        for priority, own in requests:
            self.append(priority, own)

    def append(self, priority: int, own: int) -> None:
        made = request("r", priority, self.now, own)
        level = priority if 0 < priority <= len(self.policies) else self.default
        policy = self.policies[level - 1]
        if policy.max_size and sum(key[0] == level for key in self.model) == policy.max_size:
            with pytest.raises(UnavailableError, match=re.escape("[request id: r] Exceeds maximum queue size")):
                self.queue.append(made)
        else:
            self.queue.append(made)
            timeout = min(policy.timeout, own * MS) if policy.override and own else policy.timeout
            self.model[level, False, next(self.places)] = (self.now + timeout if timeout else NEVER, made)

    @rule()
    def popleft(self) -> None:
        if self.model:
            assert self.queue.popleft() is self.model.pop(min(self.model))[1]
        else:
            with pytest.raises(IndexError):
                self.queue.popleft()

    @rule(passed=st.sampled_from([5 * MS, 20 * MS]))
    def expire(self, passed: int) -> None:
        self.now += passed
        refused = []
        for level, delayed, place in sorted(self.model):
            until, made = self.model[level, delayed, place]
            if until <= self.now:
                del self.model[level, delayed, place]
                if self.policies[level - 1].delay:
                    self.model[level, True, next(self.places)] = (NEVER, made)
                else:
                    refused.append(made)
        assert list(map(id, self.queue.expire(self.now))) == list(map(id, refused))

    @rule(which=st.sets(st.integers(0, 9)))
    def take_out(self, which: set[int]) -> None:
        keys = [key for number, key in enumerate(sorted(self.model)) if number in which]
        self.queue.take_out([self.model.pop(key)[1] for key in keys])

    @invariant()
    def the_queue_is_the_list(self) -> None:
        assert list(map(id, self.queue)) == [id(self.model[key][1]) for key in sorted(self.model)]
        assert len(self.queue) == len(self.model)
        deadline = min((until for until, _ in self.model.values()), default=NEVER)
        assert self.queue.next_deadline() == (None if deadline == NEVER else deadline)


TestPolicyQueueMachine = PolicyQueueMachine.TestCase
TestPolicyQueueMachine.settings = settings(max_examples=100, stateful_step_count=40)


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
