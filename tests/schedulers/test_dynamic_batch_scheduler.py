from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tritonlab.core.data_type import DataType
from tritonlab.core.infer_request import InferenceRequest, RequestState
from tritonlab.core.infer_response import InferenceResponse
from tritonlab.core.instrument import Instruments
from tritonlab.core.model_config import parse_pbtxt
from tritonlab.core.model_config_rules import autofill
from tritonlab.core.status import CancelledError, ModelError, UnavailableError
from tritonlab.core.tensor import Tensor
from tritonlab.schedulers.dynamic_batch_scheduler import (
    Batch,
    BatchConfig,
    DynamicBatchScheduler,
    Wait,
    take_batch,
)
from tritonlab.testing import MS, FakeInstance, FakeTimer, MockClock, RecordingInstrument, collect

DELAY = 500 * MS


def fp32(*shape: int) -> Tensor:
    return Tensor(DataType.FP32, shape, np.zeros(shape, np.float32))


def request(batch: int = 1, queued: int = 0, request_id: str = "", **inputs: Tensor) -> InferenceRequest:
    made = InferenceRequest("m", inputs, request_id=request_id)
    made.batch_size = batch
    made.queue_start = queued
    return made


def batching(
    max_batch_size: int = 8, preferred: tuple[int, ...] | None = None, delay: int = 0, **more: Any
) -> BatchConfig:
    return BatchConfig(
        max_batch_size=max_batch_size, dynamic=True, preferred=preferred or (max_batch_size,), delay=delay, **more
    )


# -- take_batch


def rounds(sizes: list[int], config: BatchConfig, now: int = 0) -> tuple[list[int], int | None]:
    """Batch sizes that leave at `now` while an instance is always idle, and when the rest would go (None: no rest)."""
    queue = [request(size) for size in sizes]
    left: list[int] = []
    while True:
        decision = take_batch(queue, config, now)
        if not isinstance(decision, Batch):
            return left, decision.until if decision is not None else None
        assert decision.size == sum(r.batch_size for r in queue[: decision.count])
        left.append(decision.size)
        del queue[: decision.count]


def test_an_empty_queue_is_nothing_to_do() -> None:
    assert take_batch([], batching(delay=DELAY), 0) is None
    assert take_batch([], BatchConfig(8), 0) is None


@pytest.mark.parametrize("max_batch_size", [0, 8])
def test_without_dynamic_batching_requests_go_one_by_one(max_batch_size: int) -> None:  # rule 5.5.1
    assert rounds([1, 2, 1], BatchConfig(max_batch_size)) == ([1, 2, 1], None)


@pytest.mark.parametrize(
    ("sizes", "left"),
    [
        ([1], [1]),
        ([1] * 8, [8]),
        ([1] * 9, [8, 1]),
        ([3, 3, 3], [6, 3]),  # never above max_batch_size, never split
        ([8, 1], [8, 1]),
        ([1, 8, 1], [1, 8, 1]),  # first come first served: the last one does not overtake
        ([5, 5], [5, 5]),
    ],
)
def test_without_a_delay_what_is_there_goes(sizes: list[int], left: list[int]) -> None:  # rules 5.5.2, 5.5.3
    assert rounds(sizes, batching()) == (left, None)


@pytest.mark.parametrize(
    ("preferred", "sizes", "at_once", "rest_waits"),
    [
        # measured on Triton, rule 5.5.4: D = 0.5 s, max 8
        ((4,), [1, 1, 1], [], True),
        ((4,), [1] * 4, [4], False),
        ((4,), [1] * 6, [4], True),
        ((4,), [3, 3], [3], True),
        ((4,), [8, 1], [8], True),
        ((4,), [5], [5], False),
        (None, [1] * 8, [8], False),
        (None, [5, 5], [5], True),
        # a larger preferred size that the queue can reach is waited for, one that it has reached goes
        ((2, 4), [1, 1], [2], False),
        ((2, 4), [1] * 4, [4], False),
        ((2, 4), [1] * 5, [4], True),
        ((2, 6), [1] * 5, [2, 2], True),
        ((2, 6), [1] * 7, [6], True),
        # several batches at once
        ((4,), [1] * 9, [4, 4], True),
        # the next one does not fit below max_batch_size: what is there goes though it is not preferred
        ((8,), [3, 3, 3], [6], True),
    ],
)
def test_with_a_delay_preferred_sizes_go_at_once(
    preferred: tuple[int, ...] | None, sizes: list[int], at_once: list[int], rest_waits: bool
) -> None:
    left, until = rounds(sizes, batching(8, preferred, DELAY))
    assert left == at_once
    assert until == (DELAY if rest_waits else None)


