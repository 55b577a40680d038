"""`SequenceTable`, which has the slot of each sequence, or its place in the backlog. It has no lock and no clock.

first request --- slot free ---> slot --- END taken, or idle: the slot's rest first ---> free
      |                           ^                                                        |
      +------ all taken ------> backlog <---------------- the oldest of it ----------------+
                                  |
                                  +--- its time is up ---> refused
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Container

from ...core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from ...core.status import CancelledError, InvalidArgumentError, TritonError, UnavailableError
from .sequence_backlog import Id, SequenceBacklog
from .sequence_config import SequenceConfig

#: A sequence that became idle in the backlog is checked this long after it got its slot: Triton's period.
_BACKLOG_LOOK = 50_000_000

#: Triton's words.
_CONFLICT = (
    "sequence {} for model '{}' has a conflict. The previous sequence did not end before this sequence start. Previous "
    "sequence will be terminated early."
)

#: Requests that end without an execution, each with its error.
Failures = list[tuple[InferenceRequest, TritonError]]


class Slot:
    """A place for one sequence at one instance. `host` is the instance's index, `number` counts from 0.

    `queue` has the waiting requests. It is `open` while it takes requests of `sequence`. It is `busy` while one of them
    is on its way, if the next must not overtake it.
    """

    __slots__ = ("busy", "host", "last_seen", "number", "open", "queue", "sequence")

    def __init__(self, host: int, number: int) -> None:
        self.host = host
        self.number = number
        self.queue: deque[InferenceRequest] = deque()
        self.sequence: Id | None = None
        self.open = False
        self.busy = False
        self.last_seen = 0

    def __lt__(self, other: Slot) -> bool:
        return self.number < other.number

    def __repr__(self) -> str:
        state = "free" if self.sequence is None else f"sequence {self.sequence!r}{'' if self.open else ' ending'}"
        return f"<Slot {self.host}.{self.number} [{state} | {len(self.queue)} queued{' | busy' if self.busy else ''}]>"


class SequenceTable:
    """The sequences of one model version. Times are nanoseconds, and the caller passes them."""

    def __init__(self, model: str, config: SequenceConfig) -> None:
        self.config = config
        self._model = model
        self._slots: dict[int, list[Slot]] = {}
        #: a heap of the free slots: low numbers first over all instances, which keeps direct batches dense; among equal
        #: numbers a newly freed slot comes last, as in Triton, whose heap also compares only numbers
        self._free: list[Slot] = []
        self._by_id: dict[Id, Slot] = {}
        self.backlog = SequenceBacklog()
        self._next_id = itertools.count(1)

    # -- instances

    def add_host(self, host: int, now: int) -> None:
        """Give the instance `host` its slots; backlogged sequences move in."""
        self._slots[host] = [Slot(host, number) for number in range(self.config.slots)]
        for slot in self._slots[host]:
            self._vacate(slot, now)

    def slots(self, host: int) -> list[Slot]:
        return self._slots[host]

    def abandon(self, host: int, staying: Container[Slot], error: TritonError, now: int) -> Failures:
        """End the sequences of an instance that lost their state; their waiting requests fail with `error`. Sequences
        without an execution stay: their START waits, or they are in the slots `staying`.
        """
        failures: Failures = []
        for slot in self._slots[host]:
            if slot in staying:
                continue
            slot.busy = False
            if slot.sequence is not None and not (slot.queue and slot.queue[0].flags & SEQUENCE_START):
                failures += self.end(slot, error, now)
        return failures

    def remove_host(self, host: int, error: TritonError, now: int) -> Failures:
        """Remove an instance permanently; with the last one the backlog fails too."""
        # its free slots first, so that no sequence moves into the others while they are abandoned
        self._free = [slot for slot in self._free if slot.host != host]
        heapq.heapify(self._free)
        failures: Failures = []
        for slot in self._slots.pop(host):
            failures += [(request, error) for request in slot.queue]
            self._close(slot)
        if not self._slots:
            failures += [(request, error) for request in self.backlog.clear()]
        return failures

    # -- requests

    def waiting(self) -> list[InferenceRequest]:
        """Return the waiting requests: those in slots, then the backlog."""
        in_slots = [request for slots in self._slots.values() for slot in slots for request in slot.queue]
        return in_slots + self.backlog.requests()

    def admit(self, request: InferenceRequest, now: int) -> Slot | None:
        """Queue a request at its sequence's slot, and return the slot, or queue it in the backlog (None).

        Raises InvalidArgumentError (rule 5.6.1). An iterative model's request without an id gets an id and START (rule
        3.9.2).
        """
        _check(request, self._model, self.config.iterative)
        if not request.correlation_id:
            request.correlation_id = next(n for n in self._next_id if n not in self._by_id and n not in self.backlog)
            request.flags |= SEQUENCE_START
        ident = request.correlation_id
        slot = self._by_id.get(ident)
        if slot is None and ident not in self.backlog:
            if not request.flags & SEQUENCE_START:
                raise _no_start(ident, self._model)
            if self._free:
                slot = heapq.heappop(self._free)
                slot.sequence, slot.open = ident, True
                self._by_id[ident] = slot
        if slot is None:
            self.backlog.add(request, now)
            return None
        slot.queue.append(request)
        slot.last_seen = now
        if request.flags & SEQUENCE_END:
            self._close(slot)
        return slot

    def conflict(self, request: InferenceRequest) -> str:
        """Return a warning if the request starts a sequence whose id is in use by an unfinished one (rule 5.6.2); else
        an empty text.
        """
        ident = request.correlation_id
        conflict = request.flags & SEQUENCE_START and (ident in self._by_id or ident in self.backlog)
        return _CONFLICT.format(ident, self._model) if conflict else ""

    def taken(self, slot: Slot, now: int) -> InferenceRequest:
        """Take the slot's first request for execution. A request with END frees the slot for the next sequence; an
        iterative sequence ends only when its request is released.
        """
        request = slot.queue.popleft()
        slot.busy = True
        self._vacate_if_over(slot, now)
        return request

    def back(self, request: InferenceRequest, now: int) -> Slot:
        """Take back a request that the model wants again, without START (rule 3.9.2), and return its slot. Raises
        InvalidArgumentError if its sequence has ended meanwhile; on Triton the client then waits for ever.
        """
        slot = self._by_id.get(request.correlation_id)
        if slot is None:
            raise _no_start(request.correlation_id, self._model)
        request.flags &= ~SEQUENCE_START
        slot.queue.append(request)
        slot.last_seen = now
        slot.busy = False
        return slot

    def done(self, slot: Slot, now: int) -> None:
        """Record that the slot's request was executed and will not return, which ends an iterative sequence."""
        slot.busy = False
        if self.config.iterative:
            self._close(slot)
        self._vacate_if_over(slot, now)

    def drop_cancelled(self, slot: Slot, now: int) -> Failures:
        """End the slot's sequence, and all its waiting requests, if the first of these was cancelled. Requests that
        wait before a cancelled one still run (measured).
        """
        if slot.queue and slot.queue[0].cancelled:
            return self.end(slot, CancelledError(""), now)
        return []

    def end(self, slot: Slot, error: TritonError, now: int) -> Failures:
        """End the slot's sequence; its waiting requests fail with `error`."""
        failures: Failures = [(request, error) for request in slot.queue]
        slot.queue.clear()
        self._close(slot)
        self._vacate_if_over(slot, now)
        return failures

    # -- slots

    def _close(self, slot: Slot) -> None:
        """Take no more requests for the slot's sequence; its id must START again."""
        slot.open = False
        if slot.sequence is not None and self._by_id.get(slot.sequence) is slot:
            del self._by_id[slot.sequence]

    def _vacate_if_over(self, slot: Slot, now: int) -> None:
        waits_for_release = self.config.iterative and slot.busy
        if slot.sequence is not None and not slot.open and not slot.queue and not waits_for_release:
            self._vacate(slot, now)

    def _vacate(self, slot: Slot, now: int) -> None:
        """Give the slot to the oldest backlogged sequence, if any."""
        slot.sequence, slot.open = None, False
        if not self.backlog:
            heapq.heappush(self._free, slot)
            return
        entry, slot.open = self.backlog.pop()
        slot.queue, slot.sequence = entry.queue, entry.sequence
        if slot.open:
            self._by_id[entry.sequence] = slot
        # Triton counts the time in the backlog as idle, and checks at its next period (measured).
        slot.last_seen = max(entry.last_seen, now + _BACKLOG_LOOK - self.config.max_idle)

    # -- time

    def deadline(self) -> int | None:
        """Return the earliest time at which `reap` has work; None if there is none."""
        idle = (slot.last_seen + self.config.max_idle for slot in self._by_id.values())
        return min((*idle, *self.backlog.deadlines()), default=None)

    def reap(self, now: int) -> Failures:
        """End sequences that were idle too long, even while they execute; their waiting requests still run (rule
        5.6.4). Refuse backlogged sequences that timed out (rule 5.6.3), and return their requests.
        """
        for slot in [s for s in self._by_id.values() if s.last_seen + self.config.max_idle <= now]:
            self._close(slot)
            self._vacate_if_over(slot, now)
        error = UnavailableError("timeout of the corresponding sequence has been expired")
        return [(request, error) for request in self.backlog.expire(now)]

    def end_idle(self, now: int) -> None:
        """End the sequences that wait for a request, since none will come, so that the backlog can proceed."""
        if self.config.iterative:
            return  # iterative sequences end by themselves
        self.backlog.close()
        for slot in list(self._by_id.values()):
            self._close(slot)
            self._vacate_if_over(slot, now)

    # -- for people and metrics

    @property
    def queued(self) -> int:
        """The number of requests that wait in slots and backlog."""
        return len(self.waiting())

    @property
    def active(self) -> int:
        """The number of sequences with a slot."""
        return sum(slot.sequence is not None for slots in self._slots.values() for slot in slots)

    @property
    def backlogged(self) -> int:
        """The number of sequences that wait for a slot."""
        return len(self.backlog)


def _check(request: InferenceRequest, model: str, iterative: bool) -> None:
    """Raise InvalidArgumentError for a request that cannot belong to a sequence (rule 5.6.1)."""
    if request.batch_size > 1:
        raise InvalidArgumentError(
            f"inference request to model '{model}' must specify batch-size 1 due to requirements of sequence batcher"
        )
    if not request.correlation_id and not iterative:
        raise InvalidArgumentError(
            f"inference request to model '{model}' must specify a non-zero or non-empty correlation ID"
        )


def _no_start(ident: Id, model: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"inference request for sequence {ident} to model '{model}' must specify the START flag on the first request "
        "of the sequence"
    )
