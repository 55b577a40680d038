"""`Tensor`, a tensor as the server holds it: datatype, shape and bytes in the protocol's form."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...stub._pb_stub.wire.serialization import MEMORY_GPU, decode_bytes_tensor, encode_bytes_tensor
from ..plain_facts import plain
from ..status import InvalidArgumentError, UnsupportedError
from .data_type import FROM_NATIVE, DataType
from .device_array import DeviceArray, adopt, is_on_device

_BYTES, _BF16 = DataType.BYTES, DataType.BF16  # access to a member of an enum takes three times as long
_DLPACK_CPU, _DLPACK_CUDA = 1, 2
#: How many elements a repr shows, and how many bytes of each.
_SHOWN = 8
#: The most bytes of a tensor that `to_dict` shows with all elements.
_MOST_PLAIN = 8192
_SHOWN_BYTES = 40


class Tensor:
    """One tensor of a request or response.

    `data` is C-contiguous: the elements for a fixed-size datatype (uint16 bit patterns for BF16), the wire form as a
    1-D uint8 array for BYTES (rule 1.6.1). `shape` is a tuple of ints. Reads of numeric data are views, never copies.
    `data` of a tensor in the memory of a GPU is a DeviceArray.
    """

    __slots__ = ("_decoded", "data", "datatype", "device_id", "memory_type", "shape")

    def __init__(self, datatype: DataType, shape: tuple[int, ...], data: NDArray[Any]) -> None:
        self.datatype = datatype
        self.shape = shape
        self.data = data
        self.memory_type = 0  # TRITONSERVER_MEMORY_CPU in the C API's numbering
        self.device_id = 0
        self._decoded: NDArray[Any] | None = None

    @staticmethod
    def on_device(datatype: DataType, shape: tuple[int, ...], memory: DeviceArray) -> Tensor:
        """Return a tensor whose elements are in the memory of a device."""
        data: Any = memory
        tensor = Tensor(datatype, shape, data)
        tensor.memory_type, tensor.device_id = MEMORY_GPU, memory.device
        return tensor

    def to_host(self) -> Tensor:
        """Return the tensor in host memory: itself, or a copy of one in the memory of a GPU."""
        if not self.memory_type:
            return self
        memory: Any = self.data
        return Tensor(self.datatype, self.shape, memory.to_host().view(self.datatype.numpy).reshape(self.shape))

    def copy(self) -> Tensor:
        """Return a copy in host memory, which shares nothing with this tensor."""
        return self.to_host() if self.memory_type else Tensor(self.datatype, self.shape, self.data.copy())

    def with_shape(self, shape: tuple[int, ...]) -> Tensor:
        """Return a tensor of another shape over the same data."""
        found = Tensor(self.datatype, shape, self.data)
        found.memory_type, found.device_id = self.memory_type, self.device_id
        return found

    @property
    def byte_size(self) -> int:
        """The bytes of the wire form."""
        return int(self.data.nbytes)

    @staticmethod
    def from_numpy(array: NDArray[Any]) -> Tensor:
        """Return a tensor over `array`, without a copy if it is C-contiguous and numeric.

        Object, `S` and `U` arrays become BYTES. Raises InvalidArgumentError for a dtype that Triton does not have.
        """
        datatype = FROM_NATIVE.get(array.dtype)
        if datatype is None:
            datatype = DataType.from_numpy(array.dtype)
            if datatype is DataType.INVALID:
                raise InvalidArgumentError(f"numpy dtype '{array.dtype}' has no Triton datatype")
            if not array.dtype.isnative:
                array = array.astype(array.dtype.newbyteorder("="))
        if datatype is DataType.BYTES:
            return Tensor(datatype, array.shape, np.frombuffer(encode_bytes_tensor(array), dtype=np.uint8))
        # ascontiguousarray turns 0-d into 1-d; a 0-d array is always contiguous
        return Tensor(datatype, array.shape, array if array.flags.c_contiguous else np.ascontiguousarray(array))

    @staticmethod
    def from_any(value: Any, datatype: DataType = DataType.INVALID) -> Tensor:
        """Return a tensor of a Tensor, an ndarray, a torch or CuPy tensor (DLPack), a list, a scalar or a text. Data in
        GPU memory stays there.

        `datatype` is the expected one. It decides how Python lists and scalars are read (`[1, 2]` for an FP32
        input is FP32, `[1.5]` for an INT32 input is refused); an array keeps its own dtype, so that a mismatch is
        reported, not hidden. Raises InvalidArgumentError for a value that cannot become a tensor.
        """
        if isinstance(value, Tensor):
            return value
        if isinstance(value, np.ndarray):
            return Tensor.from_numpy(value)
        if isinstance(value, np.generic):
            return Tensor.from_numpy(np.asarray(value))
        if hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__"):
            torch = sys.modules.get("torch")
            if torch is not None and _is_torch_tensor(value):
                return _from_torch(value, torch)
            return Tensor.on_device(*adopt(value)) if is_on_device(value) else Tensor.from_numpy(_from_dlpack(value))
        if datatype is DataType.BYTES:
            return Tensor.from_numpy(_object_array(value))
        return Tensor.from_numpy(_number_array(value, datatype))

    def numpy(self) -> NDArray[Any]:
        """Return the tensor as an array of its shape; BYTES as an object array of `bytes`, decoded once.

        Raises UnsupportedError for BF16, which numpy has no dtype for: use `torch.from_dlpack(tensor)`.
        """
        if self.datatype is _BYTES:
            if self._decoded is None:
                self._decoded = decode_bytes_tensor(self.data.data).reshape(self.shape)
            return self._decoded
        if self.datatype is _BF16:
            raise UnsupportedError("numpy has no BF16; use torch.from_dlpack(tensor)")
        return self.data if self.data.shape == self.shape else self.data.reshape(self.shape)

    def to_bytes_array(self) -> NDArray[np.object_]:
        """Return a BYTES tensor as an object array of `bytes` (the name is from NVIDIA's `tritonserver.Tensor`)."""
        if self.datatype is not DataType.BYTES:
            raise InvalidArgumentError(f"tensor has datatype {self.datatype.name}, not BYTES")
        return self.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != np.dtype(dtype):
            if copy is False:
                raise ValueError(f"a copy is needed to read {array.dtype} as {np.dtype(dtype)}")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **kwargs: Any) -> Any:
        if self.memory_type:
            if kwargs.get("dl_device") == (_DLPACK_CPU, 0):
                return self.to_host().__dlpack__(**kwargs)
            memory: Any = self.data
            return memory.capsule(self.datatype, self.shape, kwargs.get("stream"))
        if self.datatype is DataType.BF16:
            torch = sys.modules.get("torch")
            if torch is None:
                raise UnsupportedError("a BF16 tensor is read with torch.from_dlpack; import torch first")
            bits = self.data.reshape(self.shape)
            # torch has no read-only tensors
            return torch.from_numpy(bits if bits.flags.writeable else bits.copy()).view(torch.bfloat16).__dlpack__()
        return self.numpy().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_DLPACK_CUDA, self.device_id) if self.memory_type else (_DLPACK_CPU, 0)

    def __repr__(self) -> str:
        return f"<Tensor {self.datatype.name} {list(self.shape)} {self._values()}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the tensor as JSON values. `values` are nested like the shape; a large tensor has a text of its first
        elements instead.
        """
        large = self.byte_size > _MOST_PLAIN or self.memory_type
        described = {"datatype": self.datatype.name, "shape": list(self.shape), "byte_size": self.byte_size}
        if large:
            return {**described, "values": self._values()}
        if self.datatype is DataType.BF16:
            bits = self.data.reshape(self.shape).astype(np.uint32) << 16
            return {**described, "values": plain(bits.view(np.float32))}
        return {**described, "values": plain(self.numpy())}

    def _values(self) -> str:
        """Return the elements as text; of many, only the first ones are read."""
        if self.memory_type:
            memory: Any = self.data
            return f"in the memory of {'simulated ' * memory.driver.simulated}GPU {self.device_id}"
        if self.datatype is DataType.BYTES:
            return _listed(_first_elements(self.data, _SHOWN, _SHOWN_BYTES), math.prod(self.shape))
        flat = self.data.reshape(-1)
        if flat.size <= _SHOWN and self.datatype is not DataType.BF16 and flat.size == math.prod(self.shape):
            flat = flat.reshape(self.shape)
            return " ".join(np.array2string(flat, separator=", ", max_line_width=sys.maxsize).split())
        few = flat[:_SHOWN]
        if self.datatype is DataType.BF16:  # the upper half of an FP32
            few = (few.astype(np.uint32) << 16).view(np.float32)
        text = np.array2string(few, separator=", ", max_line_width=sys.maxsize)
        return text if flat.size <= _SHOWN else f"{text[:-1]}, …]"


def _first_elements(data: NDArray[Any], count: int, cut: int) -> list[str]:
    """Return the first elements of a BYTES tensor's wire form as Python literals; long ones are cut."""
    found: list[str] = []
    position = 0
    while position + 4 <= data.size and len(found) < count:
        start = position + 4
        position = start + int.from_bytes(data[position:start].tobytes(), "little")
        element = data[start : min(position, start + cut)].tobytes()
        found.append(repr(element) + "…" * (position - start > cut))
    return found


