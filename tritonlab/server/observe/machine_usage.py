"""This module reads what the machine is doing, for the metrics: /proc, and the GPUs through NVML where there is one.

There is no thread: whoever asks for the metrics reads, at most once per interval, and gets the numbers of the last
reading until then. Triton reads by a thread of its own all the time.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path

from ...core.server_metrics import CpuUsage, GpuUsage


class MachineUsage:
    """Reads the machine's usage; any thread may call any method. `clock()` is monotonic nanoseconds, `proc` the
    directory of /proc.
    """

    def __init__(self, interval_ms: float, clock: Callable[[], int], proc: Path = Path("/proc")) -> None:
        self._interval = int(interval_ms * 1e6)
        self._clock = clock
        self._proc = proc
        self._lock = threading.Lock()  # guards all of the below
        self._nvml = Nvml.load()
        self._ticks = self._cpu_ticks()
        self._read_at = clock()
        self._cpu = CpuUsage(0.0, *self._memory())
        self._gpus = self._nvml.usages() if self._nvml else []

    def read(self) -> tuple[CpuUsage, list[GpuUsage]]:
        with self._lock:
            now = self._clock()
            if now - self._read_at >= self._interval:
                self._read_at = now
                before, self._ticks = self._ticks, self._cpu_ticks()
                busy, total = (after - b for after, b in zip(self._ticks, before, strict=True))
                self._cpu = CpuUsage(busy / total if total > 0 else self._cpu.utilization, *self._memory())
                self._gpus = self._nvml.usages() if self._nvml else []
            return self._cpu, self._gpus

    def _cpu_ticks(self) -> tuple[int, int]:
        """Returns busy ticks and all ticks of all CPUs since the machine started; zeros where there is no /proc."""
        try:
            first = (self._proc / "stat").read_text().partition("\n")[0]
        except OSError:
            return 0, 0
        ticks = [int(number) for number in first.split()[1:9]]  # guest time is part of user time
        idle = ticks[3] + ticks[4]
        return sum(ticks) - idle, sum(ticks)

    def _memory(self) -> tuple[int, int]:
        """Returns the bytes of memory that the machine has, and those in use."""
        try:
            lines = (self._proc / "meminfo").read_text().splitlines()
        except OSError:
            return 0, 0
        kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        total = kilobytes["MemTotal"]
        return total << 10, (total - kilobytes["MemAvailable"]) << 10


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class Nvml:
    """Reads the GPUs through the driver's management library; `load` gives None where there is no driver or no GPU."""

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
        """Returns the GPUs' usages by index."""
        return [self._usage(uuid, device) for uuid, device in self._devices.items()]

    def _usage(self, uuid: str, device: ctypes.c_void_p) -> GpuUsage:
        rates, memory = _Utilization(), _Memory()
        has_rates = self._says("nvmlDeviceGetUtilizationRates", device, rates)
        has_memory = self._says("nvmlDeviceGetMemoryInfo", device, memory)
        energy, start = self._energy(device), self._energy_at_start[uuid]
        return GpuUsage(
            uuid,
            rates.gpu / 100 if has_rates else None,
            memory.total if has_memory else None,
            memory.used if has_memory else None,
            self._milli("nvmlDeviceGetPowerUsage", device),
            self._milli("nvmlDeviceGetPowerManagementLimit", device),
            None if energy is None or start is None else energy - start,
        )

    def _says(self, name: str, device: ctypes.c_void_p, answer: ctypes.Structure) -> bool:
        return bool(getattr(self._library, name)(device, ctypes.byref(answer)) == 0)

    def _milli(self, name: str, device: ctypes.c_void_p) -> float | None:
        value = ctypes.c_uint()
        failed = getattr(self._library, name)(device, ctypes.byref(value)) != 0
        return None if failed else value.value / 1000

    def _energy(self, device: ctypes.c_void_p) -> float | None:
        """Returns the joules used since the driver was loaded."""
        value = ctypes.c_ulonglong()
        failed = self._library.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(value)) != 0
        return None if failed else value.value / 1000
