"""The dynamic batcher with priorities, queue policies and preserved ordering; the plain one is in
test_dynamic_batch_scheduler.py."""

from __future__ import annotations

import pytest

from tests.engine.schedulers.batching import services
from tritonlab.core.inference.infer_request import InferenceRequest, RequestState
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.metrics.infer_stats import InferStats
from tritonlab.core.status import UnavailableError
from tritonlab.engine.schedulers.dynamic_batch import Batch, BatchConfig, WaitUntil, take_batch
from tritonlab.engine.schedulers.dynamic_batch_scheduler import DynamicBatchScheduler
from tritonlab.engine.schedulers.policy_queue import QueuePolicies, QueuePolicy
from tritonlab.testing import MS, FakeInstance, FakeTimer, MockClock, collect

DELAY = 500 * MS


def batching(max_batch_size: int = 8, preferred: tuple[int, ...] = (8,), delay: int = 0) -> BatchConfig:
    return BatchConfig(max_batch_size, True, preferred, delay, ranked=True)


class Bench:
    """A scheduler with fake instances, and time that stands still. `a` to `c` in a name are priorities 1 to 3."""

    def __init__(self, config: BatchConfig, *policies: QueuePolicy, instances: int = 1, ordered: bool = False) -> None:
        self.clock = MockClock()
        self.timer = FakeTimer(self.clock)
        self.stats = InferStats()
        self.scheduler = DynamicBatchScheduler(
            "m",
            1,
            config,
            services(self.clock, self.timer, stats=self.stats),
            policies=QueuePolicies(dict(enumerate(policies, 1)), QueuePolicy(), len(policies), min(2, len(policies)))
            if policies
            else None,
            preserve_ordering=ordered,
        )
        self.instances = [FakeInstance(f"m_0_{i}") for i in range(instances)]
        for instance in self.instances:
            self.scheduler.instance_ready(instance)
        self.responses: dict[str, list[InferenceResponse]] = {}
        self.requests: dict[str, InferenceRequest] = {}

    def send(self, *names: str, batch: int = 1, timeout_ms: int = 0) -> None:
        for name in names:
            made = InferenceRequest("m", {}, request_id=name, priority="abc".find(name[0]) + 1)
            made.batch_size = batch
            made.timeout = timeout_ms * 1000
            self.requests[name] = made
            self.responses[name] = collect(made)
            self.scheduler.enqueue(made)

    def executed(self, instance: int = 0) -> list[list[str]]:
        return [[r.request_id for r in payload.requests] for payload in self.instances[instance].payloads]

    def finish(self, instance: int = 0) -> None:
        self.instances[instance].finish(self.scheduler)

    def error(self, name: str) -> str:
        (response,) = self.responses[name]
        assert response.error is not None
        return response.error.message

    @property
    def answered(self) -> str:
        return " ".join(name for name, responses in self.responses.items() if responses)


PLAIN = QueuePolicy()
EXPIRED = "Request timeout expired"


def test_higher_priorities_go_first_in_the_same_batch() -> None:  # rule 5.5.8
    bench = Bench(batching(), PLAIN, PLAIN, PLAIN)
    bench.send("hold", "c1", "b1", "a1", "a2")
    bench.finish()
    assert bench.executed() == [["a1", "a2", "b1", "c1"]]


def test_lower_ones_wait_where_the_batch_is_full() -> None:
    bench = Bench(batching(2, (2,)), PLAIN, PLAIN, PLAIN)
    bench.send("hold", "c1", "b1", "a1", "a2")
    batches = []
    while bench.instances[0].payloads:
        batches += bench.executed()
        bench.finish()
    assert batches == [["hold"], ["a1", "a2"], ["b1", "c1"]]


def test_the_delay_is_that_of_the_oldest_wherever_it_stands() -> None:  # measured
    queue = []
    for name, queued in (("a", 30), ("b", 20), ("c", 10)):
        queue.append(InferenceRequest("m", {}, request_id=name))
        queue[-1].queue_start = queued
    config = batching(8, (4,), DELAY)
    assert take_batch(queue, config, 10 + DELAY - 1) == WaitUntil(10 + DELAY)
    assert take_batch(queue, config, 10 + DELAY) == Batch(3, 3, "delay")


