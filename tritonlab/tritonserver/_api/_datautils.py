"""The names of devices, and the import of memory from objects that support DLPack."""

from __future__ import annotations

from typing import Any, NoReturn

from ...stub._pb_stub.api.dlpack import Imported, import_tensor
from .._c.triton_bindings import InvalidArgumentError, UnsupportedError
from .._c.triton_bindings import TRITONSERVER_MemoryType as MemoryType
from ._dlpack import DLDeviceType

DeviceOrMemoryType = tuple[MemoryType, int] | MemoryType | tuple[DLDeviceType, int] | str

_MEMORY_OF_DEVICE = {
    DLDeviceType.kDLCPU: MemoryType.CPU,
    DLDeviceType.kDLCUDA: MemoryType.GPU,
    DLDeviceType.kDLCUDAHost: MemoryType.CPU_PINNED,
}
DEVICE_OF_MEMORY = {
    MemoryType.CPU: DLDeviceType.kDLCPU,
    MemoryType.CPU_PINNED: DLDeviceType.kDLCPU,
    MemoryType.GPU: DLDeviceType.kDLCUDA,
}


def no_conversion(source: str, value: Any, target: str) -> NoReturn:
    """Raise InvalidArgumentError with the text of NVIDIA's package for every failed look-up."""
    raise InvalidArgumentError(f"Unsupported {source}. Can't convert {value} to {target}")


def parse_device_or_memory_type(device: DeviceOrMemoryType) -> tuple[MemoryType, int]:
    """Return the memory type and device id for a device's name. Raises InvalidArgumentError."""
    if isinstance(device, MemoryType):
        return device, 0
    if isinstance(device, str):
        return _parse_text(device)
    if not isinstance(device, tuple) or len(device) != 2:
        raise InvalidArgumentError(f"Invalid memory type {device}")
    kind, number = device
    if isinstance(kind, MemoryType):
        return kind, number
    if isinstance(kind, DLDeviceType):
        return memory_type_of(kind), number
    raise InvalidArgumentError(f"Invalid memory type {device}")


def _parse_text(text: str) -> tuple[MemoryType, int]:
    word, *rest = text.split(":")
    if len(rest) > 1:
        raise InvalidArgumentError(f"Invalid memory type string {text}")
    kind = MemoryType.__members__.get(word.upper())
    if kind is None:
        no_conversion("Memory Type String", word.upper(), "Triton server memory type")
    try:
        return kind, int(rest[0]) if rest else 0
    except ValueError:
        raise InvalidArgumentError(f"Invalid memory type string {text}") from None


def memory_type_of(device: int) -> MemoryType:
    """Return the memory type of a DLPack device. Raises InvalidArgumentError for a device that Triton does not
    support."""
    found = _MEMORY_OF_DEVICE.get(device)  # type: ignore[call-overload]  # an int finds its IntEnum
    if found is None:
        no_conversion("DLPack device type", device, "Triton server memory type")
    return found  # type: ignore[no-any-return]


def import_memory(value: Any) -> Imported:
    """Import the memory of an object that supports DLPack. Raises InvalidArgumentError."""
    try:
        return import_tensor(value)
    except Exception as error:  # any exception of another library's `__dlpack__`
        if "not contiguous" in str(error):
            raise InvalidArgumentError("Only contiguous memory is supported") from None
        raise InvalidArgumentError(f"Object does not support DLPack protocol: {error}") from None


def device_library() -> Any:
    """Return CuPy, if it is installed and finds a GPU. Raises UnsupportedError."""
    try:
        import cupy

        cupy.cuda.runtime.getDevice()
    except Exception as error:  # CUDA's own errors have no base class that can be named without CuPy
        raise UnsupportedError(f"GPU memory is not available: {error}") from error
    return cupy
