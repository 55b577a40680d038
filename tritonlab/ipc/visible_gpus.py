"""`VisibleGpus` are the GPUs that a server's instances may be placed on: this machine's, or simulated ones.

They are asked for when a configuration first needs them, once per server. Nothing here makes a CUDA context: a process
that has one cannot be forked from, and each context takes hundreds of megabytes of the GPU.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ..core.status import InvalidArgumentError
from ..stub._pb_stub.wire.driver import Driver
from ..stub._pb_stub.wire.gpus import CUDA, SIMULATED

_PROC = Path("/proc/driver/nvidia/gpus")
#: More would be a typing error: no machine has as many.
_MOST_SIMULATED = 64
#: The memory of a simulated GPU.
SIMULATED_BYTES = 16 << 30


class Gpu(NamedTuple):
    """Describes one GPU. `ordinal`: its number, as the processes of models count."""

    ordinal: int
    uuid: str
    name: str
    total_bytes: int
    simulated: bool = False


class VisibleGpus:
    """Holds the GPUs of one server. `simulated`: how many to simulate in the place of this machine's; 0 for none.
    Raises InvalidArgumentError for a number that cannot be meant.
    """

    def __init__(self, simulated: int = 0) -> None:
        if not 0 <= simulated <= _MOST_SIMULATED:
            raise InvalidArgumentError(f"simulated_gpus is {simulated}, expected 0 to {_MOST_SIMULATED}")
        self._count = simulated

    @cached_property
    def all(self) -> tuple[Gpu, ...]:
        """Returns the GPUs, in the order of their ordinals; none where there is none."""
        if self._count:
            return tuple(_simulated(ordinal) for ordinal in range(self._count))
        return tuple(Gpu(ordinal, "", "", 0) for ordinal in range(_count()))

    @property
    def simulated(self) -> bool:
        return self._count > 0

    @property
    def ordinals(self) -> tuple[int, ...]:
        return tuple(gpu.ordinal for gpu in self.all)

    @property
    def driver(self) -> Driver:
        """Returns what reads and writes the memory of these GPUs."""
        return SIMULATED if self.simulated else CUDA

    def uuid(self, ordinal: int) -> str:
        """Returns the UUID of a GPU; empty for one that is not there."""
        return next((gpu.uuid for gpu in self.all if gpu.ordinal == ordinal), "")


def _simulated(ordinal: int) -> Gpu:
    return Gpu(ordinal, f"GPU-simulated-{ordinal}", "simulated", SIMULATED_BYTES, simulated=True)


def _count() -> int:
    """Returns how many GPUs CUDA shows to the processes of models."""
    try:
        count = len(list(_PROC.iterdir()))
    except OSError:
        return 0
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return count
    return len([part for part in chosen.split(",") if part.strip() and part.strip() != "-1"])
