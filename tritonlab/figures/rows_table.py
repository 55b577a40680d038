"""Arrays of one batch as a table: a row for each row of the batch."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.plain_facts import Shown
from ..core.whole_file import write_file
from .tables import table, text_table

#: An array of at most so many elements per row has a column for each; a larger one has one column with the first ones.
_COLUMNS = 16
_SHOWN = 4
#: The most rows in HTML, and in text.
_ROWS, _LINES = 1000, 36


class RowsTable(Shown):
    """Arrays as a table. They have the same first dimension; arrays of different ones, or without any, are one row."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        found = {name: np.asarray(value) for name, value in arrays.items()}
        sizes = {array.shape[:1] for array in found.values()}
        (size,) = sizes if len(sizes) == 1 else ((),)
        self.count = size[0] if size else 1
        self._columns: dict[str, NDArray[Any] | list[str]] = {}
        for name, array in found.items():
            self._columns.update(_columns(name, array if size else array[np.newaxis]))

    @property
    def heads(self) -> list[str]:
        """The names of the columns: of an output, or `name[2]` of its third element."""
        return ["row", *self._columns]

    def rows(self, count: int | None = None, exact: bool = False) -> Iterator[list[str]]:
        """Yield the texts of the first rows, by default of all. `exact`: with all digits."""
        for row in range(self.count if count is None else min(count, self.count)):
            yield [str(row), *(_text(column[row], exact) for column in self._columns.values())]

    def to_csv(self, path: str | PathLike[str]) -> Path:
        """Write all rows as CSV, with the heads and all digits. Raises OSError."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.heads)
        writer.writerows(self.rows(exact=True))
        write_file(path, text.getvalue())
        return Path(path)

    def to_dict(self) -> dict[str, Any]:
        """Return the heads and the rows as JSON values."""
        return {"heads": self.heads, "rows": list(self.rows())}

    def text(self) -> str:
        return "\n".join([*text_table([self.heads, *self.rows(_LINES)], self._numbers()), *self._rest(_LINES)])

    def html(self) -> str:
        rest = "".join(f"<div class='tl-dim'>{escape(text)}</div>" for text in self._rest(_ROWS))
        return f"<div class='tl-panel'>{table(self.heads, list(self.rows(_ROWS)), self._numbers())}{rest}</div>"

    def _numbers(self) -> list[int]:
        columns = enumerate(self._columns.values(), 1)
        return [0, *(n for n, column in columns if isinstance(column, np.ndarray) and column.dtype.kind in "iuf")]

    def _rest(self, shown: int) -> list[str]:
        return [f"… {self.count - shown:,} more rows: to_csv(path)"] if self.count > shown else []


def _columns(name: str, array: NDArray[Any]) -> dict[str, NDArray[Any] | list[str]]:
    width = math.prod(array.shape[1:])
    flat = array.reshape(len(array), width)
    if width == 1:
        return {name: flat[:, 0]}
    if width <= _COLUMNS:
        return {f"{name}[{n}]": flat[:, n] for n in range(width)}
    return {name: [f"{', '.join(map(_text, row[:_SHOWN]))}, … {width:,} elements" for row in flat]}


def _text(value: Any, exact: bool = False) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) and not exact else str(value)
