"""Tensor data in JSON, turned into a tensor's elements: lists may be nested in any way, row-major (rule 6.3.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.inference.data_type import DataType
from ...core.status import InternalError, InvalidArgumentError, TritonError
from ..shared.work_pause import check_memory
from . import large_json
from .json_document import about, as_bool, as_double, as_int, as_string, as_uint
from .large_json import LargeArray

#: Triton's errors while it reads; since 2026-04 it gives the second for data that ends too early.
_TOO_MANY = "Unable to parse 'data': Shape does not match true shape of 'data' field"
_TOO_FEW = "Failed to parse 'data' field: shape does not match true shape"


def elements(name: str, datatype: DataType, data: Any, count: int) -> NDArray[Any]:
    """Return the `count` elements of input `name`; for BYTES their wire form, whose number is checked later.

    Integers are truncated to the datatype (rule 6.3.4). Raises InternalError or InvalidArgumentError.
    """
    if datatype is DataType.BYTES:
        return _bytes(data)
    if datatype in (DataType.FP16, DataType.BF16):
        raise InvalidArgumentError(
            f"receiving {datatype.name} data via JSON is not supported. Please use the binary data format for input "
            f"{name}"
        )
    if datatype is DataType.INVALID:
        raise InvalidArgumentError(f"invalid datatype for input {name}")
    if type(data) is LargeArray:
        found = _large(data, datatype, count)
        if found is not None:
            return found
        data = data.tolist()
    flat = large_json.flat(data)
    types, wide, _ = _READ[datatype.numpy.kind]
    if len(flat) == count and types.issuperset(map(type, flat)):
        try:
            with np.errstate(over="ignore"):
                return np.array(flat, dtype=wide).astype(datatype.numpy, copy=False)
        except OverflowError:
            pass
    raise _fault(flat, datatype, count)


def _large(data: LargeArray, datatype: DataType, count: int) -> NDArray[Any] | None:
    """Do the work of `elements` piece by piece; return None if there is a fault to report."""
    types, wide, _ = _READ[datatype.numpy.kind]
    if sum(map(len, data.pieces)) != count:
        return None
    found = np.empty(count, datatype.numpy)
    start = 0
    for piece in data.pieces:
        packed = piece if isinstance(piece, np.ndarray) else None
        if not types.issuperset(map(type, piece) if packed is None else (_TYPES[packed.dtype.kind],)):
            return None
        if wide is np.uint64 and packed is not None and bool((packed < 0).any()):
            return None
        try:
            values = np.array(piece, wide)
        except OverflowError:
            return None
        with np.errstate(over="ignore"):
            found[start : start + len(piece)] = values.astype(datatype.numpy, copy=False)
        start += len(piece)
    return found


def _fault(flat: list[Any], datatype: DataType, count: int) -> TritonError:
    """Return the error that Triton reports first, as it reads one element after the other."""
    read = _READ[datatype.numpy.kind][2]
    for element in flat[:count]:
        try:
            read(element)
        except TritonError as error:
            return about("Unable to parse 'data'", error)
    return InternalError(_TOO_MANY if len(flat) > count else _TOO_FEW)


def _bytes(data: Any) -> NDArray[Any]:
    if type(data) is not LargeArray:
        return np.frombuffer(_wire_form(data), np.uint8)
    found = bytearray()
    for piece in data.pieces:
        check_memory(len(found))  # they may grow by a copy
        found += _wire_form(piece)
    return np.frombuffer(found, np.uint8)


def _wire_form(data: Any) -> bytes:
    parts: list[bytes] = []
    for element in large_json.flat(data if type(data) is list else [data]):
        try:
            raw = as_string(element).encode("utf-8", "surrogateescape")
        except TritonError as error:
            raise about("Unable to parse JSON bytes array", error) from None
        parts += (len(raw).to_bytes(4, "little"), raw)
    return b"".join(parts)


#: By numpy's kind: the types of JSON elements, the array that collects them before they are truncated, and Triton's
#: reading of one.
_READ: dict[str, tuple[frozenset[type], Any, Callable[[Any], Any]]] = {
    "b": (frozenset({bool}), np.bool_, as_bool),
    "u": (frozenset({int}), np.uint64, as_uint),
    "i": (frozenset({int}), np.int64, as_int),
    "f": (frozenset({int, float}), np.float64, as_double),
}
#: The JSON type of the elements in an array of a LargeArray, by numpy's kind.
_TYPES: dict[str, type] = {"b": bool, "i": int, "f": float}
