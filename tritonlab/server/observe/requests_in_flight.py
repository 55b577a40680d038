"""The requests that a server has not answered yet: their place, age, sender and reason to wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.inference.infer_request import InferenceRequest
from ...engine.calls.blocked_calls import BlsCall
from ...engine.life.model_instance import ModelInstance
from ...engine.schedulers.ensemble_scheduler import EnsembleScheduler
from ..models.model_lifecycle import ModelVersion


@dataclass(frozen=True, slots=True)
class HeldRequest:
    """One request in flight.

    If `instance` is None, it waits in the queue of `version`, or for the steps of an ensemble. `caller`: the instance
    whose model made it (BLS); None for a client's. Times are nanoseconds: since its arrival, and since its last event.
    """

    request: InferenceRequest
    version: ModelVersion
    instance: ModelInstance | None
    caller: ModelInstance | None
    age: int
    waited: int

    @property
    def steps(self) -> bool:
        """Return whether it is an ensemble's request, whose steps are requests of their own."""
        return isinstance(self.version.scheduler, EnsembleScheduler)

    @property
    def state(self) -> str:
        """Return `pending` in a queue, `executing`, or `open`: its `execute` call has returned and left it to its
        response sender.
        """
        if self.instance is None:
            return "executing" if self.steps else "pending"
        return "executing" if self.instance.executes(self.request) else "open"

    def to_dict(self) -> dict[str, Any]:
        """Return the facts for people and views; times in seconds."""
        request, instance, caller = self.request, self.instance, self.caller
        return {
            "model": self.version.name,
            "version": self.version.version,
            "request_id": request.request_id,
            "serial": request.serial,
            "state": self.state,
            "cancelled": request.cancelled,
            "age": self.age / 1e9,
            "waited": self.waited / 1e9,
            "instance": instance.name if instance is not None else "",
            "pid": instance.pid if instance is not None else None,
            "called_by": caller.name if caller is not None else "",
        }


def survey(versions: Iterable[ModelVersion], calls: Sequence[BlsCall], now: int) -> list[HeldRequest]:
    """Return all requests in flight, oldest first. `calls`: the unanswered BLS calls."""
    callers = {id(call.request): call.caller for call in calls}
    found: dict[int, HeldRequest] = {}
    for version in versions:
        # in this order: a request that leaves the queue meanwhile is seen twice, rather than never
        places: list[tuple[InferenceRequest, ModelInstance | None]]
        places = [(request, None) for request in version.scheduler.waiting()]
        instances = [*version.instances, *version.leaving]
        places += [(r, instance) for instance in instances for r in list(instance.inflight.values())]
        for request, instance in places:
            last = max(request.queue_start, request.execute_start, request.responded)
            caller = callers.get(id(request))
            found[request.serial] = HeldRequest(
                request, version, instance, caller, age=now - request.request_start, waited=now - last
            )
    return sorted(found.values(), key=lambda held: held.request.serial)
