from __future__ import annotations

import numpy as np
import pytest

from tests.engine.schedulers.batching import batching
from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.config.model_config_rules import autofill
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.engine.schedulers.dynamic_batch import Batch, BatchConfig, WaitUntil, take_batch
from tritonlab.testing import MS

DELAY = 500 * MS


def fp32(*shape: int) -> Tensor:
    return Tensor(DataType.FP32, shape, np.zeros(shape, np.float32))


def request(batch: int = 1, queued: int = 0, request_id: str = "", **inputs: Tensor) -> InferenceRequest:
    made = InferenceRequest("m", inputs, request_id=request_id)
    made.batch_size = batch
    made.queue_start = queued
    return made


def rounds(sizes: list[int], config: BatchConfig, now: int = 0) -> tuple[list[int], int | None]:
    """Return the sizes of the batches that leave at `now` if an instance is always idle, and when the rest goes."""
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
    assert take_batch(queue, config, 100 + DELAY - 1) == WaitUntil(100 + DELAY)
    assert take_batch(queue, config, 100 + DELAY) == Batch(3, 3, "delay")
    assert take_batch(queue[1:], config, 100 + DELAY) == WaitUntil(100 + DELAY // 2 + DELAY)


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
    assert take_batch(queue[2:], SHAPED, 0) == WaitUntil(DELAY)


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


# -- BatchConfig.from_config


def config_of(text: str) -> BatchConfig:
    return BatchConfig.from_config(autofill(parse_pbtxt(text, "config.pbtxt"), model_name="m", files=["model.py"]))


def test_a_model_without_dynamic_batching_has_none() -> None:
    assert config_of("max_batch_size: 8") == BatchConfig(8, keeps_cancelled=True)


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
