"""The tensor: an address with a datatype and a shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.inference.data_type import DataType as CoreType
from ...core.inference.tensor import Tensor as CoreTensor
from ...stub._pb_stub.api.dlpack import export_tensor
from ...stub._pb_stub.wire.serialization import decode_bytes_tensor, encode_bytes_tensor
from .._c.triton_bindings import InvalidArgumentError, UnsupportedError
from .._c.triton_bindings import TRITONSERVER_DataType as DataType
from .._c.triton_bindings import TRITONSERVER_MemoryType as MemoryType
from ._datautils import (
    DEVICE_OF_MEMORY,
    DeviceOrMemoryType,
    device_library,
    import_memory,
    no_conversion,
    parse_device_or_memory_type,
)
from ._dlpack import DLDeviceType
from ._memorybuffer import MemoryBuffer

#: By number; both sides use the same numbers.
_DATATYPES = tuple(DataType)
_ON_HOST = (MemoryType.CPU, MemoryType.CPU_PINNED)


@dataclass
class Tensor:
    """The `shape` elements of `data_type` in `memory_buffer`; a BYTES tensor has its wire form there. All three may be
    set."""

    data_type: DataType
    shape: Sequence[int]
    memory_buffer: MemoryBuffer

    @property
    def data_ptr(self) -> int:
        return self.memory_buffer.data_ptr

    @property
    def memory_type(self) -> MemoryType:
        return self.memory_buffer.memory_type

    @property
    def memory_type_id(self) -> int:
        return self.memory_buffer.memory_type_id

    @property
    def size(self) -> int:
        """The number of bytes of the tensor."""
        return self.memory_buffer.size

    # -- DLPack

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Make a capsule that holds this tensor. Raises InvalidArgumentError for BYTES, which DLPack cannot express,
        UnsupportedError for a stream that does not fit the memory."""
        on_host = self.memory_type in _ON_HOST
        if (stream is not None and not isinstance(stream, int)) or (on_host and stream not in (None, 0)):
            raise UnsupportedError(
                f"DLPack stream synchronization on memory type {self.memory_type} and stream {stream} not supported"
            )
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the tensor is on {self.__dlpack_device__()}; move it with to_device")
        array = self._on_host() if on_host else self._on_device()
        if copy:
            array = array.copy()
        if not on_host:
            return array.__dlpack__(stream=stream)
        return export_tensor(self.data_type.value, array, None)  # the array holds this tensor

    def __dlpack_device__(self) -> tuple[DLDeviceType, int]:
        return DEVICE_OF_MEMORY[self.memory_type], self.memory_type_id

    @staticmethod
    def from_dlpack(obj: Any) -> Tensor:
        """Make a tensor over the memory of any library's array. Raises InvalidArgumentError."""
        memory = import_memory(obj)
        if not memory.datatype:
            no_conversion("DLPack data type", getattr(obj, "dtype", type(obj)), "Triton server data type")
        return Tensor(_DATATYPES[memory.datatype], memory.shape, MemoryBuffer._from_memory(obj, memory))

    # -- BYTES

    def to_bytes_array(self) -> NDArray[np.object_]:
        """Return the elements of a BYTES tensor as `bytes`. Raises InvalidArgumentError for another tensor."""
        if self.data_type is not DataType.BYTES:
            raise InvalidArgumentError(f"Tensor has data type {self.data_type} not {DataType.BYTES}")
        return decode_bytes_tensor(self.to_host()._wire().data).reshape(self.shape)

    def to_string_array(self) -> NDArray[np.str_]:
        """Return the elements of a BYTES tensor as UTF-8 text; NVIDIA's package fails for text that is not ASCII."""
        elements: NDArray[Any] = self.to_bytes_array()
        return np.array([element.decode() for element in elements.flat], np.str_).reshape(elements.shape)

    @staticmethod
    def from_string_array(string_array: list[Any] | NDArray[Any]) -> Tensor:
        return Tensor.from_bytes_array(string_array)

    @staticmethod
    def from_bytes_array(bytes_array: list[Any] | NDArray[Any]) -> Tensor:
        """Make a BYTES tensor of text or `bytes`. Raises InvalidArgumentError for other elements."""
        result = Tensor._from_object(bytes_array)
        if result.data_type is not DataType.BYTES:
            raise InvalidArgumentError(
                f"Unsupported conversion from {bytes_array} to Triton BYTES Tensor. Got {result.data_type}"
            )
        return result

    # -- devices

    def to_host(self) -> Tensor:
        """Return this tensor, or a copy of it in CPU memory."""
        return self.to_device("cpu")

    def to_device(self, device: DeviceOrMemoryType) -> Tensor:
        """Return this tensor, or a copy of it on `device`: "cpu", "gpu", "gpu:1", a memory type, or a memory type with
        a device's number. Raises InvalidArgumentError for an invalid device name, UnsupportedError for a device that
        does not exist.
        """
        memory_type, number = parse_device_or_memory_type(device)
        here = (self.memory_type, self.memory_type_id)
        if here == (memory_type, number) or (self.memory_type, memory_type) == (MemoryType.CPU_PINNED, MemoryType.CPU):
            return self
        try:
            if memory_type is MemoryType.CPU:
                moved = device_library().asnumpy(self._on_device())
            elif memory_type is MemoryType.GPU:
                cupy = device_library()
                with cupy.cuda.Device(number):
                    moved = cupy.asarray(self._wire() if self.memory_type in _ON_HOST else self._on_device())
            else:
                raise UnsupportedError("pinned memory is not available")
        except Exception as error:
            raise UnsupportedError(f"Conversion from {here} to {(memory_type, number)} not supported.") from error
        return Tensor(self.data_type, self.shape, MemoryBuffer.from_dlpack(moved))

    def _wire(self) -> NDArray[np.uint8]:
        """Return the bytes as they are, on the host."""
        return _array(self, np.dtype(np.uint8), (self.size,))

    def _on_host(self) -> NDArray[Any]:
        """Return the elements as an array over the tensor's memory, which is on the host."""
        datatype = CoreType(self.data_type.value)
        if not datatype.byte_size:
            no_conversion("Triton server data type", self.data_type, "DLPack data type")
        return _array(self, datatype.numpy, tuple(self.shape))

    def _on_device(self) -> Any:
        """Return the bytes as an array over the tensor's memory, which is on a GPU."""
        cupy = device_library()
        memory = cupy.cuda.UnownedMemory(self.data_ptr, self.size, self, self.memory_type_id)
        datatype = CoreType(self.data_type.value)
        flat = cupy.ndarray((self.size,), np.uint8, cupy.cuda.MemoryPointer(memory, 0))
        if not datatype.byte_size or datatype is CoreType.BF16:
            return flat
        return flat.view(datatype.numpy).reshape(tuple(self.shape))

    # -- conversion of a request's inputs

    @staticmethod
    def _from_object(obj: Any) -> Tensor:
        """Make a tensor from an array, a list, or any object with DLPack. Lists get numpy's datatype, without regard to
        the model. Raises InvalidArgumentError.
        """
        kind = type(obj)
        if kind is np.ndarray:
            return _from_numpy(obj)
        if kind is list:
            try:
                return _from_numpy(np.array(obj))
            except Exception as error:
                raise InvalidArgumentError(f"Conversion from {obj} to tensor not supported.") from error
        if hasattr(obj, "__dlpack__"):
            return Tensor.from_dlpack(obj)
        # numpy's scalars are in the list and are refused, as in NVIDIA's package, which checks for the exact type
        raise InvalidArgumentError(
            f"Input type {kind} not supported. Must be one of {[np.ndarray, np.generic, list]} or the type must "
            "support __dlpack__"
        )

    @staticmethod
    def _from_core(tensor: CoreTensor) -> Tensor:
        data = tensor.data
        buffer = MemoryBuffer(
            data_ptr=_address(data), memory_type=MemoryType.CPU, memory_type_id=0, size=data.nbytes, owner=data
        )
        shape: Any = np.array(tensor.shape, np.int64)  # an array, as in NVIDIA's package: programs calculate with it
        return Tensor(_DATATYPES[tensor.datatype], shape, buffer)

    def _to_core(self) -> CoreTensor:
        """Return the core's tensor. Raises UnsupportedError for memory that cannot be read here."""
        tensor = self if self.memory_type in _ON_HOST else self.to_host()
        datatype = CoreType(self.data_type.value)
        owner = tensor.memory_buffer.owner
        # through a list: a tuple of an iterator is cut to its size, and each one cut stays in Python's free list
        shape = tuple([int(size) for size in self.shape])
        if (
            type(owner) is np.ndarray
            and owner.dtype == datatype.numpy
            and owner.nbytes == self.size
            and (owner.flags.c_contiguous and _address(owner) == tensor.data_ptr)
        ):
            return CoreTensor(datatype, shape, owner)
        data: NDArray[Any] = tensor._wire()
        if datatype.byte_size and self.size % datatype.byte_size == 0:
            data = data.view(datatype.numpy)
        return CoreTensor(datatype, shape, data)


