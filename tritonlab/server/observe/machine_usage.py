"""What the machine is doing, for the metrics: /proc, and the GPUs through NVML where there is one.

There is no thread: a request for the metrics reads, at most once per interval, and gets the numbers of the last
reading until then. Triton reads by a thread of its own all the time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from ...core.metrics.server_metrics import CpuUsage, GpuUsage
from ...ipc.gpu.nvml import Nvml


class MachineUsage:
    """The machine's usage; any thread may call any method. `clock()` is monotonic nanoseconds, `proc` the
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
        """Return busy ticks and all ticks of all CPUs since the machine started; zeros where there is no /proc."""
        try:
            first = (self._proc / "stat").read_text().partition("\n")[0]
        except OSError:
            return 0, 0
        ticks = [int(number) for number in first.split()[1:9]]  # guest time is part of user time
        idle = ticks[3] + ticks[4]
        return sum(ticks) - idle, sum(ticks)

    def _memory(self) -> tuple[int, int]:
        """Return the bytes of memory that the machine has, and those in use."""
        try:
            lines = (self._proc / "meminfo").read_text().splitlines()
        except OSError:
            return 0, 0
        kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        total = kilobytes["MemTotal"]
        return total << 10, (total - kilobytes["MemAvailable"]) << 10
