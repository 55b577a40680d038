"""The occupancy of a sequence batcher says which sequence has which slot now, and which wait for one."""

from __future__ import annotations

from typing import NamedTuple

from .sequence_backlog import Id


class SlotUse(NamedTuple):
    """Is a slot that has a sequence. `queued`: its requests that wait; `idle_left`: nanoseconds until the sequence
    ends if no request comes, None if it takes none any more."""

    number: int
    sequence: Id
    queued: int
    executing: bool
    idle_left: int | None


class WaitingSequence(NamedTuple):
    """Is a sequence without a slot, with how many requests it has, and how many nanoseconds it has waited."""

    sequence: Id
    queued: int
    waited: int


class Occupancy(NamedTuple):
    """Holds what all instances have: `slots` is how many each has, of which `instances` lists those that are taken."""

    slots: int
    max_idle: int
    instances: list[tuple[str, list[SlotUse]]]
    backlog: list[WaitingSequence]
