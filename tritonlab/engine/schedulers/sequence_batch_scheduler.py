"""`SequenceBatchScheduler`, which sends the requests of a sequence to one instance, in order, one at a time (rules 5.6,
3.9).

`SequenceTable` decides on the slot of each sequence, `SequenceHosts` on the next payload of an instance; this module
has the lock, the clock and the instances.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...core.inference.infer_request import InferenceRequest, RequestEvent
from ...core.status import ModelError, TritonError, UnavailableError
from ...ipc.processes.stub_log import FILLED
from .rejections import Rejections, refusal_of
from .scheduler import STOPPING, Instance, SchedulerServices, WakeUp
from .sequence_config import SequenceConfig
from .sequence_hosts import SequenceHosts, SequenceWork
from .sequence_inputs import SequenceInputs
from .sequence_occupancy import Occupancy
from .sequence_table import SequenceTable, Slot


class NextLook:
    """The earliest call that the scheduler has requested from the timer. The scheduler's lock guards it."""

    def __init__(self, timer: WakeUp) -> None:
        self.at: int | None = None
        self._timer = timer

    def request(self, when: int | None, wake: Callable[[], None]) -> None:
        """Make the timer call `wake` at `when`, unless an earlier call is requested. `when` None: no call."""
        if when is not None and (self.at is None or when < self.at):
            self.at = when
            self._timer.call_at(when, wake)

    def due(self, now: int) -> bool:
        """Return whether the earliest requested time has come. The timer also calls at later times requested earlier,
        when no work is due.
        """
        if self.at is None or now < self.at:
            return False
        self.at = None
        return True


#: Triton does not report it.
_UNEXPLAINED = (
    f"{FILLED}the model gets requests that no client sent, with the correlation id 0 and zeros as inputs. Its config "
    "has no control_input of kind CONTROL_SEQUENCE_READY, whose tensor would tell them from others."
)


