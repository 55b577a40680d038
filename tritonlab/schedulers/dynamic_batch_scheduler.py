"""The default scheduler and the dynamic batcher: a pure decision, `take_batch`, and a thin shell with a lock.

Without `dynamic_batching` a batch is one request (rule 5.5.1): the same code with another `BatchConfig`.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Protocol

from ..core.clock import Clock
from ..core.delivery import deliver_error
from ..core.infer_request import InferenceRequest, RequestEvent
from ..core.infer_stats import InferStats
from ..core.instrument import Instruments
from ..core.model_config import ModelConfig
from ..core.status import CancelledError, ModelError, TritonError, UnavailableError
from ..core.tensor import Tensor
from ..instances.payload import Payload
from ..instances.rate_limiter import RateLimiter
from .policy_queue import PolicyQueue, QueuePolicies
from .response_order import ResponseOrder
from .scheduler import STOPPING, Instance, WakeUp


@dataclass(frozen=True)
class BatchConfig:
    """The part of a model's configuration that decides about its batches. `delay` in nanoseconds."""

    max_batch_size: int = 0
    dynamic: bool = False
    preferred: tuple[int, ...] = ()
    delay: int = 0
    #: inputs whose shapes must be equal within a batch (rule 5.5.5); empty if shapes cannot differ
    equal_shape_inputs: tuple[str, ...] = ()
    #: whether requests may differ in which inputs they carry (rule 5.5.6)
    optional_inputs: bool = False
    #: whether younger requests may stand before older ones: priorities, delayed requests
    ranked: bool = False

    @staticmethod
    def of(config: ModelConfig) -> BatchConfig:
        """The batching rules of a normalised configuration."""
        if not config.HasField("dynamic_batching") or config.max_batch_size == 0:
            return BatchConfig(config.max_batch_size)  # rule 5.5.12
        batching = config.dynamic_batching
        return BatchConfig(
            max_batch_size=config.max_batch_size,
            dynamic=True,
            preferred=tuple(sorted(set(batching.preferred_batch_size))) or (config.max_batch_size,),
            delay=batching.max_queue_delay_microseconds * 1000,
            equal_shape_inputs=tuple(i.name for i in config.input if not i.allow_ragged_batch and -1 in i.dims),
            optional_inputs=any(i.optional for i in config.input),
            ranked=QueuePolicies.of(config) is not None,
        )


@dataclass(slots=True)  # not frozen: that would triple the time to make one
class Batch:
    """The first `count` requests of the queue go now; `reason` is why no more of them do."""

    count: int
    size: int
    reason: str


_CANCEL = Batch(0, 0, "cancel")
_TIMEOUT = Batch(0, 0, "timeout")


@dataclass(slots=True)
class Wait:
    """Nothing goes before `until`, unless another request comes."""

    until: int


class Batchable(Protocol):
    """What a batch is decided by: a request, or a sequence's candidate. `queue_start`: when it came to the batcher."""

    batch_size: int
    queue_start: int
    inputs: dict[str, Tensor]


def take_batch(queue: Iterable[Batchable], config: BatchConfig, now: int) -> Batch | Wait | None:
    """What an idle instance should do with the queue, oldest request first; None if it is empty (rules 5.5.2-5.5.6).

    With a delay a batch goes as soon as it has a preferred size, or would outgrow all of them or `max_batch_size` with
    the next request, or the next one does not fit it, or its oldest request has waited that long; without one, what is
    there goes.
    """
    first: Batchable | None = None
    key: tuple[Any, Any] = (None, None)
    count = size = 0
    reason = ""
    preferred: Batch | None = None
    largest = config.preferred[-1] if config.preferred else 0
    comparable = bool(config.equal_shape_inputs) or config.optional_inputs
    for request in queue:
        if first is None:
            first = request
            if not config.dynamic:
                return Batch(1, request.batch_size, "no dynamic batching")
            key = batch_key(request, config) if comparable else key
        else:
            if size + request.batch_size > largest and preferred is None:
                full = size + request.batch_size > config.max_batch_size
                preferred = Batch(count, size, "full" if full else "next exceeds preferred")
            if size + request.batch_size > config.max_batch_size:
                reason = "full"
                break
            other = batch_key(request, config) if comparable else key
            if other != key:
                reason = "optional inputs" if other[0] != key[0] else "shape"
                break
        count += 1
        size += request.batch_size
        if size in config.preferred:
            preferred = Batch(count, size, "full" if size == config.max_batch_size else "preferred")
    if first is None:
        return None
    due = first.queue_start + config.delay
    if config.ranked:
        due = min(request.queue_start for request in islice(queue, count)) + config.delay
    expired = config.delay > 0 and now >= due
    if preferred is not None and not expired:
        return preferred
    if reason or size >= config.max_batch_size:
        return Batch(count, size, reason or "full")
    if expired:
        return Batch(count, size, "delay")
    if size >= largest:
        return Batch(count, size, "exceeds preferred")
    return Batch(count, size, "no delay") if config.delay == 0 else Wait(due)


