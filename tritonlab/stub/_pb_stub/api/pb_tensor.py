"""The author's Tensor: a name, and an array that stays where it is until it must cross to the server.

Three origins, one class:

    built      `Tensor(name, array)`: aliases a numeric array until it is sent, holds the encoded elements of others
               (rules 1.4.5, 1.4.7)
    received   an input or a BLS output: a view of shared memory and its lease; arrays are private copies (rule 1.4.11)
    imported   `from_dlpack`: another library's memory, released with the tensor (rules 1.4.7, 1.5.9)

Measured with timeit on the development machine (Python 3.11): build 0.4 us, receive 0.2 us, `_wire` 0.06 us;
two arrays in and out with as_numpy() of both inputs 2.7 us. Nothing here takes a lock.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from ..devices.driver import DriverError
from ..devices.gpus import driver_of
from ..wire.device_memory import Lent
from ..wire.serialization import ELEMENT_DTYPES, MEMORY_CPU, MEMORY_GPU, decode_bytes_tensor, encode_bytes_tensor
from . import bridge, dlpack
from .argument_check import as_text, mismatch
from .bridge import BridgeError
from .errors import NativeObject, TritonModelException
from .opened_memory import BorrowedMemory, OpenedPlace

_BYTES = 13
_BF16 = 14

#: native dtypes only: a big-endian one compares unequal to all of them (rule 1.4.3)
_DATATYPE: Dict[Any, int] = {
    dtype: code for code, dtype in enumerate(ELEMENT_DTYPES) if dtype is not None and code != _BF16
}
_DATATYPE[np.dtype(np.object_)] = _BYTES

#: Streams of a consumer for which nothing has to wait: the default stream, on which memory is imported, and none.
_ORDERED = (None, -1, 1)

#: Bytes from which on a private copy is a copy-on-write mapping, made by the lease.
_LARGE = 1 << 20

_ndarray = np.ndarray
_new = object.__new__


class Tensor(NativeObject):
    """A named tensor, of a request's `inputs()` or of an InferenceResponse."""

    __slots__ = (
        "_array",  # the result of as_numpy(); None before its first call
        "_data",  # the data to send: C-contiguous ndarray, bytes or memoryview
        "_datatype",
        "_device_id",
        "_keep",  # the lease or imported memory behind `_data`
        "_memory_type",
        "_name",
        "_shape",
        "_source",  # received numeric data, unchanged, from which as_numpy() copies
    )

    def __init__(self, name: str, ndarray: "np.ndarray[Any, Any]", /) -> None:
        """Make a tensor over `ndarray`, which may be of bool, (u)int8-64, float16/32/64, object or `S`, and of any
        shape.

        A C-contiguous numeric array is not copied: its content at the time of sending is sent. The
        elements of an object or `S` array become bytes now: bytes as they are, anything else as `str(x)` in UTF-8.
        Raises TypeError if `ndarray` is not a numpy array, TritonModelException for an empty name or another dtype.
        """
        if type(name) is not str or type(ndarray) is not _ndarray or not name.isascii():
            name = _checked_arguments(name, ndarray)
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        datatype = _DATATYPE.get(ndarray.dtype)
        if datatype is None:
            if ndarray.dtype.kind != "S":
                raise TritonModelException("NumPy dtype is not supported.")
            datatype = _BYTES
        if not ndarray.flags.c_contiguous:
            ndarray = np.ascontiguousarray(ndarray)
        self._name = name
        self._datatype = datatype
        self._shape = list(ndarray.shape)
        self._array: Optional[np.ndarray[Any, Any]] = ndarray
        self._data: Any = ndarray if datatype != _BYTES else encode_bytes_tensor(ndarray)
        self._source: Optional[memoryview] = None
        self._keep: Any = None
        self._memory_type = 0
        self._device_id = 0

    @classmethod
    def _received(
        cls,
        name: str,
        datatype: int,
        shape: List[int],
        view: memoryview,
        lease: Any,
        memory_type: int = 0,
        device_id: int = 0,
    ) -> Tensor:
        """Make a tensor over bytes of the server's region; `lease` lives as long as any view of them."""
        self: Tensor = _new(cls)
        self._name = name
        self._datatype = datatype
        self._shape = shape
        self._array = None
        self._data = self._source = view
        self._keep = lease
        self._memory_type = memory_type
        self._device_id = device_id
        return self

    def _wire(self) -> Tuple[int, List[int], Any]:
        """Return datatype, shape and the bytes to send: for a received tensor its original bytes, not the author's copy
        (rule 1.4.11). For a tensor on a device the bytes are its place. Raises TritonModelException if it cannot be
        sent.
        """
        if self._memory_type == MEMORY_GPU:
            return self._datatype, self._shape, self._lent()
        return self._datatype, self._shape, self._data

    def name(self) -> str:
        """Return the tensor's name."""
        return self._name

    def shape(self) -> List[int]:
        """Return the dimensions as a new list on each call; `[]` for a scalar."""
        return self._shape.copy()

    def is_cpu(self) -> bool:
        """Return whether the tensor is in host memory."""
        return self._memory_type != MEMORY_GPU

    def triton_dtype(self) -> Any:
        """Raise TypeError, as Triton does: its binding lacks the type of the result (rule 1.4.9)."""
        raise TypeError(
            "Unable to convert function return value to a Python type! The signature was\n"
            "\t(self: c_python_backend_utils.Tensor) -> TRITONSERVER_datatype_enum"
        )

    def as_numpy(self) -> "np.ndarray[Any, Any]":
        """Return the tensor as an array, the same object on each call.

        A tensor made from an array returns that array. An input returns a private, writable copy; changing it does not
        change the tensor. BYTES inputs give an object array of `bytes`. Raises TritonModelException for a GPU or BF16
        tensor.
        """
        array = self._array
        return array if array is not None else self._load()

    def _load(self) -> "np.ndarray[Any, Any]":
        if self._memory_type == MEMORY_GPU:
            raise TritonModelException("Tensor is stored in GPU and cannot be converted to NumPy.")
        datatype = self._datatype
        if datatype == _BF16:
            raise TritonModelException(
                "Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead."
            )
        if datatype == _BYTES:
            try:
                array = decode_bytes_tensor(self._data).reshape(self._shape)
            except ValueError as error:
                raise TritonModelException(str(error)) from None
        else:
            array = self._private_copy()
        self._array = array
        return array

    def _private_copy(self) -> "np.ndarray[Any, Any]":
        """Copy the elements, as received or sent, into the author's own memory."""
        view = self._source
        if view is None:
            sent: np.ndarray[Any, Any] = self._data.copy()
            return sent
        dtype = ELEMENT_DTYPES[self._datatype]
        if view.nbytes >= _LARGE and hasattr(self._keep, "private_array"):
            private: Any = self._keep.private_array(view)
            if private is not None:
                array: np.ndarray[Any, Any] = private.view(dtype).reshape(self._shape)
                return array
        return _ndarray(self._shape, dtype, bytearray(view))

    # -- DLPack

    @staticmethod
    def from_dlpack(name: str, obj: Any, /) -> Tensor:
        """Make a tensor over the memory of `obj`, without a copy: a DLPack capsule, or anything with `__dlpack__` such
        as a torch tensor.

        Only C-contiguous memory is taken. `as_numpy()` of the result is a copy, made at its first call. Raises
        TritonModelException for an empty name, for an object without DLPack, and for another layout, device or element
        type.
        """
        text = name if type(name) is str and name.isascii() else as_text(name)
        if text is None:
            raise mismatch("from_dlpack", "(self: str, arg0: object) -> c_python_backend_utils.Tensor", (name, obj))
        if not text:
            raise TritonModelException("Tensor name cannot be an empty string.")
        imported = dlpack.import_tensor(obj)
        if imported.datatype == 0 and not imported.on_gpu:
            raise TritonModelException("Dtype is invalid.")
        memory_type, device_id = (MEMORY_GPU, imported.device[1]) if imported.on_gpu else (MEMORY_CPU, 0)
        return Tensor._received(
            name=text,
            datatype=imported.datatype,
            shape=imported.shape,
            view=imported.view(),
            lease=imported,
            memory_type=memory_type,
            device_id=device_id,
        )

    def to_dlpack(self) -> Any:
        """Make a DLPack capsule over the tensor's memory, for example for `torch.from_dlpack`. The capsule holds this
        object. Raises TritonModelException for a BYTES or GPU tensor."""
        datatype = self._datatype
        if datatype == _BYTES:
            raise TritonModelException("DLPack does not have support for string tensors.")
        if self._memory_type == MEMORY_GPU:
            return self._device_capsule()
        return dlpack.export_tensor(datatype, self._exportable(), self)

    def _exportable(self) -> "np.ndarray[Any, Any]":
        """Return the bytes to send as an array that a consumer may write to, as with Triton; the changes are sent (rule
        1.4.11).

        Received and read-only bytes are copied first: a consumer that writes must neither crash on a read-only page nor
        change other readers' data. Imported memory is shared as its producer shares it.
        """
        data = self._data
        if isinstance(data, memoryview):
            if isinstance(self._keep, dlpack.Imported):
                return self._keep.array(ELEMENT_DTYPES[self._datatype])
            data = self._data = self._private_copy()
        elif not data.flags.writeable:
            data = self._data = data.copy()
        array: np.ndarray[Any, Any] = data
        return array

    def __dlpack__(self, stream: Any = None) -> Any:
        """Do as `to_dlpack`. `stream` matters only for imported device memory, whose producer may still write it:
        received memory is complete.
        """
        if stream not in _ORDERED and self._memory_type == MEMORY_GPU:
            self._await_producer()
        return self.to_dlpack()

    def __dlpack_device__(self) -> Tuple[int, int]:
        """Return `(1, 0)` in host memory, `(2, device id)` on a GPU."""
        return (dlpack.CUDA, self._device_id) if self._memory_type == MEMORY_GPU else (dlpack.CPU, 0)

    # -- memory on a GPU: received from the server, or taken over by `from_dlpack`

    def _lent(self) -> Lent:
        """Return the place of the memory for the server: its origin, or a copy of memory that was taken over. Raises
        TritonModelException."""
        keep = self._keep
        try:
            if isinstance(keep, dlpack.Imported):
                copied: Lent = bridge.current().lend(keep)
                return copied
            if isinstance(keep, OpenedPlace):
                keep.synchronize()  # the author may have written to it
        except (DriverError, BridgeError) as error:
            raise self._unusable("sent", error) from None
        return Lent.from_place(self._data, self._device_id, keep)

    def _device_capsule(self) -> Any:
        """Make a capsule over the memory. Changes to it are sent, once the library that writes them has finished.
        Raises TritonModelException.
        """
        device, keep = self._device_id, self._keep
        try:
            if not isinstance(keep, (dlpack.Imported, OpenedPlace)):
                keep = self._keep = OpenedPlace(device, self._data, keep)
        except DriverError as error:
            raise self._unusable("read", error) from None
        owner = BorrowedMemory(driver_of(keep.pointer), device, self)
        return dlpack.export_device(keep.pointer, device, self._datatype, self._shape, owner)

    def _await_producer(self) -> None:
        """Wait until memory that was taken over is written: its producer has made only the default stream wait. Memory
        from the server is already written.
        """
        keep = self._keep
        if isinstance(keep, dlpack.Imported):
            try:
                driver_of(keep.pointer).synchronize(self._device_id)
            except DriverError as error:
                raise self._unusable("read", error) from None

    def _unusable(self, what: str, error: Exception) -> TritonModelException:
        text = "Tensor '%s' in the memory of GPU %d cannot be %s: %s"
        return TritonModelException(text % (self._name, self._device_id, what, error))


def _checked_arguments(name: Any, ndarray: Any) -> str:
    """Return the name as text, if the arguments fit: for bytes, subclasses and text that may not be UTF-8 (rule
    1.4.1)."""
    text = as_text(name)
    if text is None or not isinstance(ndarray, _ndarray):
        raise mismatch("__init__", "c_python_backend_utils.Tensor(arg0: str, arg1: numpy.ndarray)", (name, ndarray))
    if not isinstance(ndarray.data, memoryview):  # for a masked array, whose masked elements would be sent
        ndarray.data.c_contiguous  # noqa: B018  # raises, as Triton does (rule 1.4.5)
    return text
