"""What is in a large array, without its elements: a line of facts, and a curve for a row of numbers. A bounded number
of elements is read, and a few hundred bytes go to the browser, whatever the size of the array.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....clients.literal import floats
from ....core.inference.data_type import DataType
from ....core.inference.tensor import Tensor
from ....core.short_number import size_text
from ....core.svg_picture import Scale, SvgPicture

#: The most elements that are read.
_MOST_READ = 4_000_000
#: The fewest elements of a curve, and of an array that gets a line of facts; the most curves.
_LEAST = 16
_FEWEST = 61
_MOST_ROWS = 4
_WIDTH, _HEIGHT, _POINTS = 480, 90, 240
_COLOURS = ("#3f8fd6", "#2ca56e", "#c9a13b", "#b06fc9")


def facts_text(tensor: Tensor) -> str:
    """Return `268,435,456 elements, 1.07 GB, 0 to 1, mean 0.5`; empty for a few elements, which are all shown."""
    count = int(np.prod(tensor.shape))
    if count < _FEWEST:
        return ""
    text = f"{count:,} elements, {size_text(tensor.byte_size)}"
    if not _is_numeric(tensor):
        return text
    read = _read(tensor)
    finite = read[np.isfinite(read)]
    odd = read.size - finite.size
    if finite.size:
        text += f", {finite.min():.6g} to {finite.max():.6g}, mean {finite.mean():.6g}"
    text += f", {odd:,} of them not finite" if odd else ""
    return text + (f" (of {read.size:,} elements)" if read.size < count else "")


def curve_html(name: str, tensor: Tensor) -> str:
    """Return a picture of the rows of numbers in a tensor of shape [N], [1, N] or [few, N], or an empty text."""
    shape = tuple(size for size in tensor.shape if size != 1)
    rows, length = (1, *shape) if len(shape) == 1 else shape if len(shape) == 2 else (0, 0)
    if not 1 <= rows <= _MOST_ROWS or length < _LEAST or not _is_numeric(tensor):
        return ""
    ends = [_ends(_read(Tensor(tensor.datatype, (length,), row))) for row in tensor.data.reshape(rows, length)]
    values = np.concatenate([found.reshape(-1) for found in ends])
    finite = values[np.isfinite(values)]
    if not finite.size:
        return ""
    low, high = float(finite.min()), float(finite.max())
    least, most = _number_text(low), _number_text(high)
    picture = SvgPicture(f"{name}: {length:,} values from {least} to {most}", _WIDTH)
    up = Scale(low, high, _HEIGHT - 2, 2)
    for found, tone in zip(ends, _COLOURS, strict=False):
        across = Scale(0, len(found) - 1, 0, _WIDTH)
        points = [(across(n), up(value)) for n, value in enumerate(found.tolist()) if np.isfinite(value)]
        if points:
            picture.polyline(points, tone)
    picture.height = _HEIGHT
    return (
        f"{picture.svg(' class=tl-curve')}"
        f"<div class='tl-axis'><span>{least} … {most}</span><span>{length:,} values</span></div>"
    )


def _number_text(value: float) -> str:
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e15 else f"{value:.4g}"


def _is_numeric(tensor: Tensor) -> bool:
    return tensor.datatype is not DataType.BYTES and tensor.datatype is not DataType.BOOL


def _read(tensor: Tensor) -> NDArray[np.float64]:
    """Return the elements as numbers, every n-th of very many."""
    flat = tensor.data.reshape(-1)
    step = -(-flat.size // _MOST_READ)
    part = flat[::step]
    return floats(Tensor(tensor.datatype, part.shape, np.ascontiguousarray(part))).astype(np.float64)


def _ends(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least and the greatest value of each of at most _POINTS equal parts."""
    if len(values) <= 2 * _POINTS:
        return values
    parts = np.array_split(values, _POINTS)
    return np.array([end for part in parts for end in (part.min(), part.max())])
