"""Triton's tensor datatypes: all their names, numbers and numpy forms."""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import DTypeLike


class DataType(enum.IntEnum):
    """The datatype of a tensor. The numbers are `model_config.proto`'s; `name` is the protocol's (`FP32`, `BYTES`)."""

    INVALID = 0
    BOOL = 1
    UINT8 = 2
    UINT16 = 3
    UINT32 = 4
    UINT64 = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FP16 = 10
    FP32 = 11
    FP64 = 12
    BYTES = 13
    BF16 = 14

    @property
    def byte_size(self) -> int:
        """The bytes of one element; 0 for BYTES, whose elements each have their own length."""
        return _BYTE_SIZE[self]

    @property
    def config_name(self) -> str:
        """The word of config.pbtxt: `TYPE_FP32`, `TYPE_STRING`."""
        return "TYPE_STRING" if self is DataType.BYTES else "TYPE_" + self.name

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy dtype of the elements in memory: uint16 bit patterns for BF16, object for BYTES."""
        return _NUMPY[self]

    @staticmethod
    def from_numpy(dtype: DTypeLike) -> DataType:
        """Return the datatype of an array of `dtype`; INVALID if Triton has none. numpy has no BF16 (rule 1.6.5)."""
        dtype = np.dtype(dtype)
        native = FROM_NATIVE.get(dtype)
        if native is not None:
            return native
        by_kind = DataType.BYTES if dtype.kind in "OSU" else DataType.INVALID
        return FROM_NATIVE.get(dtype.newbyteorder("="), by_kind)

    @staticmethod
    def from_config_name(name: str) -> DataType:
        """Return FP32 for `TYPE_FP32`, and so on. Raises KeyError for an unknown word."""
        return DataType.BYTES if name == "TYPE_STRING" else DataType[name.removeprefix("TYPE_")]


_NUMPY: dict[DataType, np.dtype[np.generic]] = {
    DataType.BOOL: np.dtype(np.bool_),
    DataType.UINT8: np.dtype(np.uint8),
    DataType.UINT16: np.dtype(np.uint16),
    DataType.UINT32: np.dtype(np.uint32),
    DataType.UINT64: np.dtype(np.uint64),
    DataType.INT8: np.dtype(np.int8),
    DataType.INT16: np.dtype(np.int16),
    DataType.INT32: np.dtype(np.int32),
    DataType.INT64: np.dtype(np.int64),
    DataType.FP16: np.dtype(np.float16),
    DataType.FP32: np.dtype(np.float32),
    DataType.FP64: np.dtype(np.float64),
    DataType.BYTES: np.dtype(np.object_),
    DataType.BF16: np.dtype(np.uint16),
}
_BYTE_SIZE = {DataType.INVALID: 0, **{each: dtype.itemsize for each, dtype in _NUMPY.items()}, DataType.BYTES: 0}

#: The datatypes of arrays in this machine's byte order.
FROM_NATIVE: dict[np.dtype[np.generic], DataType] = {
    dtype: datatype for datatype, dtype in _NUMPY.items() if datatype is not DataType.BF16
}