class _Memory:
    """A tensor's memory for numpy. It is the base of an array over a tensor, and so holds the tensor."""

    __slots__ = ("__array_interface__", "_tensor")

    def __init__(self, tensor: Tensor, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._tensor = tensor
        interface = {"data": (tensor.data_ptr, False), "shape": shape, "typestr": dtype.str, "version": 3}
        self.__array_interface__ = interface


def _array(tensor: Tensor, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array over the tensor's memory, which it holds. Raises InvalidArgumentError for a shape that reaches
    beyond the memory; NVIDIA's package reads beyond it."""
    size = math.prod(shape) * dtype.itemsize
    if size > tensor.size:
        raise InvalidArgumentError(f"shape {list(shape)} of {dtype} takes {size} bytes, the tensor has {tensor.size}")
    if not size:
        return np.empty(shape, dtype)
    return np.asarray(_Memory(tensor, dtype, shape))


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _from_numpy(array: NDArray[Any]) -> Tensor:
    """Make a tensor over the array's own memory, or over a copy in Triton's element order and byte order; NVIDIA's
    package sends the memory at the address unchanged."""
    datatype = CoreType.from_numpy(array.dtype)
    if datatype is CoreType.INVALID:
        no_conversion("Numpy data type", array.dtype.type, "Triton server data type")
    shape = array.shape
    if datatype is CoreType.BYTES:
        array = np.frombuffer(encode_bytes_tensor(array), np.uint8)
    else:
        array = np.asarray(array, datatype.numpy, order="C")
    return Tensor(
        _DATATYPES[datatype],
        shape,
        MemoryBuffer(
            data_ptr=_address(array), memory_type=MemoryType.CPU, memory_type_id=0, size=array.nbytes, owner=array
        ),
    )
