"""Conversion of sounds and tensors: a .wav file becomes an input, and a sound in an output gets a player."""

from __future__ import annotations

import io
import math
import re
import wave
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.inference.data_type import DataType
from ....core.inference.tensor import Tensor
from ....exchanges.exchange import Exchange
from ....figures.stored_picture import data_address
from .input_values import UnfitFile

#: The most sounds of one tensor with a player, and the most bytes of a sound that go to the browser.
MOST_PLAYED = 4
MOST_BYTES = 2_000_000
#: Samples a second if not given: the rate of most models of speech.
_RATE = 16_000
#: The fewest samples of a sound with a player.
_LEAST = 400
_MOST_CHANNELS = 2
_NAME = re.compile(r"audio|sound|speech|voice|wav|pcm", re.IGNORECASE)
_RATE_NAME = re.compile(r"rate", re.IGNORECASE)


def is_wav(data: bytes) -> bool:
    return data[:4] == b"RIFF" and data[8:12] == b"WAVE"


def sound_value(data: bytes, datatype: DataType, dims: tuple[int, ...]) -> NDArray[Any]:
    """Return a .wav file as an array for `dims`, in its own length: -1 to 1 in floats (FP32 for BF16, to be cast), all
    of an integer's range in integers. The axis of channels is where `dims` has 1 or 2; without such an axis channels
    are mixed.

    Raises UnfitFile.
    """
    kind: np.dtype[Any] = np.dtype(np.float32) if datatype is DataType.BF16 else datatype.numpy
    samples = _samples(data)
    shaped: NDArray[Any]
    axes = [axis for axis, dim in enumerate(dims) if dim in (1, _MOST_CHANNELS)]
    if len(dims) == 1:
        shaped = samples.mean(axis=1)
    elif len(dims) == 2 and axes:
        channels = dims[axes[0]]
        if channels != samples.shape[1]:
            samples = np.repeat(samples.mean(axis=1, keepdims=True), channels, axis=1)
        shaped = samples if axes[0] == 1 else samples.T
    else:
        raise UnfitFile(f"dims {list(dims)} are not samples, with or without channels")
    if kind.kind == "f":
        return shaped.astype(kind)
    if kind.kind not in "iu":
        raise UnfitFile(f"a sound cannot be {datatype.name}")
    bounds: Any = np.iinfo(kind)
    half = 2.0 ** (8 * kind.itemsize - 1)
    scaled = np.rint(shaped * half) + (0.0 if bounds.min else half)
    # the largest 64-bit integers have no float; the one below has
    most = float(bounds.max) if half < 2**53 else np.nextafter(float(bounds.max), 0)
    return np.clip(scaled, float(bounds.min), most).astype(kind)


def _samples(data: bytes) -> NDArray[np.float64]:
    """Return the samples from -1 to 1: a row for each time, a column for each channel."""
    try:
        with wave.open(io.BytesIO(data)) as file:
            width, channels = file.getsampwidth(), file.getnchannels()
            frames = file.readframes(file.getnframes())
            if width > 4:
                raise wave.Error(f"{8 * width} bits in a sample")
    except (wave.Error, EOFError, RuntimeError) as error:  # RuntimeError: a part longer than the file
        raise UnfitFile(f"not a .wav file of PCM samples ({error})") from None
    frames = frames[: len(frames) // (width * channels) * width * channels]
    parts = np.frombuffer(frames, np.uint8).reshape(-1, width)
    wide = np.zeros((len(parts), 4), np.uint8)
    wide[:, 4 - width :] = parts ^ 0x80 if width == 1 else parts  # samples of one byte are unsigned
    return wide.view("<i4").reshape(-1, channels) / 2.0**31


def sounds_html(name: str, tensor: Tensor, rate: int) -> str:
    """Return a player for each sound in an output, at most MOST_PLAYED: .wav files in BYTES, and samples if the name
    marks them as sound.
    """
    return "".join(
        f"<audio class='tl-sound' controls preload='metadata' aria-label='{name}, sound {number}' "
        f"src='{data_address('audio/wav', data)}'></audio><div class='tl-dim'>{text}</div>"
        for number, (data, text) in enumerate(_sounds(name, tensor, rate), start=1)
    )


def _sounds(name: str, tensor: Tensor, rate: int) -> Iterator[tuple[bytes, str]]:
    """Yield .wav files, and a description of each."""
    if tensor.datatype is DataType.BYTES:
        if tensor.byte_size <= MOST_PLAYED * MOST_BYTES:
            found = [element for element in tensor.numpy().flat if is_wav(element)][:MOST_PLAYED]
            yield from ((element, "a .wav file") for element in found if len(element) <= MOST_BYTES)
        return
    if not _NAME.search(name) or tensor.datatype not in (DataType.FP32, DataType.FP64, DataType.FP16, DataType.INT16):
        return
    array = tensor.numpy()
    for samples in list(array if array.ndim > 1 and array.shape[-1] >= _LEAST else [array])[:MOST_PLAYED]:
        if samples.ndim == 1 and len(samples) >= _LEAST:
            yield _wav(samples, rate)


def _wav(samples: NDArray[Any], rate: int) -> tuple[bytes, str]:
    played = samples[: MOST_BYTES // 2]
    if played.dtype != np.int16:
        played = np.rint(np.clip(np.nan_to_num(played.astype(np.float64)), -1, 1) * 32767)
    file = io.BytesIO()
    with wave.open(file, "wb") as target:
        target.setnchannels(1)
        target.setsampwidth(2)
        target.setframerate(rate)
        target.writeframes(played.astype("<i2").tobytes())
    cut = f", the first {len(played) / rate:.3g} s" if len(played) < len(samples) else ""
    return file.getvalue(), f"{len(samples) / rate:.3g} s at {rate:,} samples a second{cut}"


def rate_of(outcome: Exchange) -> int:
    """Return the samples a second set by the request or its response: a parameter, or a tensor of one element, with
    `rate` in its name.
    """
    values: Mapping[str, Any] = {**(outcome.request.parameters or {}), **outcome.request.inputs, **outcome.outputs}
    for name, value in values.items():
        if not _RATE_NAME.search(name):
            continue
        if isinstance(value, Tensor):
            if value.datatype in (DataType.BYTES, DataType.BF16) or math.prod(value.shape) != 1:
                continue
            value = value.numpy().item()
        with suppress(TypeError, ValueError, OverflowError):  # a text, or not finite
            if 1000 <= int(value) <= 400_000:
                return int(value)
    return _RATE