def test_the_rest_goes_when_the_oldest_has_waited_long_enough() -> None:  # rule 5.5.4
    config = batching(8, (4,), DELAY)
    queue = [request(1, queued=100), request(1, queued=100 + DELAY // 2), request(1, queued=DELAY)]
    assert take_batch(queue, config, 100 + DELAY - 1) == Wait(100 + DELAY)
    assert take_batch(queue, config, 100 + DELAY) == Batch(3, 3, "delay")
    assert take_batch(queue[1:], config, 100 + DELAY) == Wait(100 + DELAY // 2 + DELAY)


def test_an_expired_batch_takes_all_that_fits_not_only_a_preferred_size() -> None:
    queue = [request(1, queued=0) for _ in range(6)]
    assert take_batch(queue, batching(8, (4,), DELAY), DELAY) == Batch(6, 6, "delay")


@pytest.mark.parametrize(
    ("sizes", "preferred", "reason"),
    [
        ([8], (8,), "full"),
        ([3, 3, 3], (8,), "full"),
        ([4], (4,), "preferred"),
        ([5], (4,), "exceeds preferred"),
        ([3, 3], (4,), "next exceeds preferred"),
    ],
)
def test_a_batch_says_why_it_was_closed(sizes: list[int], preferred: tuple[int, ...], reason: str) -> None:
    decision = take_batch([request(size) for size in sizes], batching(8, preferred, DELAY), 0)
    assert isinstance(decision, Batch)
    assert decision.reason == reason


SHAPED = batching(8, delay=DELAY, equal_shape_inputs=("A",))


def test_other_shapes_close_the_batch_at_once() -> None:  # rule 5.5.5
    queue = [request(A=fp32(1, 3)), request(A=fp32(1, 3)), request(A=fp32(1, 4))]
    assert take_batch(queue, SHAPED, 0) == Batch(2, 2, "shape")
    assert take_batch(queue[2:], SHAPED, 0) == Wait(DELAY)


def test_the_batch_dimension_is_no_difference_in_shape() -> None:
    queue = [request(1, A=fp32(1, 3)), request(2, A=fp32(2, 3))]
    assert take_batch(queue, SHAPED, DELAY) == Batch(2, 3, "delay")


def test_a_preferred_size_that_was_reached_wins_over_a_later_mismatch() -> None:
    config = batching(8, (2,), DELAY, equal_shape_inputs=("A",))
    queue = [request(A=fp32(1, 3)), request(A=fp32(1, 3)), request(A=fp32(1, 3)), request(A=fp32(1, 4))]
    assert take_batch(queue, config, 0) == Batch(2, 2, "preferred")


def test_ragged_inputs_may_differ() -> None:  # rule 5.5.5: only inputs without allow_ragged_batch are compared
    queue = [request(A=fp32(1, 3), R=fp32(1, 3)), request(A=fp32(1, 3), R=fp32(1, 7))]
    assert take_batch(queue, SHAPED, DELAY) == Batch(2, 2, "delay")


def test_only_requests_with_the_same_inputs_are_batched() -> None:  # rule 5.5.6
    config = batching(8, delay=DELAY, optional_inputs=True)
    queue = [request(A=fp32(1, 3)), request(A=fp32(1, 3), B=fp32(1, 3)), request(A=fp32(1, 3))]
    assert take_batch(queue, config, 0) == Batch(1, 1, "optional inputs")


# -- BatchConfig.of


def config_of(text: str) -> BatchConfig:
    return BatchConfig.of(autofill(parse_pbtxt(text, "config.pbtxt"), model_name="m", files=["model.py"]))


def test_a_model_without_dynamic_batching_has_none() -> None:
    assert config_of("max_batch_size: 8") == BatchConfig(8)


def test_dynamic_batching_needs_a_batch_dimension() -> None:  # rule 5.5.12
    assert config_of("dynamic_batching { max_queue_delay_microseconds: 100 }") == BatchConfig(0)


def test_the_rules_of_a_batching_model() -> None:
    config = config_of(
        """
        max_batch_size: 8
        dynamic_batching { preferred_batch_size: [ 4, 2, 4 ] max_queue_delay_microseconds: 100 }
        input { name: "VARIABLE" data_type: TYPE_FP32 dims: [ -1 ] }
        input { name: "RAGGED" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }
        input { name: "FIXED" data_type: TYPE_FP32 dims: [ 3 ] optional: true }
        """
    )
    assert config == BatchConfig(8, True, (2, 4), 100_000, ("VARIABLE",), True)
    assert config_of("max_batch_size: 8 dynamic_batching { }").preferred == (8,)  # rule 5.1.3


# -- the shell


class Bench:
    """A scheduler with fake instances, and time that stands still."""

    def __init__(self, config: BatchConfig, instances: int = 1) -> None:
        self.clock = MockClock()
        self.timer = FakeTimer(self.clock)
        self.events = RecordingInstrument()
        instruments = Instruments()
        instruments.add(self.events)
        self.scheduler = DynamicBatchScheduler("m", 1, config, self.clock, instruments, self.timer)
        self.instances = [FakeInstance(f"m_0_{i}") for i in range(instances)]
        for instance in self.instances:
            self.scheduler.instance_ready(instance)
        self.instance = self.instances[0] if self.instances else FakeInstance()
        self.responses: dict[str, list[InferenceResponse]] = {}
        self.requests: dict[str, InferenceRequest] = {}

    def send(self, *names: str, batch: int = 1) -> None:
        for name in names:
            made = request(batch, request_id=name)
            self.requests[name] = made
            self.responses[name] = collect(made)
            self.scheduler.enqueue(made)

    def executed(self, instance: FakeInstance | None = None) -> list[list[str]]:
        return [[r.request_id for r in payload.requests] for payload in (instance or self.instance).payloads]

    @property
    def reasons(self) -> list[str]:
        return [event[4] for event in self.events.named("batch_formed")]


def test_an_idle_instance_gets_the_request_on_the_callers_thread() -> None:
    bench = Bench(BatchConfig(0))
    bench.send("a")
    assert bench.executed() == [["a"]]
    assert bench.requests["a"].state is RequestState.EXECUTING


def test_what_arrives_meanwhile_forms_the_next_batch() -> None:  # rule 5.5.3: 1, then 8, then 1 of ten requests
    bench = Bench(batching())
    bench.send(*"abcdefghij")
    sizes = []
    while bench.instance.payloads:
        sizes.append(bench.instance.finish(bench.scheduler).size)
    assert sizes == [1, 8, 1]
    assert all(responses[0].final for responses in bench.responses.values())


def test_the_next_batch_executes_before_the_last_responses_go_out() -> None:
    bench = Bench(BatchConfig(0))
    bench.send("a", "b")
    seen: list[list[list[str]]] = []
    bench.requests["a"].on_response = lambda request, response: seen.append(bench.executed())
    bench.instance.finish(bench.scheduler)
    assert seen == [[["b"]]]


def test_a_delayed_batch_leaves_when_the_time_has_come() -> None:
    bench = Bench(batching(8, (4,), DELAY))
    bench.send("a", "b")
    bench.timer.advance(DELAY // 2)
    bench.send("c")
    bench.timer.advance(DELAY // 2 - 1)
    assert bench.executed() == []
    bench.timer.advance(1)
    assert bench.executed() == [["a", "b", "c"]]
    assert bench.reasons == ["delay"]


def test_a_delayed_batch_leaves_early_when_it_is_full() -> None:
    bench = Bench(batching(8, (4,), DELAY))
    bench.send("a", "b", "c")
    assert bench.executed() == []
    bench.send("d")
    assert bench.executed() == [["a", "b", "c", "d"]]
    bench.timer.advance(2 * DELAY)  # the deadline of a batch that has left does no harm
    assert bench.executed() == [["a", "b", "c", "d"]]


def test_a_delay_that_ends_while_all_are_busy_is_made_up_for() -> None:
    bench = Bench(batching(8, (4,), DELAY))
    bench.send("a", "b", "c", "d", "e")
    bench.timer.advance(2 * DELAY)
    assert bench.executed() == [["a", "b", "c", "d"]]
    bench.instance.finish(bench.scheduler)
    assert bench.executed() == [["e"]]


def test_each_deadline_is_asked_for_once() -> None:
    bench = Bench(batching(8, (4,), DELAY))
    bench.send("a", "b", "c")
    assert bench.timer.deadlines == [DELAY]


def test_several_instances_share_the_queue() -> None:  # rule 5.10.1
    bench = Bench(batching(2), instances=2)
    bench.send("a", "b", "c", "d", "e")
    first, second = bench.instances
    assert bench.executed(first) == [["a"]]
    assert bench.executed(second) == [["b"]]
    second.finish(bench.scheduler)
    assert bench.executed(second) == [["c", "d"]]


@pytest.mark.parametrize("config", [batching(), BatchConfig(8)], ids=["dynamic", "default"])
def test_cancelled_requests(config: BatchConfig) -> None:  # rule 3.10.2
    bench = Bench(config)
    bench.send("a", "b", "c")
    bench.requests["b"].cancel()
    bench.instance.finish(bench.scheduler)
    if config.dynamic:
        (response,) = bench.responses["b"]
        assert isinstance(response.error, CancelledError)
        assert response.final
        assert bench.executed() == [["c"]]
        assert bench.requests["b"].state is RequestState.RELEASED
        assert bench.events.named("response_sent") == [(bench.requests["b"], response, bench.clock.now())]
        assert bench.events.named("request_released") == [(bench.requests["b"], bench.clock.now())]
    else:  # a model without a scheduler queue executes it all the same
        assert bench.executed() == [["b"]]
        assert bench.responses["b"] == []


def test_a_request_that_executes_is_not_cancelled_by_the_scheduler() -> None:
    bench = Bench(batching())
    bench.send("a")
    bench.requests["a"].cancel()
    bench.send("b")
    assert bench.executed() == [["a"]]
    assert bench.responses["a"] == []


def test_after_stop_new_requests_are_refused() -> None:
    bench = Bench(BatchConfig(0))
    bench.scheduler.stop()
    text = "Server is stopping, scheduler for model has stopped accepting new inference requests"
    with pytest.raises(UnavailableError, match=re.escape(text)):
        bench.send("a")
    assert bench.requests["a"].state is RequestState.INITIALIZED  # so it may go to the version that took over


def test_the_last_instance_takes_the_waiting_requests_with_it() -> None:
    bench = Bench(BatchConfig(0), instances=2)
    bench.send("a", "b", "c")
    gone = ModelError("Stub process 'm_0_0' is not healthy.", reason="signal SIGSEGV")
    bench.scheduler.instance_gone(bench.instances[0], gone)
    assert bench.responses["c"] == []  # the other instance will take it
    bench.scheduler.instance_gone(bench.instances[1], gone)
    (response,) = bench.responses["c"]
    assert isinstance(response.error, ModelError)
    assert (response.error.message, response.error.reason) == (gone.message, gone.reason)
    assert response.error is not gone  # each request has its own
    with pytest.raises(ModelError) as raised:
        bench.send("d")
    assert raised.value.message == "Stub process 'm_0_0' is not healthy."
    assert raised.value.reason == "signal SIGSEGV"
    assert raised.value is not gone  # an exception that is raised twice would show the first caller's frames


def test_an_instance_that_is_gone_gets_nothing() -> None:
    bench = Bench(BatchConfig(0), instances=2)
    bench.scheduler.instance_gone(bench.instances[0], ModelError("gone"))
    bench.send("a", "b")
    assert bench.executed(bench.instances[0]) == []
    assert bench.executed(bench.instances[1]) == [["a"]]


def test_hooks_see_the_queue_and_the_batch() -> None:
    bench = Bench(batching(8, (4,), DELAY))
    bench.clock.advance(7)
    bench.send("a", "b", "c", "d")
    assert [(r.request_id, now) for r, now in bench.events.named("request_queued")] == [(n, 7) for n in "abcd"]
    ((model, version, requests, size, reason, now),) = bench.events.named("batch_formed")
    assert (model, version, [r.request_id for r in requests]) == ("m", 1, list("abcd"))
    assert (size, reason, now) == (4, "preferred", 7)


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda bench: bench.send("a"), "<DynamicBatchScheduler m/1 [0 queued | 1 busy | delay 100us]>"),
        (lambda bench: bench.send("a", "b", "c"), "<DynamicBatchScheduler m/1 [2 queued | 1 busy | delay 100us]>"),
        (lambda bench: None, "<DynamicBatchScheduler m/1 [0 queued | 0 busy | delay 100us]>"),
    ],
)
def test_repr_tells_the_state(act: Callable[[Bench], None], text: str) -> None:
    bench = Bench(batching(1, delay=100_000))
    act(bench)
    assert repr(bench.scheduler) == text


def test_a_request_that_waits_can_be_taken_out() -> None:
    bench = Bench(BatchConfig())
    bench.send("a", "b", "c")
    waiting = [r.request_id for r in bench.scheduler.waiting()]
    assert waiting == ["b", "c"]
    assert bench.scheduler.withdraw(bench.requests["b"])
    assert not bench.scheduler.withdraw(bench.requests["b"])
    assert not bench.scheduler.withdraw(bench.requests["a"])  # it executes
    assert bench.responses["b"] == []  # whoever took it out answers it
    assert [r.request_id for r in bench.scheduler.waiting()] == ["c"]