def test_a_preferred_size_takes_the_highest() -> None:  # measured
    bench = Bench(batching(8, (4,), DELAY), PLAIN, PLAIN, PLAIN)
    bench.send("c1", "b1", "a1")
    assert bench.executed() == []
    bench.send("a2")
    assert bench.executed() == [["a1", "a2", "b1", "c1"]]


def test_a_higher_priority_that_does_not_fit_goes_alone() -> None:  # measured
    bench = Bench(batching(8, (4,), DELAY), PLAIN, PLAIN, PLAIN)
    bench.send("c1", batch=3)
    bench.send("a1", batch=2)
    assert bench.executed() == [["a1"]]
    bench.finish()
    bench.timer.advance(DELAY)
    assert bench.executed() == [["c1"]]


def test_a_full_queue_refuses_at_once_and_counts_nothing() -> None:  # rule 5.5.9
    bench = Bench(batching(), QueuePolicy(max_size=2))
    bench.send("hold", "x1", "x2")
    with pytest.raises(UnavailableError) as raised:
        bench.send("x3")
    assert raised.value.message == "[request id: x3] Exceeds maximum queue size"
    assert bench.requests["x3"].state is RequestState.INITIALIZED
    bench.finish()
    assert bench.executed() == [["x1", "x2"]]
    assert sum(bench.stats.failures().values()) == 0


def test_timeouts_are_noticed_when_something_could_be_executed() -> None:  # rule 5.5.10
    bench = Bench(batching(), QueuePolicy(timeout=100 * MS))
    bench.send("hold", "x1")
    bench.timer.advance(200 * MS)
    bench.send("x2")
    assert bench.answered == ""
    bench.finish()
    assert bench.executed() == [["x2"]]
    assert bench.error("x1") == EXPIRED
    assert bench.stats.failures()["REJECTED"] == 1


def test_or_while_a_batch_waits_for_its_delay() -> None:  # measured
    bench = Bench(batching(8, (4,), DELAY), QueuePolicy(timeout=100 * MS))
    bench.send("x1")
    bench.timer.advance(100 * MS - 1)
    assert bench.answered == ""
    bench.timer.advance(1)
    assert bench.error("x1") == EXPIRED
    bench.timer.advance(2 * DELAY)
    assert bench.executed() == []


def test_delayed_requests_run_when_nothing_else_is_queued() -> None:  # rule 5.5.9
    bench = Bench(batching(1, (1,)), QueuePolicy(timeout=100 * MS, delay=True))
    bench.send("hold", "x1", "x2")
    bench.timer.advance(150 * MS)
    bench.send("x3")
    batches = []
    while bench.instances[0].payloads:
        batches += bench.executed()
        bench.finish()
    assert batches == [["hold"], ["x3"], ["x1"], ["x2"]]


def test_without_a_batch_dimension_policies_hold_too() -> None:  # rule 5.5.12
    bench = Bench(BatchConfig(0, ranked=True), QueuePolicy(timeout=100 * MS, max_size=2))
    bench.send("hold", "x1")
    bench.timer.advance(150 * MS)
    bench.send("x2")
    with pytest.raises(UnavailableError):
        bench.send("x3")
    bench.finish()
    assert (bench.error("x1"), bench.executed()) == (EXPIRED, [["x2"]])


def test_cancelled_requests_are_dropped_from_any_level() -> None:
    bench = Bench(batching(), PLAIN, PLAIN)
    bench.send("hold", "b1", "a1", "a2")
    for name in ("a1", "b1"):
        bench.requests[name].cancel()
    bench.finish()
    assert bench.executed() == [["a2"]]
    assert bench.answered == "hold b1 a1"
    assert bench.stats.failures()["CANCELED"] == 2


