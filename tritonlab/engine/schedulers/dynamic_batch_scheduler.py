"""The default scheduler and the dynamic batcher, one thin shell with a lock around the pure `take_batch`.

Without `dynamic_batching` a batch is one request (rule 5.5.1): just another `BatchConfig`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

from ...core.inference.infer_request import InferenceRequest, RequestEvent
from ...core.status import ModelError, TritonError, UnavailableError
from ..execution.payload import Payload
from .dynamic_batch import Batch, BatchConfig, WaitUntil, take_batch
from .instance_roster import InstanceRoster
from .policy_queue import ArrivalQueue, PolicyQueue, QueuePolicies
from .rejections import Rejections, refusal_of
from .response_order import ResponseOrder
from .scheduler import STOPPING, Instance, SchedulerServices

_CANCEL = Batch(0, 0, "cancel")
_TIMEOUT = Batch(0, 0, "timeout")

#: The work of a decision: an instance executes these requests as this batch, or, without an instance, they end for one
#: of these reasons.
BatchWork = tuple[Instance | None, Sequence[InferenceRequest], Batch]


class DynamicBatchScheduler:
    """The queue of a model version's requests, which gives idle instances their batches.

    Guarantees: requests leave in the order of arrival, or of their `policies`; with `preserve_ordering` their responses
    do too. With `hold_until` nothing executes until that many requests first wait. `execute` is called without the lock
    held, on the thread that made the batch possible: the client's own if an instance was idle.
    """

    def __init__(
        self,
        name: str,
        version: int,
        config: BatchConfig,
        services: SchedulerServices,
        *,
        policies: QueuePolicies | None = None,
        preserve_ordering: bool = False,
        hold_until: int = 0,
    ) -> None:
        self.name = name
        self.version = version
        self.config = config
        self._clock = services.clock
        self._instruments = services.instruments
        self._timer = services.timer
        self._order = ResponseOrder() if preserve_ordering else None
        self._rejections = Rejections(version, services, self._order)
        self._lock = threading.Lock()  # guards all fields below
        self._queue: ArrivalQueue | PolicyQueue = ArrivalQueue() if policies is None else PolicyQueue(policies)
        self._instances = InstanceRoster(services.limiter, self.wake)
        if hold_until:
            self._instances.take = partial(self._take_when_queued, hold_until, self._instances.take)
        self._wake_at = 0
        self._refusal: TritonError | None = None
        self._empty = threading.Condition(self._lock)

    @property
    def pending(self) -> int:
        """The number of waiting requests."""
        return len(self._queue)

    def enqueue(self, request: InferenceRequest) -> None:
        """Queue a checked request. Raises UnavailableError if the scheduler is stopping, no instance is left, or the
        queue is full.
        """
        now = self._clock.now()
        request.queue_start = now
        try:
            with self._lock:
                if self._refusal is not None:
                    raise refusal_of(request, self._refusal)
                self._queue.append(request)
                request.advance(RequestEvent.ENQUEUE)
                if self._order is not None:
                    self._order.admit(request)
                work = self._decide(now)
        except UnavailableError:
            if self._refusal is None:
                self._rejections.tell(request, "queue full", now)
            raise
        hook = self._instruments.request_queued
        if hook is not None:
            hook(request, now)
        self._do(work, now)

    def waiting(self) -> list[InferenceRequest]:
        """Return the requests that wait, in the order of execution."""
        with self._lock:
            return list(self._queue)

    def held_back(self) -> list[list[InferenceRequest]]:
        """Return the request that `preserve_ordering` waits for, and the answered requests behind it."""
        return [found] if self._order is not None and (found := self._order.held_back()) else []

    def withdraw(self, request: InferenceRequest) -> bool:
        """Take a waiting request out of the queue, for the caller to end. Returns False if it does not wait."""
        with self._lock:
            if not any(queued is request for queued in self._queue):
                return False
            self._queue.take_out([request])
            if not self._queue:
                self._empty.notify_all()
        if self._order is not None:
            self._order.leave(request)
        return True

    def reschedule(self, request: InferenceRequest) -> bool:
        """Return False, because only sequences can be iterative (rule 3.9.5)."""
        return False

    def instance_ready(self, instance: Instance) -> None:
        """Add an instance that is new, or was gone."""
        with self._lock:
            self._instances.add(instance)
            if isinstance(self._refusal, ModelError):
                self._refusal = None  # requests were refused because there was no instance
        self.instance_idle(instance)

    def instance_idle(self, instance: Instance) -> None:
        """Record that an instance can take a batch, and give it one if requests wait."""
        now = self._clock.now()
        with self._lock:
            left = self._instances.back(instance)
            work = self._decide(now) if self._queue or self._refusal is not None else None
        if work:
            self._do(work, now)
        if left is not None:
            left()

    def instance_away(self, instance: Instance) -> bool:
        """Give an instance, whose stub has died, no batches until it is idle again. Returns whether it was idle.
        Cancelled requests end: the next stub might die of them, or hang in them, too.
        """
        now = self._clock.now()
        with self._lock:
            self._empty.notify_all()
            was_idle = self._instances.away(instance)
            cancelled = [request for request in self._queue if request.cancelled]
            self._queue.take_out(cancelled)
        self._rejections.cancel(cancelled, now)
        return was_idle

    def instance_leaves(self, instance: Instance, left: Callable[[], None]) -> None:
        """Give an instance no more batches. `left` is called, without a lock held, once it has none; after that
        `instance_gone` may be called.
        """
        with self._lock:
            free = self._instances.leave(instance, left)
        if free:
            left()

    def instance_gone(self, instance: Instance, error: TritonError) -> None:
        """Remove an instance; when the last one goes, waiting requests fail with `error`."""
        with self._lock:
            left = self._instances.remove(instance)
            self._empty.notify_all()
            requests: list[InferenceRequest] = []
            if not self._instances:
                self._refusal = self._refusal or error
                requests += self._queue
                self._queue.clear()
        for request in requests:
            self._rejections.fail(request, error)
        if left is not None:
            left()

    def wake(self) -> None:
        """Decide on the queue again. Called by the timer and by tests."""
        now = self._clock.now()
        with self._lock:
            self._wake_at = 0
            work = self._decide(now)
        self._do(work, now)

    def stop(self) -> None:
        """Refuse new requests and wait until none waits and none is on its way to an instance."""
        with self._lock:
            self._refusal = UnavailableError(STOPPING)
        self.wake()  # No more requests will join a batch that waits for them.
        with self._lock:
            while self._instances and (self._queue or not self._instances.settled):
                self._empty.wait()

    def _decide(self, now: int) -> list[BatchWork]:
        """Make the decisions that are due; the caller holds the lock."""
        work, look = decide(self._queue, self._instances, self.config, now)
        if look and look != self._wake_at:
            self._wake_at = look
            self._timer.call_at(look, self.wake)
        if self._refusal is not None and not self._queue:  # otherwise no request waits for it
            self._empty.notify_all()
        return work

    def _take_when_queued(self, count: int, take: Callable[[], Instance | None]) -> Instance | None:
        if len(self._queue) < count and self._refusal is None:
            return None
        self._instances.take = take
        return take()

    def _do(self, work: list[BatchWork], now: int) -> None:
        for instance, requests, batch in work:
            if instance is None:
                (self._rejections.cancel if batch is _CANCEL else self._rejections.time_out)(requests, now)
                continue
            hook = self._instruments.batch_formed
            if hook is not None:
                hook(self.name, self.version, requests, batch.size, batch.reason, now)
            payload = Payload(requests, batch.size, batch.reason)
            if self._queue.refuses:
                payload.late = partial(self._drop_late, now)
            instance.execute(payload)

    def _drop_late(self, decided: int, requests: Sequence[InferenceRequest]) -> Sequence[InferenceRequest]:
        """End the requests that timed out before they were sent, and return them. The batch was decided a while ago,
        and a timeout may be shorter than the way to the stub (rule 5.5.10).
        """
        now = self._clock.now()
        late = self._queue.late(requests, now)
        self._rejections.time_out(late, now, decided)
        return late

    def __repr__(self) -> str:
        delay = f" | delay {self.config.delay // 1000}us" if self.config.delay else ""
        return (
            f"<DynamicBatchScheduler {self.name}/{self.version} "
            f"[{len(self._queue)} queued | {len(self._instances) - len(self._instances.idle)} busy{delay}]>"
        )


def decide(
    queue: ArrivalQueue | PolicyQueue, instances: InstanceRoster, config: BatchConfig, now: int
) -> tuple[list[BatchWork], int]:
    """Take the requests to be handled now from the queue, without handling them. Return them with the time of the next
    look (`Clock.now()` nanoseconds; 0 if nothing depends on the time).
    """
    work: list[BatchWork] = []
    while queue and instances.idle:
        # As in Triton, timeouts are only checked when something could be executed (rule 5.5.10).
        if queue.timed and (late := queue.expire(now)):
            work.append((None, late, _TIMEOUT))
            continue
        decision = take_batch(queue, config, now)
        if isinstance(decision, WaitUntil):
            deadline = queue.next_deadline()
            return work, decision.until if deadline is None else min(decision.until, deadline)
        assert decision is not None
        requests = list(islice(queue, decision.count + 1))
        # The request that did not fit into the batch may be cancelled too.
        if not config.keeps_cancelled and (cancelled := [request for request in requests if request.cancelled]):
            work.append((None, cancelled, _CANCEL))
            queue.take_out(cancelled)
            continue
        del requests[decision.count :]
        instance = instances.take()
        if instance is None:
            break
        for _ in requests:
            queue.popleft()
        work.append((instance, requests, decision))
    return work, 0
