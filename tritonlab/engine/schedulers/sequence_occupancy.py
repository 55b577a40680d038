"""The occupancy of a sequence batcher: which sequence has which slot now, and which wait for one."""

from __future__ import annotations

from typing import NamedTuple

from .sequence_backlog import Id


class SlotUse(NamedTuple):
    """A slot that has a sequence. `queued`: its waiting requests; `idle_left`: nanoseconds until the sequence ends if
    no request comes, None if it no longer takes any.
    """

    number: int
    sequence: Id
    queued: int
    executing: bool
    idle_left: int | None


class WaitingSequence(NamedTuple):
    """A sequence without a slot, with the number of its requests, and how many nanoseconds it has waited."""

    sequence: Id
    queued: int
    waited: int


class Occupancy(NamedTuple):
    """The occupancy of all instances: `slots` is how many each has, `instances` lists those that are taken."""

    slots: int
    max_idle: int
    instances: list[tuple[str, list[SlotUse]]]
    backlog: list[WaitingSequence]
