from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, cast

import pytest

from tritonlab.core.metrics.server_metrics import GpuUsage
from tritonlab.ipc.gpu.nvml import Nvml


class Driver:
    """An NVML with two GPUs, the second of which cannot say what it draws."""

    def __init__(self) -> None:
        self.joules = 100

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            if name == "nvmlDeviceGetComputeRunningProcesses_v3":
                return self.processes(arguments[0].value, arguments[1]._obj, arguments[2])
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

    def processes(self, index: int, count: Any, processes: Any) -> int:
        """Process 7 has memory of both, and nobody knows how much of process 8."""
        assert count.value == len(processes)
        processes[0].pid, processes[0].used = 7, 100 * index
        processes[1].pid, processes[1].used = 8, (1 << 64) - 1
        count.value = 2
        return 0


def test_gpus_say_what_they_can() -> None:
    driver = Driver()
    nvml = Nvml(cast(ctypes.CDLL, driver))
    driver.joules += 7
    assert nvml.usages() == [
        GpuUsage("GPU-1", 0.25, 1000, 10, 70.5, 700.0, 7.0),
        GpuUsage("GPU-2", 0.25, 1000, 10, None, None, 7.0),
    ]


def test_what_a_process_has_of_each_gpu() -> None:
    nvml = Nvml(cast(ctypes.CDLL, Driver()))
    assert (nvml.held(7), nvml.held(8), nvml.held(9)) == ({"GPU-1": 100, "GPU-2": 200}, {}, {})


def test_without_a_driver_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert Nvml.load() is None
