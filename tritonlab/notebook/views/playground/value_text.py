"""The elements of a tensor as a person reads them; of a long tensor its beginning."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ....core.inference.data_type import DataType
from ....core.inference.tensor import Tensor

_WIDTH = 96
#: The most elements that are all shown, and the most characters of one text.
_MOST_ELEMENTS = 60
_MOST_LETTERS = 8_000
#: The most bytes of a tensor that is decoded only to be shown.
_MOST_DECODED = 16_000_000


def value_text(tensor: Tensor) -> str:
    """Return a preview of the elements, as numpy prints them; those of BYTES that are UTF-8 are text."""
    if tensor.byte_size > _MOST_DECODED and tensor.datatype in (DataType.BF16, DataType.BYTES):
        return str(tensor.to_dict()["values"])  # the first ones; the others stay as they are
    array: Any
    if tensor.datatype is DataType.BF16:
        array = (tensor.data.reshape(tensor.shape).astype(np.uint32) << 16).view(np.float32)
    else:
        array = tensor.numpy()
    how: Any = {"object": _element_text}
    return np.array2string(array, threshold=_MOST_ELEMENTS, max_line_width=_WIDTH, separator=" ", formatter=how)


def line_text(tensor: Tensor, most: int) -> str:
    """Return the preview in one line of at most `most` characters."""
    text = value_text(tensor)
    # the spaces inside a text are its own
    text = re.sub(r"\n\s*", " ", text) if tensor.datatype is DataType.BYTES else " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 2]} …"


def _element_text(element: bytes) -> str:
    try:
        text = repr(element.decode())
    except UnicodeDecodeError:
        text = repr(element)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]} … ({len(element):,} bytes)"
