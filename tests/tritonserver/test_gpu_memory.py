"""Tensors on a GPU, with a CuPy whose device memory is the host's: its calls, and where the bytes go.

On a real GPU the calls are CuPy's own; none is needed here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tritonlab.stub._pb_stub.api import dlpack
from tritonlab.tritonserver import (
    DataType,
    DLDeviceType,
    InvalidArgumentError,
    MemoryBuffer,
    MemoryType,
    Model,
    Tensor,
    UnsupportedError,
)

CUDA = 2


class DeviceArray(np.ndarray):  # type: ignore[type-arg]
    """An array that says it is on GPU 0."""

    def __dlpack_device__(self) -> tuple[int, int]:  # type: ignore[override]
        return (CUDA, 0)

    def __dlpack__(self, *, stream: int | None = None, **kwargs: Any) -> Any:
        assert stream in (None, 1)
        capsule = self.view(np.ndarray).__dlpack__()
        dlpack._DLManagedTensor.from_address(dlpack._pointer_of(capsule, b"dltensor")).tensor.device_type = CUDA
        return capsule


class Memory:
    """An array over an address."""

    def __init__(self, address: int, size: int, owner: Any, device: int) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    @contextmanager
    def device(number: int) -> Iterator[None]:
        if number != 0:
            raise RuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        yield

    module: Any = ModuleType("cupy")
    module.asnumpy = lambda array: np.array(array.view(np.ndarray))
    module.asarray = lambda array: np.array(array).view(DeviceArray)
    module.ndarray = lambda shape, dtype, pointer: np.asarray(pointer).view(dtype).reshape(shape).view(DeviceArray)
    module.cuda = SimpleNamespace(
        Device=device,
        runtime=SimpleNamespace(getDevice=lambda: 0),
        UnownedMemory=Memory,
        MemoryPointer=lambda memory, offset: memory,
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module  # type: ignore[no-any-return]


@pytest.mark.parametrize("device", ["gpu", "gpu:0", MemoryType.GPU, (MemoryType.GPU, 0), (DLDeviceType.kDLCUDA, 0)])
def test_there_and_back(cupy: ModuleType, device: Any) -> None:
    array = np.arange(6, dtype=np.float16).reshape(2, 3)
    here = Tensor.from_dlpack(array)
    there = here.to_device(device)
    assert (there.memory_type, there.memory_type_id, there.size) == (MemoryType.GPU, 0, 12)
    assert there.__dlpack_device__() == (DLDeviceType.kDLCUDA, 0) and there.data_ptr != here.data_ptr
    assert there.to_device(device) is there
    back = there.to_host()
    assert back.memory_type is MemoryType.CPU and np.array_equal(np.from_dlpack(back), array)


def test_texts_there_and_back(cupy: ModuleType) -> None:
    there = Tensor.from_string_array([["a", "bc"]]).to_device("gpu")
    assert (there.data_type, there.memory_type) == (DataType.BYTES, MemoryType.GPU)
    assert there.to_string_array().tolist() == [["a", "bc"]] == there.to_string_array().tolist()


def test_an_array_of_the_gpu_and_its_capsule(cupy: Any) -> None:
    array = cupy.asarray(np.arange(3.0))
    tensor = Tensor.from_dlpack(array)
    assert (tensor.data_ptr, tensor.memory_type) == (array.ctypes.data, MemoryType.GPU)
    assert MemoryBuffer.from_dlpack(array).memory_type is MemoryType.GPU
    capsule = tensor.__dlpack__(stream=1)
    assert dlpack._is_capsule(capsule, b"dltensor")


def test_a_gpu_that_is_not_there(cupy: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"to \(<.*GPU: 2>, 1\) not supported"):
        Tensor.from_dlpack(np.ones(1)).to_device("gpu:1")

    def no_driver() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver")

    cupy.cuda.runtime.getDevice = no_driver
    with pytest.raises(UnsupportedError, match="not supported") as caught:
        Tensor.from_dlpack(np.ones(1)).to_device("gpu")
    assert "GPU memory is not available: cudaErrorInsufficientDriver" in str(caught.value.__cause__)


def test_a_request_with_memory_of_a_gpu(cupy: Any, echo: Model) -> None:
    sent = cupy.asarray(np.arange(3, dtype=np.float32).reshape(1, 3))
    (response,) = echo.infer(inputs={"IN_FP32": Tensor.from_dlpack(sent)}, output_memory_type="gpu")
    output = response.outputs["OUT_FP32"]
    assert output.memory_type is MemoryType.GPU
    assert np.from_dlpack(output.to_host()).tolist() == [[0, 1, 2]]
    with pytest.raises(InvalidArgumentError, match="Memory type gpu:1 not supported: Conversion from"):
        list(echo.infer(inputs={"IN_FP32": sent}, output_memory_type="gpu:1"))
