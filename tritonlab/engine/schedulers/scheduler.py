"""`Scheduler`, the interface for the server and the instances, and the protocols of a scheduler's own dependencies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ...core.clock import Clock
from ...core.inference.infer_request import InferenceRequest
from ...core.metrics.infer_stats import InferStats
from ...core.observe.instrument import Instruments
from ...core.status import TritonError
from ..execution.payload import Payload
from ..execution.rate_limiter import RateLimiter

#: The text with which a stopping scheduler refuses requests, after their prefix (rule 5.4.1).
STOPPING = "Server is stopping, scheduler for model has stopped accepting new inference requests"


class Instance(Protocol):
    """An executor of a scheduler's payloads."""

    @property
    def name(self) -> str:
        """The name for people."""
        ...

    def execute(self, payload: Payload) -> None:
        """Start to execute a payload; must not block. The scheduler calls it without a lock held, and once for each
        `instance_idle`.
        """
        ...


class WakeUp(Protocol):
    """Calls at a later time (`timer.Timer`, or a fake)."""

    def call_at(self, when: int, function: Callable[[], None]) -> None: ...


@dataclass(frozen=True)
class SchedulerServices:
    """The services for the scheduler of a model version. `warn` is called with the lines that Triton would log;
    `limiter` is None if executions share no resources.
    """

    clock: Clock
    instruments: Instruments
    timer: WakeUp
    stats: InferStats
    warn: Callable[[str], None]
    limiter: RateLimiter | None = None


class Scheduler(Protocol):
    """The queue of a model version: requests wait in it until they can be executed.

    All methods may be called from any thread; none blocks but `stop`.
    """

    @property
    def pending(self) -> int:
        """The number of waiting requests."""
        ...

    def enqueue(self, request: InferenceRequest) -> None:
        """Take a checked request. Raises TritonError if it refuses the request, which then is not executed."""
        ...

    def waiting(self) -> list[InferenceRequest]:
        """Return the requests that wait, for views and logs."""
        ...

    def withdraw(self, request: InferenceRequest) -> bool:
        """Take a waiting request out of the queue, for the caller to end. Returns False if it does not wait here, or
        cannot be taken out.
        """
        ...

    def stop(self) -> None:
        """Refuse new requests; block until no request waits and none is on its way to an instance."""
        ...


class InstanceScheduler(Scheduler, Protocol):
    """A scheduler whose instances execute the requests."""

    def reschedule(self, request: InferenceRequest) -> bool:
        """Take a request back that the model released with RESCHEDULE. The instance calls this before `instance_idle`.
        Returns False if this scheduler takes no such requests (rule 3.9.5). Raises TritonError if this request cannot
        be queued again.
        """
        ...

    def instance_ready(self, instance: Instance) -> None:
        """Add an instance that is new, or was gone."""
        ...

    def instance_idle(self, instance: Instance) -> None:
        """Record that the instance has executed its payload and can take another."""
        ...

    def instance_away(self, instance: Instance) -> bool:
        """Give the instance no payload until it is idle again, because its stub died. Returns whether it was idle."""
        ...

    def instance_gone(self, instance: Instance, error: TritonError) -> None:
        """Give the instance no payload until it is ready. Requests that only it could execute fail with `error`."""
        ...

    def wake(self) -> None:
        """Decide on the queue again. Called by the timer."""
        ...