def _listed(elements: list[str], count: int) -> str:
    return f"[{', '.join(elements)}{', …' if count > _SHOWN else ''}]"


#: The numpy dtype that a client's bytes are read as, by the number of their datatype: uint8 for BYTES, which stays in
#: wire form here.
WIRE_ELEMENTS: list[np.dtype[Any]] = [
    datatype.numpy if datatype.byte_size else np.dtype(np.uint8) for datatype in DataType
]


def wire_elements(data: bytes | memoryview, datatype: DataType) -> NDArray[Any]:
    """Return a 1-D view of a client's bytes as elements. A cut-off element makes it a view of single bytes, which the
    request's checks refuse.
    """
    dtype = WIRE_ELEMENTS[datatype]
    if dtype.itemsize > 1 and len(data) % dtype.itemsize:
        dtype = WIRE_ELEMENTS[DataType.INVALID]
    return np.frombuffer(data, dtype)


_RAGGED = "lists of different lengths cannot be read as a tensor"


def _object_array(value: Any) -> NDArray[Any]:
    """Return text or nested lists of text as an object array. numpy's own choice, a `U` array, drops trailing NULs."""
    array = np.asarray(value, dtype=np.object_)
    if any(isinstance(element, (list, tuple)) for element in array.flat):
        raise InvalidArgumentError(_RAGGED)
    return array


