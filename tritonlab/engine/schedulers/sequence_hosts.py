"""`SequenceHosts`, the decision on the next requests that the sequence batcher's instances get from their slots.

This module has no clock, no lock and no effects: `SequenceWork` collects the decisions, and `SequenceBatchScheduler`
carries them out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ...core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from ...core.status import CancelledError, TritonError
from ..execution.payload import Payload
from .dynamic_batch import Batch, WaitUntil, batch_key, take_batch
from .response_order import ResponseOrder
from .scheduler import Instance
from .sequence_config import SequenceConfig
from .sequence_inputs import SequenceInputs
from .sequence_occupancy import Occupancy, SlotUse, WaitingSequence
from .sequence_table import Failures, SequenceTable, Slot

#: Triton's tolerance when it compares the share of used slots with the configured utilization, a float.
_EPSILON = 1e-4


@dataclass(frozen=True)
class SlotBatch:
    """A decision: the first request of each slot in `numbers` goes now, in a batch of `size` positions. Null requests
    fill the remaining positions.
    """

    numbers: tuple[int, ...]
    size: int
    reason: str


_D = TypeVar("_D", Batch, SlotBatch)


class Candidate:
    """A sequence's next request in the oldest strategy's dynamic batcher. `queue_start`: its time of arrival there."""

    __slots__ = ("batch_size", "inputs", "queue_start", "request", "slot")

    def __init__(self, slot: Slot, request: InferenceRequest, now: int) -> None:
        self.slot = slot
        self.request = request
        self.batch_size = request.batch_size
        self.inputs = request.inputs
        self.queue_start = now


class SequenceHost:
    """One instance: its readiness for a payload, its current execution, and its waiting candidates."""

    def __init__(self, index: int, instance: Instance, order: ResponseOrder | None) -> None:
        self.index = index
        self.instance = instance
        self.idle = False
        self.away = False
        self.executing: dict[int, Slot] = {}  # by serial of the request
        self.candidates: deque[Candidate] = deque()
        self.order = order


@dataclass
class SequenceWork:
    """The work of a decision, done after the lock is released, and the time of the next look."""

    payloads: list[tuple[Instance, Payload]] = field(default_factory=list)
    failures: Failures = field(default_factory=list)
    wake_at: int | None = None

    def wake_by(self, when: int | None) -> None:
        if when is not None and (self.wake_at is None or when < self.wake_at):
            self.wake_at = when


class SequenceHosts:
    """The instances of a sequence batcher, by the index in the slots of `table`. `admitted` returns whether an instance
    has the resources for a payload; if not, they are offered later.

    `take_slots` (direct) and `take_batch` (oldest) choose the requests of a payload.
    """

    def __init__(
        self,
        table: SequenceTable,
        config: SequenceConfig,
        inputs: SequenceInputs,
        admitted: Callable[[Instance], bool] | None,
    ) -> None:
        self._table = table
        self._config = config
        self._inputs = inputs
        self._admitted = admitted
        self._hosts: dict[int, SequenceHost] = {}
        self._next_index = 0

    def __bool__(self) -> bool:
        return bool(self._hosts)

    def clear(self) -> None:
        self._hosts.clear()

    def find(self, instance: Instance) -> SequenceHost | None:
        return next((host for host in self._hosts.values() if host.instance is instance), None)

    @property
    def queued(self) -> int:
        """Return the number of waiting requests."""
        return self._table.queued + sum(len(host.candidates) for host in self._hosts.values())

    def waiting(self) -> list[InferenceRequest]:
        """Return the waiting requests: candidates first, then those in slots, then the backlog."""
        candidates = [candidate.request for host in self._hosts.values() for candidate in host.candidates]
        return candidates + self._table.waiting()

    def held_back(self) -> list[list[InferenceRequest]]:
        """Return, per instance, the request whose turn to be answered it is, and the requests that wait for it."""
        orders = (host.order for host in self._hosts.values() if host.order is not None)
        return [found for order in orders if (found := order.held_back())]

    @property
    def has_idle(self) -> bool:
        """Return whether an idle instance has requests to execute."""
        hosts = [host for host in self._hosts.values() if host.idle]
        return any(host.candidates or any(slot.queue for slot in self._table.slots(host.index)) for host in hosts)

    @property
    def settled(self) -> bool:
        """Return whether no request waits and none executes."""
        return not self._hosts or (not self.queued and all(h.idle or h.away for h in self._hosts.values()))

    def occupancy(self, now: int) -> Occupancy:
        """Return the current slot of each sequence."""
        table, idle = self._table, self._config.max_idle
        backlog = [
            WaitingSequence(one.sequence, len(one.queue), now - one.queue[0].queue_start) for one in table.backlog
        ]
        instances = [
            (host.instance.name, _uses(host, table.slots(host.index), now - idle)) for host in self._hosts.values()
        ]
        return Occupancy(self._config.slots, idle, instances, backlog)

    # -- arrival, execution and end of instances

    def add(self, instance: Instance, now: int, work: SequenceWork) -> None:
        """Add an instance, with slots of its own."""
        host = SequenceHost(self._next_index, instance, ResponseOrder() if self._config.preserve_ordering else None)
        self._next_index += 1
        self._hosts[host.index] = host
        self._table.add_host(host.index, now)
        self._nominate_all(host, now, work)

    def idle(self, host: SequenceHost, now: int) -> SequenceWork:
        """Send the next requests of the sequences in the payload that `host` has executed."""
        work = SequenceWork()
        host.idle, host.away = True, False
        executed = list(host.executing.values())
        host.executing.clear()
        for slot in executed:
            self._table.done(slot, now)
            self._nominate(slot, now, work)
        self._fill(host, now, work)
        return work

    def lost(self, host: SequenceHost, error: TritonError, now: int, work: SequenceWork) -> None:
        """End sequences that had started at `host` with `error`, because it has lost their state."""
        host.idle, host.away = False, True
        started = [c for c in host.candidates if not c.request.flags & SEQUENCE_START]
        work.failures += [(candidate.request, error) for candidate in started]
        host.candidates = deque(c for c in host.candidates if c.request.flags & SEQUENCE_START)
        host.executing.clear()
        work.failures += self._table.abandon(host.index, {c.slot for c in host.candidates}, error, now)
        self._nominate_all(host, now, work)

    def remove(self, host: SequenceHost, error: TritonError, now: int, work: SequenceWork) -> None:
        """Remove `host`; its requests fail with `error`."""
        work.failures += [(candidate.request, error) for candidate in host.candidates]
        work.failures += self._table.remove_host(host.index, error, now)
        del self._hosts[host.index]

    # -- the payloads of the instances

    def came_back(self, slot: Slot, request: InferenceRequest) -> None:
        """Take back a request that the model wants again in a later iteration (rule 3.9)."""
        self._hosts[slot.host].executing.pop(request.serial, None)

    def offer(self, slot: Slot, now: int, work: SequenceWork) -> None:
        """Offer the slot's instance a new request of the slot."""
        self._nominate(slot, now, work)
        self._fill(self._hosts[slot.host], now, work)

    def fill_all(self, now: int, work: SequenceWork) -> None:
        for host in self._hosts.values():
            self._nominate_all(host, now, work)
            self._fill(host, now, work)

    def _nominate(self, slot: Slot, now: int, work: SequenceWork) -> None:
        """Put the slot's next request into its instance's batcher, unless one of the slot is there or executing."""
        if self._config.direct or slot.busy:
            return
        while failures := self._table.drop_cancelled(slot, now):
            work.failures += failures
        if slot.queue:
            request = self._table.taken(slot, now)
            host = self._hosts[slot.host]
            if host.order is not None and (not self._config.iterative or request.flags & SEQUENCE_START):
                host.order.admit(request)  # once, at its first iteration
            host.candidates.append(Candidate(slot, request, now))

    def _nominate_all(self, host: SequenceHost, now: int, work: SequenceWork) -> None:
        for slot in self._table.slots(host.index):
            self._nominate(slot, now, work)

    def _fill(self, host: SequenceHost, now: int, work: SequenceWork) -> None:
        """Give the instance its next payload, if it is idle and has one."""
        if not host.idle:
            return
        payload = self._direct_payload(host, now, work) if self._config.direct else self._payload(host, now, work)
        if payload is not None:
            host.idle = False
            work.payloads.append((host.instance, payload))

    def _direct_payload(self, host: SequenceHost, now: int, work: SequenceWork) -> Payload | None:
        slots = self._table.slots(host.index)
        for slot in slots:
            while failures := self._table.drop_cancelled(slot, now):
                work.failures += failures
        decision = self._decision(take_slots(slots, self._config, now), host, work)
        if decision is None:
            return None
        numbers = set(decision.numbers)
        first = slots[decision.numbers[0]].queue[0]
        requests: list[InferenceRequest] = []
        for slot in slots[: decision.size]:
            if slot.number in numbers:
                request = self._table.taken(slot, now)
                host.executing[request.serial] = slot
                requests.append(request)
            else:
                requests.append(self._inputs.null_request(first))
        return Payload(requests, len(requests), decision.reason, nulls=len(requests) - len(numbers))

    def _payload(self, host: SequenceHost, now: int, work: SequenceWork) -> Payload | None:
        if any(candidate.request.cancelled for candidate in host.candidates):
            self._drop_candidates(host, now, work)
        decision = self._decision(take_batch(host.candidates, self._config.batch, now), host, work)
        if decision is None:
            return None
        taken = [host.candidates.popleft() for _ in range(decision.count)]
        host.executing = {candidate.request.serial: candidate.slot for candidate in taken}
        return Payload([candidate.request for candidate in taken], decision.size, decision.reason)

    def _decision(self, found: _D | WaitUntil | None, host: SequenceHost, work: SequenceWork) -> _D | None:
        """Return `found` if it can be done now; None if it must wait for a time or for resources."""
        if isinstance(found, WaitUntil):
            work.wake_by(found.until)
            return None
        if found is None or (self._admitted is not None and not self._admitted(host.instance)):
            return None
        return found

    def _drop_candidates(self, host: SequenceHost, now: int, work: SequenceWork) -> None:
        """End the sequences of cancelled candidates, as if they were still in their slots. Triton executes such a
        candidate; with a delay it skips to the sequence's next request, which the model cannot notice.
        """
        dropped = [candidate for candidate in host.candidates if candidate.request.cancelled]
        host.candidates = deque(c for c in host.candidates if not c.request.cancelled)
        for candidate in dropped:
            slot, request = candidate.slot, candidate.request
            work.failures.append((request, CancelledError("")))
            if request.flags & SEQUENCE_END:  # then the slot already has the next sequence
                self._table.done(slot, now)
            else:
                slot.busy = False
                work.failures += self._table.end(slot, CancelledError(""), now)
            self._nominate(slot, now, work)

    def __repr__(self) -> str:
        table, hosts = self._table, self._hosts.values()
        waiting = f"{table.active} of {len(hosts) * self._config.slots} slots | {table.backlogged} backlogged"
        busy = sum(not host.idle for host in hosts)
        return f"{'direct' if self._config.direct else 'oldest'} | {waiting} | {self.queued} queued | {busy} busy"


def _uses(host: SequenceHost, slots: list[Slot], oldest: int) -> list[SlotUse]:
    """Return the occupied slots of `host`. A sequence whose last request was before `oldest` is idle."""
    executing, candidates = list(host.executing.values()), [candidate.slot for candidate in host.candidates]
    return [
        SlotUse(
            slot.number,
            slot.sequence,
            queued=len(slot.queue) + candidates.count(slot),
            executing=slot in executing,
            idle_left=slot.last_seen - oldest if slot.open else None,
        )
        for slot in slots
        if slot.sequence is not None
    ]


def take_slots(slots: Sequence[Slot], config: SequenceConfig, now: int) -> SlotBatch | WaitUntil | None:
    """Return the decision for an idle instance of the direct strategy on its slots (rule 5.6.7); None if no request
    waits.

    The first request determines the shapes: a slot whose request does not fit waits for the next batch.
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
