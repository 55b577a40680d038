from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from tests.engine.schedulers.batching import services
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.observe.instrument import Instrument, Instruments
from tritonlab.engine.schedulers.dynamic_batch import BatchConfig
from tritonlab.engine.schedulers.dynamic_batch_scheduler import DynamicBatchScheduler
from tritonlab.engine.schedulers.policy_queue import QueuePolicies
from tritonlab.engine.schedulers.why_apart import BatchPlace, FormedBatch, why_apart
from tritonlab.testing import MS, FakeInstance, FakeTimer, MockClock

DELAY = 100 * MS


class Places(Instrument):
    """An instrument with the place of each request in its batch."""

    def __init__(self) -> None:
        self.of: dict[str, BatchPlace] = {}
        self._numbers = itertools.count(1)

    def batch_formed(
        self, model: str, version: int, requests: Sequence[InferenceRequest], size: int, reason: str, now: int
    ) -> None:
        batch = FormedBatch(model, version, next(self._numbers), now, size, reason)
        for each in requests:
            shapes = {name: tensor.shape[1:] for name, tensor in each.inputs.items()}
            place = (each.queue_start, each.batch_size, each.priority, each.correlation_id, shapes)
            self.of[each.request_id] = BatchPlace(f"'{each.request_id}'", batch, *place)


class Bench:
    """A real scheduler with a fake instance."""

    def __init__(self, config: BatchConfig, levels: int = 0) -> None:
        self.config = config
        self.clock = MockClock()
        self.timer = FakeTimer(self.clock)
        instruments = Instruments()
        self.places = Places()
        instruments.add(self.places)
        policies = QueuePolicies(count=levels, default_level=levels) if levels else None
        shared = services(self.clock, self.timer, instruments=instruments)
        self.scheduler = DynamicBatchScheduler("m", 1, config, shared, policies=policies)
        self.instance = FakeInstance()
        self.scheduler.instance_ready(self.instance)
        self.requests: dict[str, InferenceRequest] = {}

    def send(self, name: str, size: int = 1, priority: int = 0, **widths: int) -> None:
        inputs = {n: Tensor.from_numpy(np.zeros((size, width), np.float32)) for n, width in widths.items()}
        made = InferenceRequest("m", inputs, request_id=name, priority=priority)
        made.batch_size = size
        self.requests[name] = made
        self.scheduler.enqueue(made)

    def run(self) -> None:
        while self.instance.payloads:
            self.instance.finish(self.scheduler)

    def why(self, one: str, other: str) -> str:
        places = self.places.of
        answers = {why_apart(places[a], places[b], self.config) for a, b in ((one, other), (other, one))}
        (answer,) = answers  # the order of the questions does not matter
        return answer


def batching(max_batch_size: int = 4, delay: int = 0, **more: object) -> BatchConfig:
    return BatchConfig(max_batch_size, True, (max_batch_size,), delay, **more)  # type: ignore[arg-type]


def test_together() -> None:
    bench = Bench(batching(delay=DELAY))
    bench.send("a")
    bench.clock.advance(1)
    bench.send("b")
    bench.timer.advance(DELAY)
    assert bench.why("a", "b") == "'a' and 'b' did share a batch."


def test_no_batcher() -> None:
    bench = Bench(BatchConfig(4))
    for name in "ab":
        bench.send(name)
    bench.run()
    assert bench.why("a", "b") == "Model 'm' has no dynamic_batching: every request is executed alone."


def test_too_late() -> None:
    bench = Bench(batching())
    bench.send("a")
    bench.clock.advance(3 * MS)
    bench.send("b")
    bench.run()
    assert bench.why("a", "b") == (
        "'b' came 3 ms after the batch of 'a' had left; that left at once: no delay is configured."
    )


def test_too_late_for_the_delay() -> None:
    bench = Bench(batching(delay=DELAY))
    bench.send("a")
    bench.timer.advance(DELAY + 1500)
    bench.send("b")
    bench.timer.advance(2 * DELAY)
    bench.run()
    assert bench.why("a", "b") == (
        "'b' came 0.0015 ms after the batch of 'a' had left; that left when its oldest request had waited for the "
        "whole delay."
    )


def test_full() -> None:
    bench = Bench(batching())
    bench.send("hold")
    bench.send("a", 3)
    bench.send("b", 2)
    bench.run()
    assert bench.why("a", "b") == "The batch of 'a' was full: 3 + 2 is more than max_batch_size 4."


def test_shape() -> None:
    bench = Bench(batching(delay=DELAY, equal_shape_inputs=("IN",)))
    bench.send("a", IN=2)
    bench.send("b", IN=3)
    bench.timer.advance(DELAY)
    bench.run()
    assert bench.why("a", "b") == (
        "Input 'IN' is [2] in 'a' and [3] in 'b'; allow_ragged_batch would let them share a batch."
    )


def test_a_shape_between_them() -> None:
    bench = Bench(batching(delay=DELAY, equal_shape_inputs=("IN",)))
    for name, width in (("a", 2), ("b", 3), ("c", 2)):
        bench.send(name, IN=width)
    bench.timer.advance(DELAY)
    bench.run()
    assert bench.why("a", "c") in (
        "The batch of 'a' was closed by a request of another shape that stood between them.",
        "'c' came 0 ms after the batch of 'a' had left; that was closed by a request of another shape that stood "
        "between them.",
    )


def test_optional_inputs() -> None:
    bench = Bench(batching(delay=DELAY, optional_inputs=True))
    bench.send("a", IN=2)
    bench.send("b", IN=2, MORE=1)
    bench.timer.advance(DELAY)
    bench.run()
    assert bench.why("a", "b") == "Only 'b' has the optional input 'MORE'."


def test_preferred_size() -> None:
    bench = Bench(BatchConfig(8, True, (2,), DELAY))
    bench.send("hold", 2)
    for name in "abc":
        bench.send(name)
    bench.run()
    bench.timer.advance(DELAY)
    assert bench.why("a", "c") == "The batch of 'a' had a preferred size and left with it."


def test_priority() -> None:
    bench = Bench(BatchConfig(8, True, (1,), DELAY, ranked=True), levels=2)
    bench.send("hold")
    bench.send("low", priority=2)
    bench.send("high", priority=1)
    bench.run()
    assert bench.why("low", "high") == (
        "'low' has priority 2, 'high' 1: the batch of 'high' had a preferred size and left with it."
    )


def test_one_sequence() -> None:
    bench = Bench(batching(1))
    for name in ("hold", "a", "b"):
        bench.send(name)
        bench.requests[name].correlation_id = 7
    bench.run()
    assert bench.why("a", "b") == "'a' and 'b' are of one sequence, whose requests are executed one after the other."


@pytest.mark.parametrize(
    "reason",
    [
        "full",
        "preferred",
        "next exceeds preferred",
        "exceeds preferred",
        "delay",
        "no delay",
        "shape",
        "optional inputs",
        "slot utilization",
    ],
)
def test_every_reason_to_close_a_batch_has_words(reason: str) -> None:
    batches = [FormedBatch("m", 1, number, number * MS, 1, reason) for number in (1, 2)]
    one = BatchPlace("'a'", batches[0], queued=0, size=1, priority=0, sequence=0, shapes={})
    other = BatchPlace("'b'", batches[1], queued=2 * MS, size=1, priority=0, sequence=0, shapes={})
    sentence = why_apart(one, other, batching())
    assert sentence.startswith("'b' came 1 ms after the batch of 'a' had left; that ")
    assert not sentence.endswith(f"that {reason}.")