def batch_key(request: Batchable, config: BatchConfig) -> tuple[Any, Any]:
    """Requests with equal keys may share a batch: (present inputs, shapes beyond the batch dimension)."""
    inputs = request.inputs
    present = frozenset(inputs) if config.optional_inputs else None
    if not config.equal_shape_inputs:
        return present, None
    return present, tuple([inputs[n].shape[1:] if n in inputs else None for n in config.equal_shape_inputs])


class DynamicBatchScheduler:
    """Queues a model version's requests and gives idle instances their batches.

    Guarantees: requests leave in the order they came, or in that of their `policies`; with `preserve_ordering` their
    responses do too. With `hold_until` nothing executes before so many requests wait, once. `execute` is called without
    the lock held, on the thread that made the batch possible: the client's own if an instance was idle. `stats` counts
    what was queued and never executed.
    """

    def __init__(
        self,
        name: str,
        version: int,
        config: BatchConfig,
        clock: Clock,
        instruments: Instruments,
        timer: WakeUp,
        *,
        policies: QueuePolicies | None = None,
        preserve_ordering: bool = False,
        stats: InferStats | None = None,
        limiter: RateLimiter | None = None,
        hold_until: int = 0,
    ) -> None:
        self.name = name
        self.version = version
        self.config = config
        self._clock = clock
        self._instruments = instruments
        self._timer = timer
        self._stats = stats
        self._order = ResponseOrder() if preserve_ordering else None
        self._lock = threading.Lock()  # guards everything below
        self._policies = PolicyQueue(policies) if policies is not None else None
        self._queue: deque[InferenceRequest] | PolicyQueue = deque() if self._policies is None else self._policies
        self._idle: deque[Instance] = deque()
        self._limiter = limiter
        self._take_idle: Callable[[], Instance | None] = self._idle.popleft if limiter is None else self._take_admitted
        if hold_until:
            self._take_idle = partial(self._take_when_queued, hold_until, self._take_idle)
        self._away: set[int] = set()  # ids of instances whose stubs are being replaced
        self._instances = 0
        self._wake_at = 0
        self._refusal: TritonError | None = None
        self._empty = threading.Condition(self._lock)

    @property
    def pending(self) -> int:
        """Requests that wait."""
        return len(self._queue)

    def enqueue(self, request: InferenceRequest) -> None:
        """Takes a checked request. Raises UnavailableError once the scheduler stops, when no instance is left, or when
        the queue is full."""
        now = self._clock.now()
        request.queue_start = now
        with self._lock:
            if self._refusal is not None:
                raise self._refused(request)
            self._queue.append(request)
            request.advance(RequestEvent.ENQUEUE)
            if self._order is not None:
                self._order.admit(request)
            work = self._decide(now)
        hook = self._instruments.request_queued
        if hook is not None:
            hook(request, now)
        self._do(work, now)

    def _refused(self, request: InferenceRequest) -> TritonError:
        """The refusal as an exception of this request's own: one that several threads raise would mix their frames."""
        assert self._refusal is not None
        if isinstance(self._refusal, UnavailableError):
            return UnavailableError(request.prefix + self._refusal.message)
        return copy.copy(self._refusal)

    def waiting(self) -> list[InferenceRequest]:
        """The requests that wait, in the order of execution."""
        with self._lock:
            return list(self._queue)

    def withdraw(self, request: InferenceRequest) -> bool:
        """Takes a request that waits out of the queue, for the caller to answer; False if it does not wait."""
        with self._lock:
            if not any(queued is request for queued in self._queue):
                return False
            self._remove([request])
            if not self._queue:
                self._empty.notify_all()
        if self._order is not None:
            self._order.leave(request)
        return True

    def reschedule(self, request: InferenceRequest) -> bool:
        """Takes none back: only sequences are iterative (rule 3.9.5)."""
        return False

    def instance_ready(self, instance: Instance) -> None:
        """A new instance takes part, or one that was gone."""
        with self._lock:
            self._instances += 1
            if isinstance(self._refusal, ModelError):
                self._refusal = None  # there was no other
        self.instance_idle(instance)

    def instance_idle(self, instance: Instance) -> None:
        """An instance can take a batch."""
        now = self._clock.now()
        with self._lock:
            self._away.discard(id(instance))
            self._idle.append(instance)
            work = self._decide(now)
        self._do(work, now)

    def instance_away(self, instance: Instance) -> bool:
        """An instance takes no batches until it is idle again; whether it was idle now."""
        with self._lock:
            self._away.add(id(instance))
            self._empty.notify_all()
            if instance not in self._idle:
                return False
            self._idle.remove(instance)
            return True

    def instance_gone(self, instance: Instance, error: TritonError) -> None:
        """An instance takes no more batches; with the last one, waiting requests fail with `error`."""
        with self._lock:
            self._instances -= 1
            self._away.discard(id(instance))
            if instance in self._idle:
                self._idle.remove(instance)
            self._empty.notify_all()
            if self._instances > 0:
                return
            self._refusal = self._refusal or error
            requests = list(self._queue)
            self._queue.clear()
        for request in requests:
            deliver_error(request, self.version, error, self._instruments, self._clock)

    def wake(self) -> None:
        """Looks at the queue again; the timer calls it, and tests do."""
        now = self._clock.now()
        with self._lock:
            self._wake_at = 0
            work = self._decide(now)
        self._do(work, now)

    def stop(self) -> None:
        """Refuses new requests and waits until no request waits and none is on its way to an instance."""
        with self._lock:
            self._refusal = UnavailableError(STOPPING)
        self.wake()  # nothing more will come to what waits for it
        with self._lock:
            while self._instances and (self._queue or len(self._idle) + len(self._away) < self._instances):
                self._empty.wait()

    def _decide(self, now: int) -> list[tuple[Instance | None, Sequence[InferenceRequest], Batch]]:
        """Under the lock: what to do, without doing it. A batch without an instance is dropped."""
        work: list[tuple[Instance | None, Sequence[InferenceRequest], Batch]] = []
        queue = self._queue
        while queue and self._idle:
            # Timeouts are looked at when something could be executed, as Triton does (rule 5.5.10).
            if self._policies is not None and (late := self._policies.expire(now)):
                work.append((None, late, _TIMEOUT))
                continue
            decision = take_batch(queue, self.config, now)
            if isinstance(decision, Wait):
                self._wait(decision.until)
                break
            assert decision is not None
            requests = list(islice(queue, decision.count))
            cancelled = [request for request in requests if request.cancelled] if self.config.dynamic else None
            if cancelled:
                work.append((None, cancelled, _CANCEL))
                self._remove(cancelled)
                queue = self._queue
                continue
            instance = self._take_idle()
            if instance is None:
                break
            for _ in requests:
                queue.popleft()
            work.append((instance, requests, decision))
        if self._refusal is not None and not queue:  # else nobody waits for that
            self._empty.notify_all()
        return work

    def _take_admitted(self) -> Instance | None:
        """The idle instance that is next by its priority, or None while its resources are taken: what is queued stays
        there, and makes a larger batch when they are free (rule 5.10.2)."""
        assert self._limiter is not None
        instance: Instance = self._limiter.first(self._idle)
        if not self._limiter.admit(instance, self.wake):
            return None
        self._idle.remove(instance)
        return instance

    def _take_when_queued(self, count: int, take: Callable[[], Instance | None]) -> Instance | None:
        if len(self._queue) < count and self._refusal is None:
            return None
        self._take_idle = take
        return take()

    def _wait(self, until: int) -> None:
        if self._policies is not None:
            deadline = self._policies.next_deadline()
            until = until if deadline is None else min(until, deadline)
        if until != self._wake_at:
            self._wake_at = until
            self._timer.call_at(until, self.wake)

    def _remove(self, requests: Sequence[InferenceRequest]) -> None:
        if self._policies is not None:
            self._policies.remove(requests)
        else:
            gone = {id(request) for request in requests}
            self._queue = deque(request for request in self._queue if id(request) not in gone)

    def _do(self, work: list[tuple[Instance | None, Sequence[InferenceRequest], Batch]], now: int) -> None:
        for instance, requests, batch in work:
            if instance is None:
                self._drop(requests, batch, now)
                continue
            hook = self._instruments.batch_formed
            if hook is not None:
                hook(self.name, self.version, requests, batch.size, batch.reason, now)
            payload = Payload(requests, batch.size, batch.reason)
            if self._policies is not None and self._policies.refuses:
                payload.late = self._drop_late
            instance.execute(payload)

    def _drop_late(self, requests: Sequence[InferenceRequest]) -> Sequence[InferenceRequest]:
        """Ends those whose time was up when they were to go out: the decision is as old as they were when they came,
        and a timeout may be shorter than the way to the stub (rule 5.5.10)."""
        assert self._policies is not None
        now = self._clock.now()
        late = self._policies.late(requests, now)
        self._drop(late, _TIMEOUT, now)
        return late

    def _drop(self, requests: Sequence[InferenceRequest], why: Batch, now: int) -> None:
        for request in requests:
            if self._order is not None:
                self._order.leave(request)
            if self._stats is not None:
                self._stats.record_rejected("CANCELED" if why is _CANCEL else "REJECTED", now - request.request_start)
            if why is _CANCEL:
                error: TritonError = CancelledError(request.prefix + "Request cancelled")  # rule 3.10.2
            else:
                error = UnavailableError("Request timeout expired")  # rule 5.5.9
            deliver_error(request, self.version, error, self._instruments, self._clock)

    def __repr__(self) -> str:
        delay = f" | delay {self.config.delay // 1000}us" if self.config.delay else ""
        return (
            f"<DynamicBatchScheduler {self.name}/{self.version} "
            f"[{len(self._queue)} queued | {self._instances - len(self._idle)} busy{delay}]>"
        )
