"""A ring keeps the last rows of numbers of a table that only grows, without an object per row."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Ring:
    """Keeps the last `capacity` rows of `columns`. Row n is the n-th that was ever added, from 0, kept or not.

    Not thread-safe: its owner has a lock. Memory grows with the rows, up to 8 bytes for each number.
    """

    __slots__ = ("_data", "_lost", "_size", "capacity", "columns", "total")

    def __init__(self, columns: Sequence[str], capacity: int) -> None:
        self.columns = tuple(columns)
        self.capacity = capacity
        #: rows that were ever added
        self.total = 0
        self._data = array("d")
        self._lost = 0  # rows that were not restored
        self._size = capacity * len(self.columns)

    def __len__(self) -> int:
        return self.total - self.dropped

    @property
    def dropped(self) -> int:
        """Returns how many rows are not kept any more."""
        return max(self.total - self.capacity, self._lost)

    def add(self, numbers: Sequence[float]) -> None:
        """Adds rows: their numbers one after the other."""
        if len(numbers) > self._size:
            for begin in range(0, len(numbers), self._size):
                self.add(numbers[begin : begin + self._size])
            return
        width, data = len(self.columns), self._data
        at = self.total * width % self._size
        self.total += len(numbers) // width
        block = array("d", numbers)
        room = self._size - at
        if len(data) < self._size:
            data.extend(block if len(block) <= room else block[:room])
        elif len(block) <= room:
            data[at : at + len(block)] = block
        else:
            data[at:] = block[:room]
        if len(block) > room:
            data[: len(block) - room] = block[room:]

    def since(self, row: int, limit: int | None = None) -> tuple[int, bytes]:
        """Returns the number of the first row that is still kept from `row` on, and all rows from there, or `limit` of
        them, as doubles.
        """
        first = min(max(row, self.dropped), self.total)
        width = len(self.columns)
        rows = self.total - first if limit is None else min(self.total - first, limit)
        begin, count = first * width % self._size, rows * width
        if count == 0:
            return first, b""
        data = memoryview(self._data)
        if begin + count <= len(data):
            return first, data[begin : begin + count].tobytes()
        return first, data[begin:].tobytes() + data[: begin + count - self._size].tobytes()

    def rows(self, row: int = 0) -> NDArray[np.float64]:
        """Returns the rows kept from `row` on, one column per name."""
        return np.frombuffer(self.since(row)[1], np.float64).reshape(-1, len(self.columns))

    def row(self, number: int) -> dict[str, float] | None:
        """Returns one row, None if it is not kept."""
        first, data = self.since(number, 1)
        return dict(zip(self.columns, array("d", data), strict=True)) if data and first == number else None

    def restore(self, total: int, rows: NDArray[np.float64]) -> None:
        """Puts back what `rows` returned of a ring to which `total` rows had been added. Raises ValueError for another
        shape.
        """
        if rows.ndim != 2 or rows.shape[1] != len(self.columns) or total < len(rows):
            raise ValueError(f"{rows.shape} numbers are no rows of {', '.join(self.columns)}")
        kept = rows[-self.capacity :]
        self.total = self._lost = total - len(kept)
        # each row has its place: zeros stand where the older ones were, until they are overwritten
        self._data = array("d", bytes(8 * min(self.total * len(self.columns), self._size)))
        self.add(kept.reshape(-1).tolist())
