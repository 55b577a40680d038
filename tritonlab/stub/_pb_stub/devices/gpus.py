"""The drivers of this process, found by an address or a handle, so that a receiver of memory needs no setting."""

from __future__ import annotations

from typing import Union

from .cuda_driver import CudaDriver
from .driver import Driver
from .simulated_driver import SimulatedDriver, is_simulated

#: NVIDIA's driver, which is loaded at its first call.
CUDA = CudaDriver()
#: The GPUs of `Options(simulated_gpus=…)`, and of tests.
SIMULATED = SimulatedDriver()


def driver_of(memory: Union[int, bytes]) -> Driver:
    """Return the driver of the address or handle."""
    return SIMULATED if is_simulated(memory) else CUDA
