"""Tensors in the text of a program: small ones as readable values, large ones as base64."""

from __future__ import annotations

import base64
import textwrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.explained import Explained
from ..core.inference.data_type import DataType
from ..core.inference.tensor import Tensor
from ..core.status import Code

#: The most elements that are written one by one, and the most bytes that fit into a program.
_MOST_READ = 64
MOST_BYTES = 1_000_000
_WIDTH = 110


class TooLarge(Explained, ValueError):
    """An error for a tensor that is too large for the text of a program."""

    code = Code.UNSUPPORTED


def is_read(tensor: Tensor) -> bool:
    """Return whether the tensor is written one value after the other."""
    return int(np.prod(tensor.shape)) <= _MOST_READ and tensor.byte_size <= 64 * _MOST_READ


def base64_lines(data: bytes) -> str:
    """Return `data` as lines of base64. Raises TooLarge."""
    if len(data) > MOST_BYTES:
        raise TooLarge(f"{len(data):,} bytes are too many for the text of a program; the limit is {MOST_BYTES:,}")
    return "\n".join(textwrap.wrap(base64.b64encode(data).decode(), _WIDTH))


def numpy_expression(tensor: Tensor) -> str:
    """Return the Python expression with `np` that builds the tensor in tritonclient's form. Raises TooLarge."""
    shape = list(tensor.shape)
    if tensor.datatype is DataType.BYTES:
        if not is_read(tensor):
            lines = base64_lines(tensor.data.tobytes())
            return f'deserialize_bytes_tensor(base64.b64decode("""\n{lines}\n""")).reshape({shape})'
        elements = [bytes(element) for element in tensor.numpy().flat]
        return f"np.array({elements!r}, dtype=object).reshape({shape})"
    dtype = dtype_expression(tensor.datatype)
    if is_read(tensor) and _finite(tensor):
        return f"np.array({_nested(tensor)}, dtype={dtype})" + (f".reshape({shape})" if 0 in shape else "")
    return f'np.frombuffer(base64.b64decode("""\n{base64_lines(tensor.data.tobytes())}\n"""), {dtype}).reshape({shape})'


def dtype_expression(datatype: DataType) -> str:
    """Return the numpy type of a datatype as Python text, such as `np.float32`."""
    return "ml_dtypes.bfloat16" if datatype is DataType.BF16 else f"np.{datatype.numpy.name}".replace("np.bool", "bool")


def floats(tensor: Tensor) -> NDArray[Any]:
    """Return the elements of a BF16 tensor as FP32, and of any other tensor its own array."""
    if tensor.datatype is DataType.BF16:
        return (tensor.data.reshape(tensor.shape).astype(np.uint32) << 16).view(np.float32)
    return tensor.numpy()


def _finite(tensor: Tensor) -> bool:
    array = floats(tensor)
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _nested(tensor: Tensor) -> str:
    array = floats(tensor)
    if array.dtype.kind != "f":
        return repr(array.tolist())
    # the shortest text for the same number in its own precision
    options: dict[str, Any] = {"separator": ", ", "threshold": array.size + 1, "max_line_width": 1 << 30}
    return np.array2string(array, formatter={"float_kind": str}, **options).replace("\n", "")
