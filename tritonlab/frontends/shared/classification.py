"""The reduction of an output to its highest classes (rule 6.6), for every frontend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.inference.data_type import DataType
from ...core.inference.tensor import Tensor
from ...core.status import InvalidArgumentError
from ...stub._pb_stub.wire.serialization import encode_bytes_tensor

#: Since 2026-01.
MAX_ELEMENTS = 1_000_000

_SUPPORTED = frozenset("iuf")


def classify(tensor: Tensor, count: int, labels: Sequence[str] = (), *, batched: bool = False) -> Tensor:
    """Return the `count` highest elements, highest first, as a BYTES tensor of `value:index[:label]`.

    Its shape is `[n]`, or `[batch, n]` if `batched`, when the first dimension is the batch; n is the smaller of `count`
    and the number of elements. Equal elements keep their order, as on Triton. Raises InvalidArgumentError for a
    datatype without an order here, and for an output that is too large.
    """
    datatype = tensor.datatype
    if datatype.numpy.kind not in _SUPPORTED or datatype in (DataType.FP16, DataType.BF16):
        raise InvalidArgumentError(f"class result not available for output due to unsupported type '{datatype.name}'")
    if tensor.data.size > MAX_ELEMENTS:
        raise InvalidArgumentError("classification output tensor too large")
    batched = batched and bool(tensor.shape)
    rows = tensor.shape[0] if batched else 1
    columns = prod(tensor.shape[1:] if batched else tensor.shape)
    count = min(count, columns)
    texts = [
        text for row in tensor.numpy().reshape(rows, columns) for text in _highest(row, count, labels)
    ]  # Triton crashes if there are no elements (measured)
    shape = (rows, count) if batched and rows else (count,)
    wire = np.frombuffer(encode_bytes_tensor(np.array(texts, dtype=np.object_)), dtype=np.uint8)
    return Tensor(DataType.BYTES, shape if texts else (0,), wire)


def _highest(row: NDArray[Any], count: int, labels: Sequence[str]) -> list[bytes]:
    printed: Callable[[Any], str] = str if row.dtype.kind in "iu" else lambda value: f"{float(value):f}"
    # ascending and reversed, so that equal ones keep their order; numpy takes NaN for the highest, as Triton does
    order = (len(row) - 1 - np.argsort(row[::-1], kind="stable"))[::-1][:count]
    texts = []
    for index in order.tolist():
        label = labels[index] if index < len(labels) else ""
        texts.append(f"{printed(row[index])}:{index}{':' if label else ''}{label}".encode("utf-8", "surrogateescape"))
    return texts
