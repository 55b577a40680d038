"""`Scheduler` is the interface that the server and the instances see; the other protocols say what a scheduler needs of
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..core.infer_request import InferenceRequest
from ..core.status import TritonError
from ..instances.payload import Payload

#: The text with which a stopping scheduler refuses requests, behind their prefix (rule 5.4.1).
STOPPING = "Server is stopping, scheduler for model has stopped accepting new inference requests"


class Instance(Protocol):
    """Executes payloads for a scheduler."""

    @property
    def name(self) -> str:
        """Returns what people know it by."""
        ...

    def execute(self, payload: Payload) -> None:
        """Starts to execute a payload; must not block. The scheduler calls it without a lock held, and once for each
        `instance_idle`."""
        ...


class WakeUp(Protocol):
    """Calls functions at a later time (`timer.Timer`, or a fake)."""

    def call_at(self, when: int, function: Callable[[], None]) -> None: ...


class Scheduler(Protocol):
    """Holds a model version's requests until they can be executed.

    All methods may be called from any thread; none blocks but `stop`.
    """

    @property
    def pending(self) -> int:
        """Returns how many requests wait."""
        ...

    def enqueue(self, request: InferenceRequest) -> None:
        """Takes a checked request. Raises TritonError if it refuses the request, which then is not executed."""
        ...

    def waiting(self) -> list[InferenceRequest]:
        """Returns the requests that wait, for views and logs."""
        ...

    def withdraw(self, request: InferenceRequest) -> bool:
        """Takes a waiting request out of the queue, for the caller to answer. Returns False if it does not wait here
        (any more), or cannot be taken out."""
        ...

    def stop(self) -> None:
        """Refuses new requests; blocks until no request waits and none is on its way to an instance."""
        ...


class InstanceScheduler(Scheduler, Protocol):
    """Has instances execute the requests."""

    def reschedule(self, request: InferenceRequest) -> bool:
        """Takes a request back that the model released with RESCHEDULE. The instance calls this before
        `instance_idle`. Returns False if this scheduler takes no such requests (rule 3.9.5). Raises TritonError if
        this request cannot come back."""
        ...

    def instance_ready(self, instance: Instance) -> None:
        """Lets an instance take part that is new, or was gone."""
        ...

    def instance_idle(self, instance: Instance) -> None:
        """Notes that the instance has executed its payload and can take another."""
        ...

    def instance_away(self, instance: Instance) -> bool:
        """Gives the instance no payload until it is idle again, because its stub died. Returns whether it was idle."""
        ...

    def instance_gone(self, instance: Instance, error: TritonError) -> None:
        """Gives the instance no payload until it is ready again. Requests that only it could have executed fail with
        `error`."""
        ...

    def wake(self) -> None:
        """Looks at the queue again; the timer calls it."""
        ...
