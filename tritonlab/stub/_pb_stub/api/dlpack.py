"""DLPack capsules, read and made without compiled code: ctypes reads and patches them, numpy makes them.

Importing: the capsule's structure is read in place, and the capsule is renamed to the standard `used_dltensor`, so that
its producer's destructor leaves it alone. Triton writes `used_dlpack`, at which numpy's destructor crashes the process
(rule 1.5.3).

Exporting: numpy exports an array over the tensor's bytes. Its destructor and deleter are in C; a Python callback could
not replace them safely, as a destructor may run while an exception is being raised. Facts that numpy cannot express are
patched into the capsule.

The layout is the unversioned one of dlpack.h, which every consumer still accepts.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, List, Optional, Tuple

import numpy as np

from ..wire.serialization import ELEMENT_DTYPES
from .errors import TritonModelException

CPU = 1
CUDA = 2
CUDA_HOST = 3

_NOT_DLPACK = (
    "Provided tensor is not supported. Tensor must be a DLPack capsule "
    "        or have `__dlpack__` and `__dlpack_device__` attributes"
)
_NOT_CONTIGUOUS = (
    "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are supported."
)

_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6

#: (type code, bits) -> Triton's datatype (rule 1.5.7); BF16 is missing, as it has its own message
_DATATYPE = {
    (_BOOL, 8): 1,
    (_UINT, 8): 2,
    (_UINT, 16): 3,
    (_UINT, 32): 4,
    (_UINT, 64): 5,
    (_INT, 8): 6,
    (_INT, 16): 7,
    (_INT, 32): 8,
    (_INT, 64): 9,
    (_FLOAT, 16): 10,
    (_FLOAT, 32): 11,
    (_FLOAT, 64): 12,
}
_BYTES, _BF16 = 13, 14


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("manager_context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


# own prototypes: setting argtypes on ctypes.pythonapi's functions would change them for every other library of the
# process
_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(("PyCapsule_SetName", ctypes.pythonapi))
_keep_for_ever = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))
_Deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)

_FRESH = b"dltensor"
_USED = b"used_dltensor"
# a capsule keeps the pointer to its name and may outlive this module, so the name is never freed
_used_name = ctypes.create_string_buffer(_USED)
_keep_for_ever(_used_name)


class Imported:
    """Memory of another library, held until this object dies; then the producer's deleter runs."""

    __slots__ = ("__weakref__", "_address", "_capsule", "datatype", "device", "nbytes", "pointer", "shape")

    def __init__(self, capsule: Any, address: int) -> None:
        tensor = _DLManagedTensor.from_address(address).tensor
        self._address: Optional[int] = None
        self.device: Tuple[int, int] = (tensor.device_type, tensor.device_id)
        self.datatype = _datatype_of(tensor)
        self.shape: List[int] = tensor.shape[: tensor.ndim] if tensor.ndim else []
        elements = 1
        for dim in self.shape:
            elements *= dim
        _check_layout(tensor, self.shape, elements)
        self.nbytes = elements * (tensor.bits // 8)
        self.pointer = (tensor.data or 0) + tensor.byte_offset
        # only now, as a refused capsule stays its producer's: from here on this object releases the memory
        _rename(capsule, ctypes.addressof(_used_name))
        self._address = address

    @property
    def on_gpu(self) -> bool:
        return self.device[0] == CUDA

    def view(self) -> memoryview:
        """Return the elements as bytes, none for device memory (rule 1.5.9). The view must not outlive this object."""
        if self.nbytes == 0 or self.on_gpu:
            return memoryview(b"")
        memory: Any = (ctypes.c_ubyte * self.nbytes).from_address(self.pointer)
        array: Any = np.frombuffer(memory, dtype=np.uint8)  # a ctypes array's own view has another format
        return memoryview(array)

    def array(self, dtype: Any) -> "np.ndarray[Any, Any]":
        """Return the elements as an array that keeps this object alive, as a consumer may hold it longer than the
        tensor.
        """
        if self.nbytes == 0:
            return np.empty(self.shape, dtype)
        array: np.ndarray[Any, Any] = np.asarray(_Memory(self.pointer, self.nbytes, self)).view(dtype)
        return array.reshape(self.shape)

    def __del__(self) -> None:
        if self._address is not None:
            deleter = _DLManagedTensor.from_address(self._address).deleter
            if deleter:
                _Deleter(deleter)(self._address)


class _Memory:
    """Memory in a form for numpy, which passes the address of device memory on and never reads there. The base of the
    array is this object, which keeps the owner of the memory.
    """

    def __init__(self, pointer: int, nbytes: int, owner: Any) -> None:
        self._owner = owner
        self.__array_interface__ = {"data": (pointer, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}


#: address of a capsule's structure -> its memory: a capsule may be consumed again here (rule 1.5.4)
_imported: "weakref.WeakValueDictionary[int, Imported]" = weakref.WeakValueDictionary()


def import_tensor(source: Any) -> Imported:
    """Take over the memory of a capsule, or of an object with `__dlpack__` (rules 1.5.1-1.5.7).

    Raises TritonModelException for anything else, and for an unsupported device, layout or element type.
    """
    capsule = source
    if not (_is_capsule(source, _FRESH) or _is_capsule(source, _USED)):
        if not (hasattr(source, "__dlpack__") and hasattr(source, "__dlpack_device__")):
            # Triton reads any pointer in a capsule of another name, and crashes; here it is refused
            raise TritonModelException(_NOT_DLPACK)
        # 1 is CUDA's default stream; the stub works on no other
        capsule = source.__dlpack__(stream=1) if source.__dlpack_device__()[0] == CUDA else source.__dlpack__()
    if _is_capsule(capsule, _FRESH):
        address = _pointer_of(capsule, _FRESH)
        imported = Imported(capsule, address)
        _imported[address] = imported
        return imported
    if not _is_capsule(capsule, _USED):
        raise TritonModelException(_NOT_DLPACK)
    again = _imported.get(_pointer_of(capsule, _USED))
    if again is None:
        raise TritonModelException(
            "The DLPack capsule was already consumed and its memory released. Make a new capsule of the tensor."
        )
    return again


class _Exported(np.ndarray):
    """The array that numpy exports. It lives as long as the capsule or the capsule's consumer."""

    owner: Any


def export_tensor(datatype: int, data: "np.ndarray[Any, Any]", owner: Any) -> Any:
    """Make a capsule `dltensor` over `data`, a writable C-contiguous array; for BF16 an array of uint16 bit patterns.
    `owner` lives as long as the memory is in use (rule 1.5.10).
    """
    if not hasattr(data, "__dlpack__"):
        raise TritonModelException(
            "to_dlpack() needs numpy 1.22 or later; the model's Python environment has %s." % np.__version__
        )
    if datatype == 1:
        data = data.view(np.uint8)  # numpy exports bool from 1.25 on only
    exported = data.view(_Exported)
    exported.owner = owner
    capsule = exported.__dlpack__()
    tensor = _DLManagedTensor.from_address(_pointer_of(capsule, _FRESH)).tensor
    if datatype == 1:
        tensor.code = _BOOL
    elif datatype == _BF16:
        tensor.code = _BFLOAT
    return capsule


def export_device(pointer: int, device: int, datatype: int, shape: List[int], owner: Any) -> Any:
    """Make a capsule `dltensor` over C-contiguous device memory. `owner` lives as long as the memory is in use."""
    dtype: Any = ELEMENT_DTYPES[datatype]
    nbytes = dtype.itemsize
    for dim in shape:
        nbytes *= dim
    data: np.ndarray[Any, Any] = np.asarray(_Memory(pointer, nbytes, owner)).view(dtype).reshape(shape)
    capsule = export_tensor(datatype, data, owner)
    tensor = _DLManagedTensor.from_address(_pointer_of(capsule, _FRESH)).tensor
    tensor.device_type, tensor.device_id = CUDA, device
    return capsule


def _datatype_of(tensor: _DLTensor) -> int:
    if tensor.device_type not in (CPU, CUDA, CUDA_HOST):
        raise TritonModelException("DLDevice type %d is not support by Python backend." % tensor.device_type)
    if tensor.code == _BFLOAT:
        if tensor.bits != 16:
            raise TritonModelException("Expected BF16 tensor to have 16 bits, but had: %d" % tensor.bits)
        return _BF16 if tensor.lanes == 1 else 0
    return _DATATYPE.get((tensor.code, tensor.bits), 0) if tensor.lanes == 1 else 0


def _check_layout(tensor: _DLTensor, shape: List[int], elements: int) -> None:
    """Refuse memory that is not C-contiguous.

    Triton ignores the outermost stride and reads `a[::2]` as if it were contiguous: wrong data, no error (rule 1.5.5).
    It is refused too, with Triton's text, and not copied: a model that works here must work there.
    """
    if not tensor.strides or elements == 0:
        return
    expected = 1
    for dim, stride in zip(reversed(shape), reversed(tensor.strides[: tensor.ndim])):
        if dim != 1 and stride != expected:
            raise TritonModelException(_NOT_CONTIGUOUS)
        expected *= dim
