"""Conversion of pictures and tensors: a file becomes an input, a tensor that looks like a picture a picture."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.inference.data_type import DataType
from ....core.inference.tensor import Tensor
from ....figures.stored_picture import data_address
from .input_values import UnfitFile

#: How many pictures of one tensor are shown, and the pixels of their longer side.
MOST_SHOWN = 4
_SIDE = 256
#: The least side of a picture in pixels; smaller tensors are mostly feature maps and convolution kernels.
_LEAST_SIDE = 16
#: The most bytes of an encoded picture that goes to the browser unchanged.
_MOST_BYTES = 2_000_000
#: The most bytes of a BYTES tensor that is searched for pictures.
_MOST_DECODED = 8 * _MOST_BYTES
_MAGIC = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}
_CHANNELS = (1, 3, 4)
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True)
class Layout:
    """The places of height, width and channels in a tensor of one picture. A size of -1 is any size."""

    height: int
    width: int
    channels: int
    channels_first: bool = False
    #: whether there is an axis for the channels
    flat: bool = False

    @staticmethod
    def from_dims(dims: tuple[int, ...]) -> Layout | None:
        """Return the layout of dims such as [224, 224, 3], [3, -1, -1] or [28, 28]; leading ones do not count."""
        while len(dims) > 3 and dims[0] == 1:
            dims = dims[1:]
        if len(dims) == 2:
            return Layout(*dims, 1, flat=True)
        if len(dims) != 3:
            return None
        if dims[2] in _CHANNELS:
            return Layout(*dims)
        if dims[0] in _CHANNELS:
            return Layout(dims[1], dims[2], dims[0], channels_first=True)
        return Layout(dims[0], dims[1], 3) if dims[2] < 0 else None


def picture_value(data: bytes, datatype: DataType, dims: tuple[int, ...]) -> NDArray[Any]:
    """Return a picture file as an array for `dims`, scaled to their size: 0 to 255 in integers, 0 to 1 in floats (FP32
    for BF16, to be cast).

    Raises UnfitFile, or ModuleNotFoundError without Pillow.
    """
    layout = Layout.from_dims(dims)
    if layout is None:
        raise UnfitFile(f"dims {list(dims)} are not height, width and channels")
    if datatype is DataType.INT8:
        raise UnfitFile("pixels are 0 to 255, which INT8 cannot have: convert them in Python")
    image = _open(data).convert(_MODES[layout.channels])
    size = (layout.width if layout.width > 0 else image.width, layout.height if layout.height > 0 else image.height)
    pixels = np.asarray(image.resize(size) if image.size != size else image)
    if not layout.flat:
        pixels = pixels.reshape(*pixels.shape[:2], layout.channels)
    if layout.channels_first:
        pixels = np.moveaxis(pixels, -1, 0)
    pixels = pixels.reshape((1,) * (len(dims) - pixels.ndim) + pixels.shape)
    if datatype is DataType.BF16 or datatype.numpy.kind == "f":
        return (pixels / 255).astype(np.float32 if datatype is DataType.BF16 else datatype.numpy)
    return np.ascontiguousarray(pixels).astype(datatype.numpy)


def pictures_html(tensor: Tensor, alt: str) -> str:
    """Show the pictures in a tensor, at most MOST_SHOWN; empty without pictures or Pillow."""
    try:
        found = list(_pictures(tensor))
    except ModuleNotFoundError:
        return ""
    return "".join(
        f"<img class='tl-picture' alt='{alt}, picture {number}' src='{data_address(f'image/{kind}', data)}'>"
        for number, (kind, data) in enumerate(found, start=1)
    )


def _pictures(tensor: Tensor) -> Iterator[tuple[str, bytes]]:
    """Yield (format of the file, such as `png`, and its bytes) for each picture."""
    if tensor.datatype is DataType.BYTES:
        if tensor.byte_size > _MOST_DECODED:
            return
        for element in tensor.numpy().flat[:MOST_SHOWN]:
            kind = next((kind for magic, kind in _MAGIC.items() if element.startswith(magic)), "")
            if kind and len(element) <= _MOST_BYTES:
                yield kind, element
        return
    if tensor.datatype is DataType.BF16 or tensor.datatype.numpy.kind not in "uif":
        return
    array = tensor.numpy()
    if array.ndim == 3:
        array = array[None]
    layout = Layout.from_dims(array.shape[1:]) if array.ndim == 4 else None
    if layout is None or min(layout.height, layout.width) < _LEAST_SIDE or layout.channels not in _CHANNELS:
        return
    for pixels in array[:MOST_SHOWN]:
        levels = _levels(np.moveaxis(pixels, 0, -1) if layout.channels_first else pixels)
        if levels is not None:
            image = _pillow().fromarray(np.ascontiguousarray(levels[..., 0] if layout.channels == 1 else levels))
            image.thumbnail((_SIDE, _SIDE))
            file = io.BytesIO()
            image.save(file, "png")
            yield "png", file.getvalue()


def _levels(pixels: NDArray[Any]) -> NDArray[np.uint8] | None:
    """Return the pixels, fewer of a large picture, as 0 to 255; None for values that a picture cannot have."""
    # only some pixels of a large picture: a preview must not stop the notebook
    step = max(1, max(pixels.shape) // (2 * _SIDE))
    pixels = pixels[::step, ::step]
    most = 1.0 if pixels.dtype.kind == "f" else 255
    if not (pixels.min() >= 0 and pixels.max() <= most):
        return None
    return (pixels * (255 / most)).astype(np.uint8)


def _open(data: bytes) -> Any:
    pillow = _pillow()
    try:
        image = pillow.open(io.BytesIO(data))
        image.load()
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
        reason = str(error).partition(" <")[0]  # Pillow names the source object
        raise UnfitFile(f"not a picture ({reason})") from None
    return image


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ModuleNotFoundError:
        raise ModuleNotFoundError("pictures need Pillow: pip install pillow") from None
