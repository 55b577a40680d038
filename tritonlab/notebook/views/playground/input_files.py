"""The value of one playground input from files: pictures, `.npy`, or text as typed."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.inference.data_type import DataType
from .input_values import InputSpec, UnfitFile, ValueProblem, cast, filled, fitted, typed_value
from .pictures import picture_value
from .sounds import is_wav, sound_value


@dataclass(frozen=True)
class InputFile:
    """One chosen file. Its name decides how it is read."""

    name: str
    content: bytes


def files_value(spec: InputSpec, files: Sequence[InputFile], shape: tuple[int, ...]) -> NDArray[Any]:
    """Read the files as one value: a row of a batching model, or several rows, for each file. Raises ValueProblem."""
    if not files:
        raise ValueProblem(f"{spec.name}: choose a file")
    values = [_value(spec, file, shape) for file in files]
    if len(values) == 1:
        return values[0]
    if not spec.batching:
        raise ValueProblem(f"{spec.name}: the model does not batch: choose one file, not {len(values)}")
    try:
        return np.concatenate(values)
    except ValueError as error:
        raise ValueProblem(f"{spec.name}: the files do not fit together: {error}") from None


def _value(spec: InputSpec, file: InputFile, shape: tuple[int, ...]) -> NDArray[Any]:
    row = (1, *shape[1:]) if spec.batching else shape
    suffix = file.name.rpartition(".")[2].lower()
    if suffix == "npy":
        try:
            # it keeps its type and shape, so that a mismatch is seen
            array: NDArray[Any] = np.load(io.BytesIO(file.content), allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise ValueProblem(f"{spec.name}: {file.name}: {error}") from None
        return array[None] if spec.batching and spec.is_element(array.shape) else array
    if spec.datatype is DataType.BYTES:
        return filled(spec, file.content, row)
    is_sound = suffix == "wav" or is_wav(file.content)
    if not is_sound and suffix in ("txt", "json", "csv"):
        return typed_value(spec, file.content.decode(errors="replace"), row)
    # the file itself, which the model decodes
    if not is_sound and spec.datatype is DataType.UINT8 and spec.dims == (-1,):
        content = np.frombuffer(file.content, np.uint8)
        return content[None] if spec.batching else content
    try:
        read = sound_value if is_sound else picture_value
        return fitted(spec, cast(spec, read(file.content, spec.datatype, spec.dims)), row)
    except UnfitFile as problem:
        others = "" if is_sound else "; .wav, .npy, .json and .txt are read, too"
        raise ValueProblem(f"{spec.name}: {file.name}: {problem}{others}") from None
    except ModuleNotFoundError as error:
        raise ValueProblem(f"{spec.name}: {error}") from None


def value_file(spec: InputSpec, value: Any) -> InputFile | None:
    """Return the file behind a value of the notebook: bytes of a picture or a .wav file for an input that is not text,
    `IPython.display.Audio` and `Image`, and a picture of Pillow. None for any other value.
    """
    module = type(value).__module__
    data = getattr(value, "data", None) if module in ("IPython.lib.display", "IPython.core.display") else value
    if module.startswith("PIL."):
        file = io.BytesIO()
        value.save(file, "png")
        data = file.getvalue()
    if not isinstance(data, bytes) or (data is value and spec.datatype is DataType.BYTES):
        return None
    return InputFile(f"the {type(value).__name__}", data)
