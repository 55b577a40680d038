"""Tensors in the cells of a table, with the element that differs marked."""

from __future__ import annotations

from html import escape

import numpy as np

from ..clients.literal import floats
from ..core.html_table import cell
from ..core.inference.data_type import DataType
from ..core.inference.tensor import Tensor

#: The most elements and letters that are shown.
_ELEMENTS, _LETTERS = 32, 60
#: Inline, because a page may keep no style sheet; legible on light and dark pages.
_MARKED = "font-weight:bold;color:#d9342b"
_LOOK = "text-align:left;white-space:normal"


def tensor_cell(tensor: Tensor | None, marked: tuple[int, ...] | None = None) -> str:
    """Return the shape and the first values of a tensor, or those around the element that is marked, by index."""
    if tensor is None:
        return cell("", look=_LOOK)
    array = tensor.numpy() if tensor.datatype is DataType.BYTES else floats(tensor)
    flat = array.reshape(-1)
    place = int(np.ravel_multi_index(marked, array.shape)) if marked else (0 if marked == () else -1)
    first = max(0, min(place - _ELEMENTS // 2, flat.size - _ELEMENTS)) if place >= 0 else 0
    elements = []
    for number in range(first, min(first + _ELEMENTS, flat.size)):
        text = escape(_element(tensor, flat[number]))
        elements.append(f"<span style='{_MARKED}'>{text}</span>" if number == place else text)
    before, after = "… " * (first > 0), " …" * (first + _ELEMENTS < flat.size)
    values = f"{before}{', '.join(elements)}{after}"
    kind = f"<span class='tl-dim'>{tensor.datatype.name} {escape(str(list(tensor.shape)))}</span> "
    return f"<td style='{_LOOK}'>{kind}[{values}]</td>"


def _element(tensor: Tensor, value: object) -> str:
    if tensor.datatype is not DataType.BYTES:
        return str(value)
    text = repr(bytes(value))[1:] if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LETTERS else text[:_LETTERS] + "…"
