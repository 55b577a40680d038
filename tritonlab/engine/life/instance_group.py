"""The instances of one model version: made, started and stopped together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from ...core.metrics.infer_stats import InferStats
from .instance_plan import InstanceEvents, InstancePlan, InstanceServices
from .model_instance import ModelInstance
from .model_stub import ModelStub

#: The events of a passive instance, which has no scheduler (rule 5.1.4).
_UNHEARD: InstanceEvents[ModelInstance] = InstanceEvents(
    idle=lambda instance: None,
    away=lambda instance: False,
    gone=lambda instance: None,
    ready=lambda instance: None,
    reschedule=lambda request: False,
)


def make_instances(
    plans: Sequence[InstancePlan],
    services: InstanceServices[ModelInstance],
    stats: InferStats,
    events: InstanceEvents[ModelInstance],
) -> list[ModelInstance]:
    """Make the instances; none of them runs before `start_instances`."""
    return [ModelInstance(plan, services, stats, _UNHEARD if plan.passive else events) for plan in plans]


def start_instances(instances: Sequence[ModelInstance], first_stub: ModelStub | None = None) -> None:
    """Start all instances at once (rule 2.2); `first_stub` already imports the model for the first of them.

    Raises the first failure, in the order of the instances, once all others have ended.
    """
    if len(instances) == 1:
        instances[0].start(first_stub)
        return
    with ThreadPoolExecutor(len(instances), thread_name_prefix="load") as executor:
        starts = [
            executor.submit(instance.start, first_stub if index == 0 else None)
            for index, instance in enumerate(instances)
        ]
        try:
            wait(starts)
        except BaseException:  # an interrupt must not leave stubs behind, nor wait for them
            abort_instances(instances)
            raise
    failures = [start.exception() for start in starts]
    failure = next((f for f in failures if f is not None), None)
    if failure is not None:
        for instance in instances:
            instance.abort()
        raise failure


def stop_instances(instances: Sequence[ModelInstance]) -> None:
    """Block until all instances have finished their requests and finalized."""
    _each(instances, ModelInstance.stop)


def abort_instances(instances: Sequence[ModelInstance]) -> None:
    """End all instances at once."""
    _each(instances, ModelInstance.abort)


def _each(instances: Sequence[ModelInstance], do: Callable[[ModelInstance], None]) -> None:
    # Plain threads, because a pool starts none once the interpreter ends, when a kernel's server stops.
    others = [threading.Thread(target=do, args=(instance,), name="unload", daemon=True) for instance in instances[1:]]
    for thread in others:
        thread.start()
    for instance in instances[:1]:
        do(instance)
    for thread in others:
        thread.join()
