"""The live state, which a recording does not have yet: the requests that wait now, the executions that run, the streams
that are open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.inference.infer_request import InferenceRequest
from ..schedulers.sequence_batch_scheduler import SequenceBatchScheduler
from ..schedulers.sequence_occupancy import Occupancy
from ..server.models.model_lifecycle import ModelVersion

#: The most waiting requests that are listed one by one.
_SHOWN = 64


def live_state(versions: Iterable[ModelVersion]) -> dict[str, Any]:
    """Return JSON for a view: `waiting` (when each request came to the queue, oldest first), `waiting_count`, and
    `running` (instance, start, size, count).
    """
    waiting: list[int] = []
    running = []
    count = 0
    for version in versions:
        queued = version.scheduler.waiting()
        count += len(queued)
        waiting += [request.queue_start for request in queued[:_SHOWN]]
        for instance in (*version.instances, *version.leaving):
            payload = instance.payload
            if payload is not None and payload.requests:
                running.append(
                    {
                        "instance": instance.name,
                        "start": payload.requests[0].execute_start,
                        "size": payload.size,
                        "count": len(payload.requests),
                    }
                )
    return {"waiting": sorted(waiting)[:_SHOWN], "waiting_count": count, "running": running}


def open_requests(versions: Iterable[ModelVersion]) -> list[tuple[InferenceRequest, str, bool]]:
    """Return the requests that instances have not completed, each with its instance and whether its `execute` runs."""
    return [
        (request, instance.name, instance.executes(request))
        for version in versions
        for instance in (*version.instances, *version.leaving)
        for request in list(instance.inflight.values())
    ]


def occupancies(versions: Iterable[ModelVersion]) -> list[Occupancy]:
    """Return the slots of the sequence batchers."""
    return [one.scheduler.occupancy() for one in versions if isinstance(one.scheduler, SequenceBatchScheduler)]
