"""The current state of a model, which recordings lack: waiting requests, running executions, open streams, and the
memory of its instances' processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..core.inference.infer_request import InferenceRequest
from ..engine.schedulers.sequence_batch_scheduler import SequenceBatchScheduler
from ..engine.schedulers.sequence_occupancy import Occupancy
from ..ipc.gpu.visible_gpus import VisibleGpus
from ..server.models.model_lifecycle import ModelVersion
from ..server.observe.idle_memory import peak_resident, resident

#: The bytes by which Triton's regions grow, unless its options set another value (`shm-growth-byte-size`).
_STEP = 1 << 20

#: The most waiting requests that are listed one by one.
_SHOWN = 64


def live_state(versions: Iterable[ModelVersion]) -> dict[str, Any]:
    """Return JSON for a view: `instances` (their names), `waiting` (when each request came to the queue, oldest first),
    `waiting_count`, and `running` (instance, start, size, count).
    """
    waiting: list[int] = []
    running = []
    instances: list[str] = []
    count = 0
    for version in versions:
        queued = version.scheduler.waiting()
        count += len(queued)
        waiting += [request.queue_start for request in queued[:_SHOWN]]
        instances += [instance.name for instance in version.instances]
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
    return {
        "instances": instances,
        "waiting": sorted(waiting)[:_SHOWN],
        "waiting_count": count,
        "running": running,
    }


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


class InstanceMemory(NamedTuple):
    """The bytes of one instance: shared memory in both directions, resident memory, and GPU memory. A region only
    grows, so its size is its peak; `inputs_used`: its bytes in use now. `gpus`: by ordinal, the bytes of the process on
    each GPU, as far as known.
    """

    instance: str
    inputs: int
    inputs_used: int
    outputs: int
    resident: int
    gpus: Mapping[int, int] = {}


def memory_use(versions: Iterable[ModelVersion], gpus: VisibleGpus) -> list[InstanceMemory]:
    found = []
    for version in versions:
        for instance in version.instances:
            stub = instance.stub
            if stub is None or stub.link.lost:
                continue
            region = stub.link.region
            pid, outputs = stub.process.pid, stub.link.stub_region.size
            there = resident(pid), gpus.held(pid)
            found.append(InstanceMemory(instance.name, region.size, region.used, outputs, *there))
    return found


def peak_memory(versions: Iterable[ModelVersion]) -> int:
    """Return the sum of the most memory in bytes that each instance's process has had."""
    stubs = [instance.stub for version in versions for instance in version.instances]
    return sum(peak_resident(stub.process.pid) for stub in stubs if stub is not None and not stub.link.lost)


def shm_size(found: Iterable[InstanceMemory]) -> int:
    """Return the bytes of /dev/shm that Triton needs for the requests that these instances have had.

    On Triton an instance has one region for both directions, and so one first step instead of two. Its blocks are a
    little larger, so that tensors that just fit here may need two steps more there. Measured on Triton 2.51 with
    tensors of 4 bytes to 100 MiB (`tests/conformance/test_shm_size.py`): Triton took as much as this returns, or up to
    7 MiB less. With 3 MiB less than Triton took, a request failed with "Failed to increase the shared memory pool size
    …".
    """
    sizes = [-(-(one.inputs + one.outputs) // _STEP) * _STEP - _STEP for one in found]
    return sum(sizes) + 2 * _STEP if sizes else 0
