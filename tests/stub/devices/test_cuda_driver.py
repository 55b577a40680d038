"""The driver on a library that stands for NVIDIA's, where there is no GPU; `tests/gpu` has these calls on a card."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from tritonlab.stub._pb_stub.devices import cuda_driver
from tritonlab.stub._pb_stub.devices.cuda_driver import CudaDriver
from tritonlab.stub._pb_stub.devices.driver import NO_DRIVER, DriverError

MEMORY = 0x7F0000000000


class FakeLibrary:
    """A libcuda of one device that records the names of its calls. `fails` maps a call to its error."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.current: list[int] = []
        self.fails: dict[str, int] = {}
        self.functions: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def function(*arguments: Any) -> int:
            if not name.startswith("cuGetError"):
                self.calls.append(name)
            if name in self.fails:
                return self.fails[name]
            values = [each._obj if hasattr(each, "_obj") else each for each in arguments]
            return int(getattr(self, "_" + name, lambda *_: 0)(*values) or 0)

        return self.functions.setdefault(name, function)

    def _cuGetErrorName(self, code: int, text: Any) -> None:
        text.value = b"CUDA_ERROR_OUT_OF_MEMORY" if code == 2 else b"CUDA_ERROR_UNKNOWN"

    def _cuGetErrorString(self, code: int, text: Any) -> None:
        text.value = b"out of memory" if code == 2 else b"unknown error"

    def _cuDeviceGetCount(self, count: Any) -> None:
        count.value = 1

    def _cuDeviceGetName(self, name: Any, size: int, device: int) -> None:
        name.value = b"NVIDIA Test"

    def _cuDeviceGetUuid(self, uuid: Any, device: int) -> None:
        uuid.raw = bytes(range(16))

    def _cuDeviceTotalMem_v2(self, total: Any, device: int) -> None:
        total.value = 80 << 30

    def _cuDeviceGetAttribute(self, value: Any, attribute: int, device: int) -> None:
        value.value = {75: 9, 76: 0}[attribute]

    def _cuCtxPushCurrent_v2(self, context: Any) -> None:
        self.current.append(1)

    def _cuCtxPopCurrent_v2(self, context: Any) -> None:
        self.current.pop()

    def _cuMemAlloc_v2(self, address: Any, nbytes: int) -> None:
        assert self.current
        address.value = MEMORY

    def _cuPointerGetAttribute(self, value: Any, attribute: int, address: int) -> None:
        value.value = {2: 2 if address >= MEMORY else 1, 9: 0}[attribute]

    def _cuMemGetAddressRange_v2(self, base: Any, nbytes: Any, address: int) -> None:
        base.value, nbytes.value = MEMORY, 1024

    def _cuIpcGetMemHandle(self, handle: Any, base: int) -> None:
        ctypes.memset(ctypes.addressof(handle), 7, 64)

    def _cuIpcOpenMemHandle_v2(self, address: Any, handle: Any, flags: int) -> None:
        assert bytes(handle) == b"\7" * 64 and flags == 1
        address.value = MEMORY + 4096


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    fake = FakeLibrary()
    monkeypatch.setattr(cuda_driver.ctypes, "CDLL", lambda name: fake)
    return fake


def test_nothing_is_loaded_before_it_is_needed(library: FakeLibrary) -> None:
    driver = CudaDriver()
    assert library.calls == []
    (facts,) = driver.devices()
    assert facts == (0, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", "NVIDIA Test", 80 << 30, (9, 0), False)
    assert "cuDevicePrimaryCtxRetain" not in library.calls, "looking at the devices makes no context"


def test_memory_is_made_shared_opened_and_closed(library: FakeLibrary) -> None:
    driver = CudaDriver()
    assert driver.allocate(0, 1024) == MEMORY
    assert driver.base_of(MEMORY + 5) == (MEMORY, 1024, 0)
    assert driver.open(0, driver.export(0, MEMORY)) == MEMORY + 4096
    driver.close(0, MEMORY + 4096)
    driver.free(0, MEMORY)
    assert library.calls.count("cuDevicePrimaryCtxRetain") == 1
    assert library.current == [], "the thread's own context is current again"


def test_copies_say_where_the_host_memory_is(library: FakeLibrary) -> None:
    copies: list[tuple[Any, ...]] = []
    library._cuMemcpyHtoD_v2 = lambda *arguments: copies.append(arguments)  # type: ignore[attr-defined]
    library._cuMemcpyDtoH_v2 = lambda *arguments: copies.append(arguments)  # type: ignore[attr-defined]
    driver, data = CudaDriver(), bytearray(b"12345678")
    driver.copy_in(0, MEMORY, data)
    driver.copy_out(0, MEMORY, data)
    at = ctypes.addressof((ctypes.c_ubyte * 8).from_buffer(data))
    assert copies == [(MEMORY, at, 8), (at, MEMORY, 8)]


def test_an_error_says_what_was_done_what_the_driver_says_and_what_helps(library: FakeLibrary) -> None:
    driver = CudaDriver()
    library.fails["cuMemAlloc_v2"] = 2
    with pytest.raises(DriverError) as caught:
        driver.allocate(0, 4096)
    assert str(caught.value) == (
        "allocating 4096 bytes on GPU 0: CUDA_ERROR_OUT_OF_MEMORY (out of memory). "
        "Free GPU memory, of other models or processes too, or send less at once."
    )
    assert caught.value.code == 2 and library.current == []


def test_host_memory_is_no_device_memory(library: FakeLibrary) -> None:
    with pytest.raises(DriverError, match="it is memory of the host, not of a GPU"):
        CudaDriver().base_of(4096)


def test_a_machine_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(cuda_driver.ctypes, "CDLL", missing)
    with pytest.raises(DriverError, match="counting GPUs: there is no usable NVIDIA driver here") as caught:
        CudaDriver().devices()
    assert caught.value.code == NO_DRIVER and "docker run --gpus=all" in str(caught.value)


def test_a_driver_that_cannot_start_says_so_each_time(library: FakeLibrary) -> None:
    library.fails["cuInit"] = 999
    driver = CudaDriver()
    for _ in range(2):
        with pytest.raises(DriverError, match="CUDA_ERROR_UNKNOWN"):
            driver.devices()
