from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tritonlab.core.server_metrics import GpuUsage
from tritonlab.server.observe.machine_usage import MachineUsage, Nvml


class Proc:
    """A /proc, and a clock."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = 0
        self.set(busy=0, idle=0, free=1000)
        self.usage = MachineUsage(2000, lambda: self.now, directory)

    def set(self, busy: int, idle: int, free: int) -> None:
        (self.directory / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 77 77\ncpu0 1 1 1 1\n")
        (self.directory / "meminfo").write_text(f"MemTotal:   1000 kB\nMemFree: 1 kB\nMemAvailable:  {free} kB\n")


def test_utilization_is_that_of_the_last_interval(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    cpu, _ = proc.usage.read()
    assert (cpu.utilization, cpu.memory_total, cpu.memory_used) == (0.0, 1_024_000, 0)
    proc.set(busy=30, idle=70, free=400)
    proc.now += 1_999_999_999
    assert proc.usage.read()[0] == cpu
    proc.now += 1
    cpu, _ = proc.usage.read()
    assert (cpu.utilization, cpu.memory_used) == (0.3, 600 << 10)
    proc.set(busy=130, idle=70, free=400)
    proc.now += 2_000_000_000
    assert proc.usage.read()[0].utilization == 1.0


def test_a_machine_without_proc(tmp_path: Path) -> None:
    cpu, _ = MachineUsage(0, lambda: 0, tmp_path / "none").read()
    assert (cpu.utilization, cpu.memory_total, cpu.memory_used) == (0.0, 0, 0)


class Driver:
    """An NVML with two GPUs, the second of which cannot say what it draws."""

    def __init__(self) -> None:
        self.joules = 100

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            answer = arguments[-1] if name != "nvmlDeviceGetUUID" else arguments[1]
            index = arguments[0] if name.endswith("Index_v2") else getattr(arguments[0], "value", 0) or 0
            return self.say(name, index, getattr(answer, "_obj", answer))

        return call

    def say(self, name: str, index: int, answer: Any) -> int:
        if index == 2 and "Power" in name:
            return 3  # NVML_ERROR_NOT_SUPPORTED
        if name == "nvmlDeviceGetUtilizationRates":
            answer.gpu = 25
        elif name == "nvmlDeviceGetMemoryInfo":
            answer.total, answer.used = 1000, 10
        else:
            answer.value = {
                "nvmlDeviceGetCount_v2": 2,
                "nvmlDeviceGetHandleByIndex_v2": index + 1,
                "nvmlDeviceGetUUID": b"GPU-%d" % index,
                "nvmlDeviceGetPowerUsage": 70_500,
                "nvmlDeviceGetPowerManagementLimit": 700_000,
                "nvmlDeviceGetTotalEnergyConsumption": self.joules * 1000,
            }[name]
        return 0


def test_gpus_say_what_they_can() -> None:
    driver = Driver()
    nvml = Nvml(cast(ctypes.CDLL, driver))
    driver.joules += 7
    assert nvml.usages() == [
        GpuUsage("GPU-1", 0.25, 1000, 10, 70.5, 700.0, 7.0),
        GpuUsage("GPU-2", 0.25, 1000, 10, None, None, 7.0),
    ]


def test_without_a_driver_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert Nvml.load() is None
