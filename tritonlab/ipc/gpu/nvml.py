"""The GPUs as NVML shows them, the driver's management library, which makes no CUDA context."""

from __future__ import annotations

import ctypes

from ...core.metrics.server_metrics import GpuUsage

#: What NVML says of memory that it cannot know.
_UNKNOWN = (1 << 64) - 1
_MOST_PROCESSES = 1024


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Process(ctypes.Structure):
    """An nvmlProcessInfo_t."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class Nvml:
    """The GPUs through the driver's management library; `load` gives None where there is no driver or no GPU."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        self._devices: dict[str, ctypes.c_void_p] = {}
        for index in range(count.value):
            device = ctypes.c_void_p()
            self._call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device))
            uuid = ctypes.create_string_buffer(96)
            self._call("nvmlDeviceGetUUID", device, uuid, 96)
            self._devices[uuid.value.decode()] = device
        self._energy_at_start = {uuid: self._energy(device) for uuid, device in self._devices.items()}

    @staticmethod
    def load() -> Nvml | None:
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            if library.nvmlInit_v2() != 0:
                return None
            return Nvml(library)
        except (OSError, RuntimeError):
            return None

    def _call(self, name: str, *arguments: object) -> None:
        result = getattr(self._library, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name} returned {result}")

    def usages(self) -> list[GpuUsage]:
        """Return the GPUs' usages by index."""
        return [self._usage(uuid, device) for uuid, device in self._devices.items()]

    def _usage(self, uuid: str, device: ctypes.c_void_p) -> GpuUsage:
        rates, memory = _Utilization(), _Memory()
        has_rates = self._says("nvmlDeviceGetUtilizationRates", device, rates)
        has_memory = self._says("nvmlDeviceGetMemoryInfo", device, memory)
        energy, start = self._energy(device), self._energy_at_start[uuid]
        return GpuUsage(
            uuid,
            utilization=rates.gpu / 100 if has_rates else None,
            memory_total=memory.total if has_memory else None,
            memory_used=memory.used if has_memory else None,
            power_usage=self._milli("nvmlDeviceGetPowerUsage", device),
            power_limit=self._milli("nvmlDeviceGetPowerManagementLimit", device),
            energy=None if energy is None or start is None else energy - start,
        )

    def held(self, pid: int) -> dict[str, int]:
        """Return the bytes of memory that a process has of each GPU, by UUID. In a container that has process ids of
        its own the driver may not know the process."""
        found = {}
        for uuid, device in self._devices.items():
            used = sum(each.used for each in self._processes(device) if each.pid == pid and each.used != _UNKNOWN)
            if used:
                found[uuid] = used
        return found

    def _processes(self, device: ctypes.c_void_p) -> list[_Process]:
        ask = self._library.nvmlDeviceGetComputeRunningProcesses_v3
        processes = (_Process * _MOST_PROCESSES)()
        count = ctypes.c_uint(_MOST_PROCESSES)
        return processes[: count.value] if ask(device, ctypes.byref(count), processes) == 0 else []

    def _says(self, name: str, device: ctypes.c_void_p, answer: ctypes.Structure) -> bool:
        return bool(getattr(self._library, name)(device, ctypes.byref(answer)) == 0)

    def _milli(self, name: str, device: ctypes.c_void_p) -> float | None:
        value = ctypes.c_uint()
        failed = getattr(self._library, name)(device, ctypes.byref(value)) != 0
        return None if failed else value.value / 1000

    def _energy(self, device: ctypes.c_void_p) -> float | None:
        """Return the joules used since the driver was loaded."""
        value = ctypes.c_ulonglong()
        failed = self._library.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(value)) != 0
        return None if failed else value.value / 1000