def test_only_cancelled_requests_of_the_batch_are_dropped_none_is_lost() -> None:
    bench = Bench(BatchConfig(1, True, (1,)))
    bench.send("hold", "x1", "x2", "x3")
    for name in ("x1", "x3"):
        bench.requests[name].cancel()
    bench.finish()
    assert bench.executed() == [["x2"]]
    bench.finish()
    assert bench.answered == "hold x1 x2 x3"


def test_a_cancelled_request_that_does_not_fit_closes_no_batch() -> None:  # measured
    bench = Bench(batching())
    bench.send("hold", "x1")
    bench.send("x2", batch=8)
    bench.send("x3")
    bench.requests["x2"].cancel()
    bench.finish()
    assert (bench.executed(), bench.answered) == ([["x1", "x3"]], "hold x2")


def test_without_a_batch_dimension_cancelled_requests_are_dropped_too() -> None:  # measured
    bench = Bench(BatchConfig(0))
    bench.send("hold", "x1", "x2", "x3")
    for name in ("x1", "x2"):
        bench.requests[name].cancel()
    bench.finish()
    assert (bench.executed(), bench.answered) == ([["x3"]], "hold x1 x2")


def test_with_preserved_ordering_responses_leave_as_the_requests_came() -> None:  # rule 5.5.7
    bench = Bench(BatchConfig(1, True, (1,)), instances=2, ordered=True)
    bench.send("slow", "x1", "x2")
    bench.finish(1)
    bench.finish(1)
    assert bench.answered == ""
    bench.finish(0)
    assert bench.answered == "slow x1 x2"


def test_refusals_do_not_wait_for_their_turn() -> None:  # measured
    bench = Bench(BatchConfig(1, True, (1,)), QueuePolicy(timeout=100 * MS), instances=2, ordered=True)
    bench.send("slow", "slow2", "x1")
    bench.timer.advance(150 * MS)
    bench.finish(1)
    assert bench.answered == "x1"
    bench.finish(0)
    assert bench.answered == "slow slow2 x1"


def test_a_refused_request_is_not_waited_for() -> None:
    bench = Bench(BatchConfig(1, True, (1,)), QueuePolicy(max_size=1), ordered=True)
    bench.send("hold", "x1")
    with pytest.raises(UnavailableError):
        bench.send("x2")
    bench.finish()
    bench.send("x3")
    bench.finish()
    bench.finish()
    assert bench.answered == "hold x1 x3"


def test_a_timeout_that_64_bits_do_not_hold_is_over_at_once() -> None:  # measured
    bench = Bench(batching(), QueuePolicy(timeout=((1 << 64) - 1) * 1000, override=True))
    bench.send("x1")
    bench.send("x2", timeout_ms=100)
    assert (bench.error("x1"), bench.executed()) == (EXPIRED, [["x2"]])


# -- a batch that is about to go out


def test_what_expired_on_the_way_to_the_stub_is_refused() -> None:
    short, none, patient = QueuePolicy(timeout=5_000), QueuePolicy(), QueuePolicy(timeout=5_000, delay=True)
    bench = Bench(batching(), short, none, patient)
    bench.send("hold")
    bench.send("a1", "b1", "c1", "a2")
    bench.finish()
    (payload,) = bench.instances[0].payloads
    assert bench.executed() == [["a1", "a2", "b1", "c1"]]
    assert payload.late is not None
    assert payload.late(payload.requests) == []
    bench.clock.advance(5_000)
    late = payload.late(payload.requests)
    assert [request.request_id for request in late] == ["a1", "a2"]
    assert [bench.error(name) for name in ("a1", "a2")] == ["Request timeout expired"] * 2
    assert bench.stats.failures()["REJECTED"] == 2
    assert payload.late([request for request in payload.requests if request not in late]) == []


def test_where_no_timeout_ends_a_request_none_is_checked() -> None:
    for policies in ((), (QueuePolicy(timeout=5_000, delay=True),), (QueuePolicy(max_size=4),)):
        bench = Bench(batching(), *policies)
        bench.send("x")
        (payload,) = bench.instances[0].payloads
        assert payload.late is None
