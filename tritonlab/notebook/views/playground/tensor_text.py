"""A tensor in readable form: its elements, or the beginning of a long tensor; the JSON documents in it; for a large
array a line of facts, and a curve for a row of numbers. For any size of the array, a limited number of elements is
read, and a few hundred bytes go to the browser.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.inference.data_type import DataType
from ....core.inference.tensor import Tensor
from ....core.short_number import size_text
from ....exchanges.literal import floats
from ....figures.svg_picture import Scale, SvgPicture

_WIDTH = 96
#: The most elements of a tensor that is shown whole, and the most characters of one text.
_MOST_ELEMENTS = 60
_MOST_LETTERS = 8_000
#: The most bytes of a tensor that is decoded only for display.
_MOST_DECODED = 16_000_000
#: How many documents of one tensor are shown, and the largest tensor that is searched for them.
_MOST_SHOWN = 4
_MOST_BYTES = 2_000_000
#: The most elements that are read.
_MOST_READ = 4_000_000
#: The fewest elements of a curve, and of an array that gets a line of facts; the most curves.
_LEAST = 16
_FEWEST = 61
_MOST_ROWS = 4
_ACROSS, _HEIGHT, _POINTS = 480, 90, 240
_COLOURS = ("#3f8fd6", "#2ca56e", "#c9a13b", "#b06fc9")


def value_text(tensor: Tensor) -> str:
    """Return a preview of the elements, as numpy prints them; BYTES that are UTF-8 are shown as text."""
    if tensor.byte_size > _MOST_DECODED and tensor.datatype in (DataType.BF16, DataType.BYTES):
        return str(tensor.to_dict()["values"])  # only the first elements are converted
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
    # the spaces inside a text belong to it
    text = re.sub(r"\n\s*", " ", text) if tensor.datatype is DataType.BYTES else " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 2]} …"


def _element_text(element: bytes) -> str:
    try:
        text = repr(element.decode())
    except UnicodeDecodeError:
        text = repr(element)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]} … ({len(element):,} bytes)"


def json_note(text: str) -> str:
    """Describe a typed text that looks like JSON: the kind of the document, or the place where it stops being valid."""
    bare = text.strip()
    if not bare.startswith(("{", "[")):
        return ""
    try:
        found = json.loads(bare)
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg.lower()} in line {error.lineno}, column {error.colno}" if bare[0] == "{" else ""
    except RecursionError:
        return "not JSON: it is nested too deeply"
    if isinstance(found, dict):
        return f"a JSON object with {len(found)} key{'s' * (len(found) != 1)}"
    documents = [one for one in found if isinstance(one, (dict, list))]
    return f"a JSON list of {len(found)}" if documents else ""


def json_texts(tensor: Tensor) -> list[str]:
    """Return the documents in a tensor in readable form, if all of its first elements are documents."""
    if tensor.datatype is not DataType.BYTES or tensor.byte_size > _MOST_BYTES:
        return []
    elements = tensor.numpy().reshape(-1)
    texts = [_indented(element) for element in elements[:_MOST_SHOWN]]
    if not all(texts):
        return []
    left = len(elements) - len(texts)
    return [*texts, f"… and {left} more"] if left else texts


def _indented(element: bytes) -> str:
    """Return a JSON object or list with a line for each of its parts; empty for any other text."""
    if element.strip()[:1] not in (b"{", b"["):
        return ""
    try:
        text = json.dumps(json.loads(element), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return ""
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]} …"


def facts_text(tensor: Tensor) -> str:
    """Return `268,435,456 elements, 1.07 GB, 0 to 1, mean 0.5`; empty for few elements, which are all shown."""
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
    picture = SvgPicture(f"{name}: {length:,} values from {least} to {most}", _ACROSS)
    up = Scale(low, high, _HEIGHT - 2, 2)
    for found, tone in zip(ends, _COLOURS, strict=False):
        across = Scale(0, len(found) - 1, 0, _ACROSS)
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
    """Return the lowest and the highest value of each of at most _POINTS equal parts."""
    if len(values) <= 2 * _POINTS:
        return values
    parts = np.array_split(values, _POINTS)
    return np.array([end for part in parts for end in (part.min(), part.max())])
