"""`Scheduler` is what every scheduler is to the server and to the instances; the other protocols are what it needs of
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..core.infer_request import InferenceRequest
from ..core.status import TritonError
from ..instances.payload import Payload

#: What a scheduler that stops says to new requests, behind their prefix (rule 5.4.1).
STOPPING = "Server is stopping, scheduler for model has stopped accepting new inference requests"


class Instance(Protocol):
    """What a scheduler needs of a model instance."""

    def execute(self, payload: Payload) -> None:
        """Called without a lock held, only between `instance_idle` and the next one. Must not block."""
        ...


class WakeUp(Protocol):
    """`timer.Timer`, or a fake."""

    def call_at(self, when: int, function: Callable[[], None]) -> None: ...


class Scheduler(Protocol):
    """Holds a model version's requests until they can be executed.

    All methods may be called from any thread; none blocks but `stop`.
    """

    @property
    def pending(self) -> int:
        """Requests that wait."""
        ...

    def enqueue(self, request: InferenceRequest) -> None:
        """Takes a checked request. Raises TritonError if it is refused; then nothing was executed."""
        ...

    def waiting(self) -> list[InferenceRequest]:
        """The requests that wait, for what shows them."""
        ...

    def withdraw(self, request: InferenceRequest) -> bool:
        """Takes a request that waits out of the queue, for the caller to answer. False if it does not wait here (any
        more), or cannot be taken out."""
        ...

    def stop(self) -> None:
        """Refuses new requests; blocks until no request waits and none is on its way to an instance."""
        ...


class InstanceScheduler(Scheduler, Protocol):
    """Has instances execute the requests."""

    def reschedule(self, request: InferenceRequest) -> bool:
        """Takes a request back that the model released with RESCHEDULE; called by the instance before it says that it
        is idle. False if this scheduler does not know such requests (rule 3.9.5). Raises TritonError if this one
        cannot come back."""
        ...

    def instance_ready(self, instance: Instance) -> None:
        """A new instance takes part, or one that was gone."""
        ...

    def instance_idle(self, instance: Instance) -> None:
        """The instance's last payload is executed, it can take another."""
        ...

    def instance_away(self, instance: Instance) -> bool:
        """The instance's stub died, it takes nothing until it is idle again; whether it was idle now."""
        ...

    def instance_gone(self, instance: Instance, error: TritonError) -> None:
        """The instance takes no payloads until it is ready again; what only it could have executed fails with
        `error`."""
        ...

    def wake(self) -> None:
        """Looks at the queue again: the timer's call."""
        ...
