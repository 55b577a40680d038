"""Facts for programs that read outputs: JSON values, and texts short enough to be read whole."""

from __future__ import annotations

import base64
import enum
import math
import re
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from typing import Any

import numpy as np

#: A value that JSON can hold.
JsonAnswer = Any
#: Sends the progress of a call.
Tell = Callable[[JsonAnswer], None]

#: The most lines of a text that stands for an object; readers of outputs cut longer ones.
MOST_LINES = 40


def few_lines(text: str, most: int = MOST_LINES) -> str:
    """Return the text, or its first lines and the number of lines left out."""
    lines = text.split("\n")
    if len(lines) <= most:
        return text
    return "\n".join([*lines[: most - 1], f"… and {len(lines) - most + 1} more lines"])


class Shown:
    """The base of a result that a cell shows as HTML, and that its first lines of text stand for elsewhere."""

    def text(self) -> str:
        """Return the facts in words."""
        raise NotImplementedError

    def html(self) -> str:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the facts for a program."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return few_lines(self.text())


def by_number(name: str) -> tuple[list[str | int], str]:
    """Return a sort key that orders names as people do: model_2 before model_10."""
    # texts and digits in turn, so that each is compared with its kind
    pieces = re.split("([0-9]+)", name)
    parts: list[str | int] = [int(piece) if index % 2 else piece for index, piece in enumerate(pieces)]
    return parts, name


def plain(value: Any) -> Any:
    """Return the value in JSON's types: NaN and infinities are text, as protobuf writes them; bytes are text, or
    `{"base64": …}` where they are not UTF-8; an object with `to_dict` is its result.
    """
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, float):
        value = float(value)
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if isinstance(value, Mapping):
        return {str(key): plain(found) for key, found in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(_shortest(value) if value.dtype.kind == "f" else value.tolist())
    if isinstance(value, PathLike):
        return fspath(value)
    return [plain(found) for found in value]


def _shortest(value: Any) -> Any:
    """Return the floats with the fewest digits that distinguish them from their neighbours of the same type."""
    array = np.asarray(value)
    return np.array([float(str(element)) for element in array.reshape(-1)]).reshape(array.shape).tolist()
