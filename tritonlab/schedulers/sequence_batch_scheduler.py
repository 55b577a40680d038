"""The sequence batcher: requests of one sequence go to one instance, in order, one at a time (rules 5.6, 3.9).

The decisions are `SequenceTable` (who has which slot) and, per instance, `take_slots` (direct) or `take_batch` (oldest)
over what waits in its slots; here are the lock, the clock and the instances.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable

from ..core.clock import Clock
from ..core.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest, RequestEvent
from ..core.infer_stats import InferStats
from ..core.instrument import Instruments
from ..core.status import CancelledError, ModelError, TritonError, UnavailableError
from ..instances.payload import Payload
from ..instances.rate_limiter import RateLimiter
from .direct_batch import take_slots
from .dynamic_batch_scheduler import Wait, take_batch
from .response_order import ResponseOrder
from .scheduler import STOPPING, Instance, WakeUp
from .sequence_config import SequenceConfig
from .sequence_host import Candidate, Host, Work
from .sequence_inputs import SequenceInputs
from .sequence_table import SequenceTable, Slot


class SequenceBatchScheduler:
    """Keeps each sequence at one slot of one instance. `inputs` are the controls and states of the model; `warn` gets
    what Triton writes into its log.

    Guarantees: a request with START may use an id again, everything else of a sequence goes where its START went.
    Failures and payloads leave without the lock held.
    """

    def __init__(
        self,
        name: str,
        version: int,
        config: SequenceConfig,
        inputs: SequenceInputs,
        clock: Clock,
        instruments: Instruments,
        timer: WakeUp,
        stats: InferStats,
        warn: Callable[[str], None],
        limiter: RateLimiter | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.config = config
        self._inputs = inputs
        self._clock = clock
        self._instruments = instruments
        self._timer = timer
        self._stats = stats
        self._warn = warn
        self._limiter = limiter
        self._lock = threading.Lock()  # guards everything below
        self._table = SequenceTable(name, config)
        self._hosts: dict[int, Host] = {}
        self._next_index = 0
        self._wake_at: int | None = None
        self._refusal: TritonError | None = None
        self._settled = threading.Condition(self._lock)

    @property
    def pending(self) -> int:
        """Requests that wait."""
        with self._lock:
            return self._waiting()

    def _waiting(self) -> int:
        return self._table.queued + sum(len(host.candidates) for host in self._hosts.values())

    def waiting(self) -> list[InferenceRequest]:
        """The requests that wait: candidates first, then those in slots, then the backlog."""
        with self._lock:
            candidates = [candidate.request for host in self._hosts.values() for candidate in host.candidates]
            return candidates + self._table.waiting()

    def withdraw(self, request: InferenceRequest) -> bool:
        """Never: a sequence without one of its requests is another one."""
        return False

    # -- requests

    def enqueue(self, request: InferenceRequest) -> None:
        """Takes a checked request. Raises InvalidArgumentError for one that fits no sequence (rule 5.6.1),
        UnavailableError once the scheduler stops."""
        now = self._clock.now()
        request.queue_start = now
        with self._lock:
            if self._refusal is not None:
                raise self._refused(request)
            conflict = self._table.conflicts(request)
            slot = self._table.admit(request, now)
            self._inputs.complete(request)
            request.advance(RequestEvent.ENQUEUE)
            work = self._queued(slot, now)
        if conflict:
            self._warn(
                f"sequence {request.correlation_id} for model '{self.name}' has a conflict. The previous sequence did "
                "not end before this sequence start. Previous sequence will be terminated early."
            )
        self._tell_queued(request, now)
        self._do(work, now)

    def reschedule(self, request: InferenceRequest) -> bool:
        """A later iteration of an iterative sequence (rule 3.9); it waits until its instance is idle. Raises
        InvalidArgumentError if the sequence has ended meanwhile."""
        if not self.config.iterative:
            return False
        if request.null:
            return True
        now = self._clock.now()
        request.queue_start = now
        with self._lock:
            slot = self._table.back(request, now)
            self._inputs.complete(request)
            self._hosts[slot.host].executing.pop(request.serial, None)
            work = self._queued(slot, now)
        self._tell_queued(request, now)
        self._do(work, now)
        return True

    def _queued(self, slot: Slot | None, now: int) -> Work:
        work = Work()
        if slot is not None:
            self._nominate(slot, now, work)
            self._fill(self._hosts[slot.host], now, work)
        if slot is None or self._wake_at is None:
            self._arm(self._table.deadline())
        return work

    def _tell_queued(self, request: InferenceRequest, now: int) -> None:
        hook = self._instruments.request_queued
        if hook is not None:
            hook(request, now)

    def _refused(self, request: InferenceRequest) -> TritonError:
        assert self._refusal is not None
        if isinstance(self._refusal, UnavailableError):
            return UnavailableError(request.prefix + self._refusal.message)
        return copy.copy(self._refusal)

    # -- instances

    def instance_ready(self, instance: Instance) -> None:
        """A new instance takes part, with slots of its own."""
        now = self._clock.now()
        with self._lock:
            host = Host(self._next_index, instance, ResponseOrder() if self.config.preserve_ordering else None)
            self._next_index += 1
            self._hosts[host.index] = host
            self._table.add_host(host.index, now)
            work = self._nominate_all(host, now, Work())
        self._do(work, now)
        self.instance_idle(instance)

    def _host_of(self, instance: Instance) -> Host | None:
        return next((host for host in self._hosts.values() if host.instance is instance), None)

    def instance_idle(self, instance: Instance) -> None:
        """The instance executed its payload: the next requests of those sequences may go."""
        now = self._clock.now()
        work = Work()
        with self._lock:
            host = self._host_of(instance)
            if host is None:
                return
            host.idle, host.away = True, False
            executed = list(host.executing.values())
            host.executing.clear()
            for slot in executed:
                self._table.done(slot, now)
                self._nominate(slot, now, work)
            self._fill(host, now, work)
            self._arm(self._table.deadline())
        self._do(work, now)

    def instance_away(self, instance: Instance) -> bool:
        """The stub died, and with it what the model knew of its sequences: those that had started end."""
        now = self._clock.now()
        work = Work()
        with self._lock:
            host = self._host_of(instance)
            if host is None:
                return False
            was_idle, host.idle, host.away = host.idle, False, True
            error = ModelError(f"The sequence's state was lost when a stub process of model '{self.name}' ended.")
            lost = [c for c in host.candidates if not c.request.flags & SEQUENCE_START]
            work.failures += [(candidate.request, error) for candidate in lost]
            host.candidates = deque(c for c in host.candidates if c.request.flags & SEQUENCE_START)
            host.executing.clear()
            work.failures += self._table.abandon(host.index, {c.slot for c in host.candidates}, error, now)
            self._nominate_all(host, now, work)
            self._settled.notify_all()
        self._do(work, now)
        return was_idle

    def instance_gone(self, instance: Instance, error: TritonError) -> None:
        """The instance's slots are gone; with the last instance, so is the backlog."""
        now = self._clock.now()
        work = Work()
        with self._lock:
            host = self._host_of(instance)
            if host is None:
                return
            work.failures += [(candidate.request, error) for candidate in host.candidates]
            work.failures += self._table.remove_host(host.index, error, now)
            del self._hosts[host.index]
            if not self._hosts:
                self._refusal = self._refusal or error
            self._settled.notify_all()
        self._do(work, now)

    # -- time

    def wake(self) -> None:
        """Looks at idle sequences, timeouts and delays; the timer calls it, and tests do."""
        now = self._clock.now()
        work = Work()
        with self._lock:
            if self._wake_at is None or now < self._wake_at:
                return  # a later deadline that was asked for before an earlier one
            self._wake_at = None
            work.failures += self._table.reap(now)
            self._fill_all(now, work)
            self._arm(self._table.deadline())
        self._do(work, now)

    def _arm(self, when: int | None) -> None:
        if when is not None and (self._wake_at is None or when < self._wake_at):
            self._wake_at = when
            self._timer.call_at(when, self.wake)

    def _retry(self) -> None:
        """The rate limiter has resources for an instance that was refused them."""
        now = self._clock.now()
        work = Work()
        with self._lock:
            self._fill_all(now, work)
        self._do(work, now)

    def stop(self) -> None:
        """Refuses new requests and waits until all that were taken are executed. Triton keeps backlogged sequences
        waiting until those before them are idle for long enough; here sequences that can only wait end at once."""
        now = self._clock.now()
        work = Work()
        with self._lock:
            self._refusal = UnavailableError(STOPPING)
            self._table.end_idle(now)
            self._fill_all(now, work)
        self._do(work, now)
        with self._lock:
            while self._hosts and (self._waiting() or not all(h.idle or h.away for h in self._hosts.values())):
                self._settled.wait()
            self._hosts.clear()  # a deadline may still be asked for, and would keep the stubs' memory

    # -- decisions, under the lock

    def _nominate(self, slot: Slot, now: int, work: Work) -> None:
        """Puts the slot's next request into the dynamic batcher of its instance, if none of it is on its way."""
        if self.config.direct or slot.busy:
            return
        while failures := self._table.drop_cancelled(slot, now):
            work.failures += failures
        if slot.queue:
            request = self._table.taken(slot, now)
            host = self._hosts[slot.host]
            if host.order is not None and (not self.config.iterative or request.flags & SEQUENCE_START):
                host.order.admit(request)  # once, at its first iteration
            host.candidates.append(Candidate(slot, request, now))

    def _nominate_all(self, host: Host, now: int, work: Work) -> Work:
        for slot in self._table.slots(host.index):
            self._nominate(slot, now, work)
        return work

    def _fill_all(self, now: int, work: Work) -> None:
        for host in self._hosts.values():
            self._nominate_all(host, now, work)
            self._fill(host, now, work)

    def _fill(self, host: Host, now: int, work: Work) -> None:
        """Gives the instance its next payload, if it is idle and there is one."""
        if not host.idle:
            return
        payload = self._direct_payload(host, now, work) if self.config.direct else self._payload(host, now, work)
        if payload is not None:
            host.idle = False
            work.payloads.append((host.instance, payload))
        elif self._refusal is not None:
            self._settled.notify_all()

    def _direct_payload(self, host: Host, now: int, work: Work) -> Payload | None:
        slots = self._table.slots(host.index)
        for slot in slots:
            while failures := self._table.drop_cancelled(slot, now):
                work.failures += failures
        decision = take_slots(slots, self.config, now)
        if decision is None:
            return None
        if isinstance(decision, Wait):
            self._arm(decision.until)
            return None
        if not self._admitted(host):
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

    def _payload(self, host: Host, now: int, work: Work) -> Payload | None:
        if any(candidate.request.cancelled for candidate in host.candidates):
            self._drop_candidates(host, now, work)
        decision = take_batch(host.candidates, self.config.batch, now)
        if decision is None:
            return None
        if isinstance(decision, Wait):
            self._arm(decision.until)
            return None
        if not self._admitted(host):
            return None
        taken = [host.candidates.popleft() for _ in range(decision.count)]
        host.executing = {candidate.request.serial: candidate.slot for candidate in taken}
        return Payload([candidate.request for candidate in taken], decision.size, decision.reason)

    def _admitted(self, host: Host) -> bool:
        """Whether the instance has the resources for a payload; if not, they are offered to it later."""
        return self._limiter is None or self._limiter.admit(host.instance, self._retry)

    def _drop_candidates(self, host: Host, now: int, work: Work) -> None:
        """A cancelled candidate ends its sequence, as it would in its slot. Triton executes it, or with a delay
        leaves it out and goes on with the next request of the sequence, which the model cannot notice."""
        dropped = [candidate for candidate in host.candidates if candidate.request.cancelled]
        host.candidates = deque(c for c in host.candidates if not c.request.cancelled)
        for candidate in dropped:
            slot, request = candidate.slot, candidate.request
            work.failures.append((request, CancelledError("")))
            if request.flags & SEQUENCE_END:  # the slot has the next sequence by now
                self._table.done(slot, now)
            else:
                slot.busy = False
                work.failures += self._table.end(slot, CancelledError(""), now)
            self._nominate(slot, now, work)

    # -- after the lock

    def _do(self, work: Work, now: int) -> None:
        for request, error in work.failures:
            if isinstance(error, (CancelledError, UnavailableError)):
                reason = "CANCELED" if isinstance(error, CancelledError) else "REJECTED"
                self._stats.record_rejected(reason, now - request.request_start)
            self._instruments.fail(request, self.version, error, now)
        for instance, payload in work.payloads:
            hook = self._instruments.batch_formed
            if hook is not None:
                requests = [request for request in payload.requests if not request.null]
                hook(self.name, self.version, requests, payload.size, payload.reason, now)
            instance.execute(payload)

    def __repr__(self) -> str:
        table, hosts = self._table, self._hosts.values()
        waiting = f"{table.active} of {len(hosts) * self.config.slots} slots | {table.backlogged} backlogged"
        busy = sum(not host.idle for host in hosts)
        return (
            f"<SequenceBatchScheduler {self.name}/{self.version} "
            f"[{'direct' if self.config.direct else 'oldest'} | {waiting} | {self._waiting()} queued | {busy} busy]>"
        )