class SequenceBatchScheduler:
    """The scheduler that keeps each sequence at one slot of one instance. `inputs` adds the model's controls and
    states.

    Guarantees: a START may reuse an id, and all later requests of a sequence follow its START. Failures and payloads
    are sent without the lock held.
    """

    def __init__(
        self,
        name: str,
        version: int,
        config: SequenceConfig,
        inputs: SequenceInputs,
        services: SchedulerServices,
    ) -> None:
        self.name = name
        self.version = version
        self.config = config
        self._clock = services.clock
        self._instruments = services.instruments
        self._rejections = Rejections(version, services)
        self._warn = services.warn
        self._inputs = inputs
        limiter = services.limiter
        admitted = None if limiter is None else lambda instance: limiter.admit(instance, self._retry)
        self._lock = threading.Lock()  # guards all fields below
        self._table = SequenceTable(name, config)
        self._hosts = SequenceHosts(self._table, config, inputs, admitted)
        self._next_look = NextLook(services.timer)
        self._refusal: TritonError | None = None
        self._settled = threading.Condition(self._lock)
        #: whether the model cannot recognise a null request, and no warning was given yet
        self._confusing = config.direct and not inputs.tells_null_requests

    @property
    def pending(self) -> int:
        """The number of waiting requests."""
        with self._lock:
            return self._hosts.queued

    def waiting(self) -> list[InferenceRequest]:
        """Return the requests that wait: candidates first, then those in slots, then the backlog."""
        with self._lock:
            return self._hosts.waiting()

    def occupancy(self) -> Occupancy:
        """Return the current slot of each sequence, for views."""
        with self._lock:
            return self._hosts.occupancy(self._clock.now())

    @property
    def gathers(self) -> bool:
        """Return whether requests wait at an idle instance, for others to join or for its turn."""
        with self._lock:
            return self._hosts.has_idle

    def held_back(self) -> list[list[InferenceRequest]]:
        """Return, per instance, the request whose turn to be answered it is, and the answered requests that wait for it
        (preserve_ordering).
        """
        with self._lock:
            return self._hosts.held_back()

    def withdraw(self, request: InferenceRequest) -> bool:
        """Return False: a sequence needs each of its requests."""
        return False

    def enqueue(self, request: InferenceRequest) -> None:
        """Take a checked request. Raises InvalidArgumentError if it fits no sequence (rule 5.6.1), UnavailableError if
        the scheduler is stopping.
        """
        now = self._clock.now()
        request.queue_start = now
        with self._lock:
            if self._refusal is not None:
                raise refusal_of(request, self._refusal)
            conflict = self._table.conflict(request)
            slot = self._table.admit(request, now)
            self._inputs.complete(request)
            request.advance(RequestEvent.ENQUEUE)
            work = self._queued(slot, now)
        if conflict:
            self._warn(conflict)
        self._do(work, now, request)

    def reschedule(self, request: InferenceRequest) -> bool:
        """Queue a later iteration of an iterative sequence (rule 3.9) until its instance is idle. Raises
        InvalidArgumentError if the sequence has ended meanwhile.
        """
        if not self.config.iterative:
            return False
        if request.null:
            return True
        now = self._clock.now()
        request.queue_start = now
        with self._lock:
            slot = self._table.back(request, now)
            self._inputs.complete(request)
            self._hosts.came_back(slot, request)
            work = self._queued(slot, now)
        self._do(work, now, request)
        return True

    def _queued(self, slot: Slot | None, now: int) -> SequenceWork:
        work = SequenceWork()
        if slot is not None:
            self._hosts.offer(slot, now, work)
        if slot is None or self._next_look.at is None:
            work.wake_by(self._table.deadline())
        return self._decided(work)

    @contextmanager
    def _deciding(self) -> Iterator[tuple[SequenceWork, int]]:
        """Hold the lock for a decision, and do its work after the lock is released."""
        now, work = self._clock.now(), SequenceWork()
        with self._lock:
            yield work, now
            self._decided(work)
        self._do(work, now)

    def _decided(self, work: SequenceWork) -> SequenceWork:
        """End a decision, under the lock: set the timer for the next look, and wake `stop` if no work is left."""
        self._next_look.request(work.wake_at, self.wake)
        if self._refusal is not None:
            self._settled.notify_all()
        return work

    def instance_ready(self, instance: Instance) -> None:
        """Add an instance that is new, or was gone, with its own slots."""
        with self._deciding() as (work, now):
            if isinstance(self._refusal, UnavailableError):
                return  # `stop` waits only for registered instances
            self._refusal = None
            self._hosts.add(instance, now, work)
        self.instance_idle(instance)

    def instance_idle(self, instance: Instance) -> None:
        """Send the next requests of the sequences in the instance's payload, which is executed now."""
        now = self._clock.now()
        with self._lock:
            host = self._hosts.find(instance)
            if host is None:
                return
            work = self._hosts.idle(host, now)
            work.wake_by(self._table.deadline())
            self._decided(work)
        self._do(work, now)

    def instance_away(self, instance: Instance) -> bool:
        """End the sequences that had started at the instance, whose stub died. Returns whether it was idle."""
        with self._deciding() as (work, now):
            host = self._hosts.find(instance)
            if host is None:
                return False
            was_idle = host.idle
            error = ModelError(f"The sequence's state was lost when a stub process of model '{self.name}' ended.")
            self._hosts.lost(host, error, now, work)
        return was_idle

    def instance_gone(self, instance: Instance, error: TritonError) -> None:
        """Remove the instance's slots, and with the last one the backlog; requests there fail with `error`."""
        with self._deciding() as (work, now):
            host = self._hosts.find(instance)
            if host is None:
                return
            self._hosts.remove(host, error, now, work)
            if not self._hosts:
                self._refusal = self._refusal or error

    def wake(self) -> None:
        """Handle the idle sequences, timeouts and delays that are due. Called by the timer and by tests."""
        with self._deciding() as (work, now):
            if not self._next_look.due(now):
                return
            work.failures += self._table.reap(now)
            self._hosts.fill_all(now, work)
            work.wake_by(self._table.deadline())

    def _retry(self) -> None:
        """Try again, as the rate limiter now has resources for a refused instance."""
        with self._deciding() as (work, now):
            self._hosts.fill_all(now, work)

    def stop(self) -> None:
        """Refuse new requests and wait until all accepted ones are executed. Triton keeps sequences in the backlog
        until those before them have been idle long enough; here sequences that can only wait end at once.
        """
        with self._deciding() as (work, now):
            self._refusal = UnavailableError(STOPPING)
            self._table.end_idle(now)
            self._hosts.fill_all(now, work)
        with self._lock:
            while not self._hosts.settled:
                self._settled.wait()
            self._hosts.clear()  # the timer may still hold a deadline, which would keep the stubs' memory

    def _do(self, work: SequenceWork, now: int, queued: InferenceRequest | None = None) -> None:
        if queued is not None and self._instruments.request_queued is not None:
            self._instruments.request_queued(queued, now)
        for request, error in work.failures:
            self._rejections.reject(request, error, now)
        for instance, payload in work.payloads:
            if self._confusing and payload.nulls:
                self._confusing = False
                self._warn(_UNEXPLAINED)
            hook = self._instruments.batch_formed
            if hook is not None:
                real = [request for request in payload.requests if not request.null]
                hook(self.name, self.version, real, payload.size, payload.reason, now)
            instance.execute(payload)

    def __repr__(self) -> str:
        return f"<SequenceBatchScheduler {self.name}/{self.version} [{self._hosts}]>"
