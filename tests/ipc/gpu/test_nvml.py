from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tritonlab.core.metrics.server_metrics import GpuUsage
from tritonlab.ipc.gpu import nvml as module
from tritonlab.ipc.gpu.nvml import Nvml

NOT_SUPPORTED, INSUFFICIENT_SIZE = 3, 7


class Driver:
    """The library of a driver with two GPUs, the second of which cannot say what it draws."""

    def __init__(self) -> None:
        self.joules = 100

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            if name.startswith("nvmlDeviceGetComputeRunningProcesses"):
                return self.processes(_number(arguments[0]), arguments[1]._obj, arguments[2])
            if name.startswith("nvmlInit"):
                return 0
            answer = arguments[-1] if name != "nvmlDeviceGetUUID" else arguments[1]
            return self.answer(name, _number(arguments[0]), getattr(answer, "_obj", answer))

        return call

    def answer(self, name: str, index: int, answer: Any) -> int:
        if index == 2 and "Power" in name:
            return NOT_SUPPORTED
        if name == "nvmlDeviceGetUtilizationRates":
            answer.gpu = 25
        elif name == "nvmlDeviceGetMemoryInfo":
            answer.total, answer.used = 1000, 10
        elif name == "nvmlDeviceGetHandleByIndex_v2":
            ctypes.cast(ctypes.byref(answer), ctypes.POINTER(ctypes.c_void_p))[0] = index + 1
        else:
            answer.value = {
                "nvmlDeviceGetCount_v2": 2,
                "nvmlDeviceGetUUID": b"GPU-%d" % index,
                "nvmlDeviceGetPowerUsage": 70_500,
                "nvmlDeviceGetPowerManagementLimit": 700_000,
                "nvmlDeviceGetTotalEnergyConsumption": self.joules * 1000,
            }[name]
        return 0

    def processes(self, index: int, count: Any, processes: Any) -> int:
        """Report process 7 with memory of both GPUs, and process 8 with memory that nobody knows."""
        if processes is None:
            count.value = 2
            return INSUFFICIENT_SIZE
        assert count.value == len(processes)
        processes[0].pid, processes[0].usedGpuMemory = 7, 100 * index
        processes[1].pid, processes[1].usedGpuMemory = 8, (1 << 64) - 1
        count.value = 2
        return 0


def _number(argument: Any) -> int:
    """Return the number of a GPU: its index, or what stands for its handle; 0 for anything else."""
    if isinstance(argument, ctypes.c_uint):
        return argument.value
    return (ctypes.cast(argument, ctypes.c_void_p).value or 0) if hasattr(argument, "contents") else 0


class FakePynvml:
    """`pynvml`, as far as it is used, with the same two GPUs."""

    class NVMLError(Exception):
        pass

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index + 1

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return SimpleNamespace(gpu=25)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(total=1000, used=10)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        if handle == 2:
            raise self.NVMLError("Not Supported")
        return 70_500

    def nvmlDeviceGetPowerManagementLimit(self, handle: int) -> int:
        return self.nvmlDeviceGetPowerUsage(handle) and 700_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        return self._driver.joules * 1000

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        sizes = ((7, 100 * handle), (8, None))
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in sizes]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    monkeypatch.setattr(module, "_has_driver", lambda: True)
    return Driver()


@pytest.fixture(params=["fake", "nvidia-ml-py"])
def nvml(request: pytest.FixtureRequest, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """Return the GPUs through a fake of `pynvml`, and through the real one on a fake of the driver's library."""
    if request.param == "fake":
        monkeypatch.setitem(sys.modules, "pynvml", FakePynvml(driver))
    else:
        pynvml = pytest.importorskip("pynvml")
        monkeypatch.setattr(pynvml, "nvmlLib", driver)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    found = Nvml.load()
    assert found is not None
    return found


def test_gpus_have_what_their_driver_knows(nvml: Nvml, driver: Driver) -> None:
    driver.joules += 7
    assert nvml.usages() == [
        GpuUsage("GPU-1", 0.25, 1000, 10, 70.5, 700.0, 7.0),
        GpuUsage("GPU-2", 0.25, 1000, 10, None, None, 7.0),
    ]


def test_what_a_process_has_of_each_gpu(nvml: Nvml) -> None:
    assert (nvml.held(7), nvml.held(8), nvml.held(9)) == ({"GPU-1": 100, "GPU-2": 200}, {}, {})


def test_a_driver_without_a_gpu_is_none(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakePynvml(driver)

    def fail() -> None:
        raise fake.NVMLError("Driver Not Loaded")

    monkeypatch.setattr(fake, "nvmlInit", fail)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    assert Nvml.load() is None


def test_without_a_driver_there_is_no_gpu_and_no_import(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setattr(module.importlib, "import_module", missing)
    assert Nvml.load() is None


def test_a_driver_without_the_package_is_one_warning(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    module._warn_missing.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert Nvml.load() is None and Nvml.load() is None
    (text,) = caplog.messages
    assert text.startswith("nvidia-ml-py is not installed") and text.endswith("pip install 'tritonlab[gpu]'")
