from __future__ import annotations

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.engine.schedulers.dynamic_batch import BatchConfig, WaitUntil
from tritonlab.engine.schedulers.sequence_config import SequenceConfig
from tritonlab.engine.schedulers.sequence_hosts import SlotBatch, take_slots
from tritonlab.engine.schedulers.sequence_table import Slot
from tritonlab.testing import MS

DELAY = 500 * MS


def request(width: int = 1, queued: int = 0, more: bool = False) -> InferenceRequest:
    names = ["IN", "MORE"] if more else ["IN"]
    made = InferenceRequest(
        "m", {n: Tensor(DataType.FP32, (1, width), np.zeros((1, width), np.float32)) for n in names}
    )
    made.queue_start = queued
    return made


def slots(*waiting: InferenceRequest | None) -> list[Slot]:
    """Return one slot for each, with a request or without."""
    made = [Slot(0, number) for number in range(len(waiting))]
    for slot, one in zip(made, waiting, strict=True):
        if one is not None:
            slot.queue.append(one)
    return made


CONFIG = SequenceConfig(slots=4)


def test_without_a_request_there_is_nothing_to_do() -> None:
    assert take_slots(slots(None, None), CONFIG, 0) is None


@pytest.mark.parametrize(
    ("ready", "numbers", "size"),
    [("x...", (0,), 1), (".x..", (1,), 2), ("x..x", (0, 3), 4), (".x.x", (1, 3), 4), ("xxxx", (0, 1, 2, 3), 4)],
)
def test_every_request_stands_at_its_slot(ready: str, numbers: tuple[int, ...], size: int) -> None:  # rule 5.6.7
    waiting = slots(*[request() if mark == "x" else None for mark in ready])
    assert take_slots(waiting, CONFIG, 0) == SlotBatch(numbers, size, "no delay")


PATIENT = SequenceConfig(slots=4, minimum_ready=0.75 * 4, delay=DELAY)


def test_a_batch_waits_until_enough_slots_have_requests() -> None:  # rule 5.6.7
    assert take_slots(slots(request(queued=7), None, request(queued=9), None), PATIENT, 10) == WaitUntil(7 + DELAY)
    three = slots(request(), None, request(), request())
    assert take_slots(three, PATIENT, 0) == SlotBatch((0, 2, 3), 4, "slot utilization")


def test_or_until_the_oldest_has_waited_long_enough() -> None:
    waiting = slots(request(queued=9), request(queued=7), None, None)
    assert take_slots(waiting, PATIENT, 7 + DELAY - 1) == WaitUntil(7 + DELAY)
    assert take_slots(waiting, PATIENT, 7 + DELAY) == SlotBatch((0, 1), 2, "delay")


def test_a_utilization_that_is_no_binary_fraction_is_reached() -> None:
    third = SequenceConfig(slots=3, minimum_ready=np.float32(1 / 3) * 3, delay=DELAY)
    assert take_slots(slots(request(), None, None), third, 0) == SlotBatch((0,), 1, "slot utilization")


SHAPED = SequenceConfig(slots=4, batch=BatchConfig(4, True, (4,), 0, ("IN",), True))


def test_another_shape_waits_at_its_slot() -> None:  # measured
    waiting = slots(request(3), request(2), request(2), request(3))
    assert take_slots(waiting, SHAPED, 0) == SlotBatch((0, 3), 4, "no delay")


def test_the_batch_reaches_to_the_last_request_whether_it_fits_or_not() -> None:  # measured
    assert take_slots(slots(request(3), request(2), request(2), None), SHAPED, 0) == SlotBatch((0,), 3, "no delay")


def test_so_does_one_with_other_inputs() -> None:
    assert take_slots(slots(request(), request(more=True)), SHAPED, 0) == SlotBatch((0,), 2, "no delay")
