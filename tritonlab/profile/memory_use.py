"""The memory of the processes of a model's instances: shared memory in both directions, resident bytes, and memory of
GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..ipc.gpu.visible_gpus import VisibleGpus
from ..server.models.model_lifecycle import ModelVersion
from ..server.observe.idle_memory import resident

#: The bytes by which Triton's regions grow, unless its options set another value (`shm-growth-byte-size`).
_STEP = 1 << 20


class InstanceMemory(NamedTuple):
    """The bytes of one instance. A region only grows, so its size is its peak; `inputs_used` is what is in it now.
    `gpus`: by ordinal, what the process has of each, as far as that can be seen.
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


def shm_size(found: Iterable[InstanceMemory]) -> int:
    """Return the bytes of /dev/shm that Triton needs for what these instances have seen.

    An instance has one region for both directions there, and one first step where ours have two. Its blocks are a
    little larger, so that what just fits here may need two steps more there. Measured on Triton 2.51 with tensors of
    4 bytes to 100 MiB (`tests/conformance/test_shm_size.py`): it took as much as this returns or up to 7 MiB less. With
    3 MiB less than it took, a request failed with "Failed to increase the shared memory pool size …".
    """
    sizes = [-(-(one.inputs + one.outputs) // _STEP) * _STEP - _STEP for one in found]
    return sum(sizes) + 2 * _STEP if sizes else 0
