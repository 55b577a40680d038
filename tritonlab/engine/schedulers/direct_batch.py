"""The direct strategy: which slots of an instance go into its next batch (rule 5.6.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .dynamic_batch import WaitUntil, batch_key
from .sequence_config import SequenceConfig
from .sequence_table import Slot

#: Triton's tolerance when it compares the share of used slots with the configured utilization, a float.
_EPSILON = 1e-4


@dataclass(frozen=True)
class SlotBatch:
    """A decision: the first request of each slot in `numbers` goes now, in a batch of `size` positions. Null requests
    fill the other positions.
    """

    numbers: tuple[int, ...]
    size: int
    reason: str


def take_slots(slots: Sequence[Slot], config: SequenceConfig, now: int) -> SlotBatch | WaitUntil | None:
    """Return what an idle instance should do with its slots now; None if no request waits.

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
    # The batch extends to the last slot with a request, even if that does not fit (measured).
    return SlotBatch(numbers, ready[-1].number + 1, reason)