#: For each kind of numpy dtype, the kinds of values that convert to it without loss.
_READABLE = {"b": "b", "i": "bui", "u": "bui", "f": "buif"}


def _number_array(value: Any, datatype: DataType) -> NDArray[Any]:
    """Return numbers or nested lists of numbers as an array of `datatype`, or of numpy's choice if they do not fit."""
    try:
        array = np.asarray(value)
        if datatype in (DataType.INVALID, DataType.BF16) or array.dtype == datatype.numpy:
            return array
        if array.size and array.dtype.kind not in _READABLE[datatype.numpy.kind] and not _all_ints(value, datatype):
            raise InvalidArgumentError(f"{_elements_text(array)} cannot be read as {datatype.name}")
        return np.asarray(value, dtype=datatype.numpy)
    except (ValueError, TypeError, OverflowError) as error:
        if "inhomogeneous" in str(error):
            raise InvalidArgumentError(_RAGGED) from error
        raise InvalidArgumentError(f"{type(value).__name__} cannot be read as a tensor: {error}") from error


def _elements_text(array: NDArray[Any]) -> str:
    """Return a description of the elements of an array."""
    if array.dtype.kind in "SU":
        return "text"
    if array.dtype.kind == "O":
        other = next((one for one in array.flat if not isinstance(one, (bool, int, float))), array.flat[0])
        return f"an element of type {type(other).__name__}"
    return f"{array.dtype} values"


def _all_ints(value: Any, datatype: DataType) -> bool:
    """Return whether `datatype` and all of `value` are integers; numpy alone would read `[1, 2**63]` as float64."""
    elements = np.asarray(value, dtype=np.object_).flat
    return datatype.numpy.kind in "iu" and all(isinstance(element, int) for element in elements)


def _from_dlpack(value: Any) -> NDArray[Any]:
    try:
        if value.__dlpack_device__()[0] == _DLPACK_CPU:
            return np.from_dlpack(value)
        return np.from_dlpack(value, device="cpu")
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{type(value).__name__} cannot be read as a tensor: {error}") from error


def _is_torch_tensor(value: Any) -> bool:
    """Return whether it is a tensor of torch. A stand-in for torch may have no tensors."""
    return any(kind.__name__ == "Tensor" and kind.__module__ == "torch" for kind in type(value).__mro__)


def _from_torch(value: Any, torch: Any) -> Tensor:
    if value.is_cuda:
        return Tensor.on_device(*adopt(value.detach().contiguous()))
    try:
        value = value.detach().cpu().contiguous()
        if value.dtype is torch.bfloat16:
            return Tensor(DataType.BF16, tuple(value.shape), value.view(torch.uint16).numpy())
        return Tensor.from_numpy(value.numpy())
    except (RuntimeError, TypeError) as error:
        raise InvalidArgumentError(f"torch tensor cannot be read as a tensor: {error}") from error
