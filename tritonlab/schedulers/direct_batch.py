"""The direct strategy decides which slots of an instance go into its next batch (rule 5.6.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .dynamic_batch import WaitUntil, batch_key
from .sequence_config import SequenceConfig
from .sequence_table import Slot

#: Slots are counted, the configured utilization is a float: Triton's tolerance.
_EPSILON = 1e-4


@dataclass(frozen=True)
class SlotBatch:
    """The first request of each slot in `numbers` goes now, in a batch of `size` positions; what is between them is
    filled with null requests."""

    numbers: tuple[int, ...]
    size: int
    reason: str


def take_slots(slots: Sequence[Slot], config: SequenceConfig, now: int) -> SlotBatch | WaitUntil | None:
    """What an idle instance should do with its slots; None if no request waits.

    The first request decides the shapes: a slot whose request does not fit waits for the next batch.
    """
    ready = [slot for slot in slots if slot.queue]
    if not ready:
        return None
    reason = "no delay"
    if config.delay:
        until = min(slot.queue[0].queue_start for slot in ready) + config.delay
        if len(ready) + _EPSILON >= config.minimum_ready:
            reason = "slot utilization"
        elif now >= until:
            reason = "delay"
        else:
            return WaitUntil(until)
    batch = config.batch
    if batch.equal_shape_inputs or batch.optional_inputs:
        key = batch_key(ready[0].queue[0], batch)
        numbers = tuple(slot.number for slot in ready if batch_key(slot.queue[0], batch) == key)
    else:
        numbers = tuple(slot.number for slot in ready)
    # up to the last slot with a request, fitting or not: measured
    return SlotBatch(numbers, ready[-1].number + 1, reason)
