"""The GPUs as shown by NVML, the driver's management library, which makes no CUDA context.

It is called through `pynvml`, the module of NVIDIA's own nvidia-ml-py (extra `gpu`), which is pure Python. It is
imported only on machines with a driver, because that takes 80 ms
(2026-11-24, `python -X importtime -c "import pynvml"`).
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import logging
from collections.abc import Callable
from typing import Any

from ...core.metrics.server_metrics import GpuUsage

_log = logging.getLogger(__name__)


class Nvml:
    """The GPUs through the driver's management library. `library`: the module `pynvml`, initialised."""

    def __init__(self, library: Any) -> None:
        self._library = library
        handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())]
        self._devices: dict[str, Any] = {library.nvmlDeviceGetUUID(device): device for device in handles}
        self._energy_at_start = {uuid: self._energy(device) for uuid, device in self._devices.items()}

    @staticmethod
    def load() -> Nvml | None:
        """Return the GPUs; None where there is no driver or no GPU, and, with a warning, without nvidia-ml-py."""
        if not _has_driver():
            return None
        try:
            library = importlib.import_module("pynvml")
        except ModuleNotFoundError:
            _warn_missing()
            return None
        try:
            library.nvmlInit()
            return Nvml(library)
        except library.NVMLError:
            return None

    def usages(self) -> list[GpuUsage]:
        """Return the GPUs' usages by index."""
        return [self._usage(uuid, device) for uuid, device in self._devices.items()]

    def _usage(self, uuid: str, device: Any) -> GpuUsage:
        library = self._library
        rates = self._known(library.nvmlDeviceGetUtilizationRates, device)
        memory = self._known(library.nvmlDeviceGetMemoryInfo, device)
        energy, start = self._energy(device), self._energy_at_start[uuid]
        return GpuUsage(
            uuid,
            utilization=rates.gpu / 100 if rates is not None else None,
            memory_total=memory.total if memory is not None else None,
            memory_used=memory.used if memory is not None else None,
            power_usage=self._milli(library.nvmlDeviceGetPowerUsage, device),
            power_limit=self._milli(library.nvmlDeviceGetPowerManagementLimit, device),
            energy=None if energy is None or start is None else energy - start,
        )

    def held(self, pid: int) -> dict[str, int]:
        """Return the bytes of memory that a process has on each GPU, by UUID. In a container with process ids of its
        own the driver may not find the process."""
        found = {}
        for uuid, device in self._devices.items():
            processes = self._known(self._library.nvmlDeviceGetComputeRunningProcesses, device) or []
            used = sum(each.usedGpuMemory or 0 for each in processes if each.pid == pid)  # None: unknown
            if used:
                found[uuid] = used
        return found

    def _known(self, query: Callable[[Any], Any], device: Any) -> Any:
        """Return the answer to a query; None where the GPU or its driver has none."""
        try:
            return query(device)
        except self._library.NVMLError:
            return None

    def _milli(self, query: Callable[[Any], Any], device: Any) -> float | None:
        value = self._known(query, device)
        return None if value is None else value / 1000

    def _energy(self, device: Any) -> float | None:
        """Return the joules used since the driver was loaded."""
        return self._milli(self._library.nvmlDeviceGetTotalEnergyConsumption, device)


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


@functools.cache
def _warn_missing() -> None:
    """Warn once that a GPU is not measured."""
    _log.warning(
        "nvidia-ml-py is not installed, so the metrics of GPUs are missing (nv_gpu_*, the memory of instances): "
        "pip install 'tritonlab[gpu]'"
    )
