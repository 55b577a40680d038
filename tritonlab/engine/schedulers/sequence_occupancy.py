"""The occupancy of a sequence batcher: the slot of each sequence, and the waiting sequences."""

from __future__ import annotations

from typing import NamedTuple

from .sequence_backlog import Id


class SlotUse(NamedTuple):
    """A slot with a sequence. `queued`: its waiting requests; `idle_left`: nanoseconds until the sequence ends if no
    request arrives, None if it takes no more.
    """

    number: int
    sequence: Id
    queued: int
    executing: bool
    idle_left: int | None


class WaitingSequence(NamedTuple):
    """A sequence without a slot, the number of its requests, and its nanoseconds of waiting."""

    sequence: Id
    queued: int
    waited: int


class Occupancy(NamedTuple):
    """The occupancy of all instances: `slots` is the number per instance, `instances` lists the occupied ones."""

    slots: int
    max_idle: int
    instances: list[tuple[str, list[SlotUse]]]
    backlog: list[WaitingSequence]
