"""The ring, which keeps the last rows of numbers of a table that only grows, without an object per row."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


class Ring:
    """The last `capacity` rows of `columns`. Row n is the n-th ever added, from 0, kept or not.

    Not thread-safe: its owner has a lock. Memory is reserved at the first row, and used as rows come (Linux provides
    pages when they are written): 8 bytes for each number. With `whole` all numbers are integers of 64 bits, which
    Python writes in a quarter less time; readers get doubles anyway.

    The recorder writes rows itself, because a call per row would take longer than the rest of its work: `write(data,
    total % capacity * size, *numbers)`, and then it adds 1 to `total`.
    """

    __slots__ = ("_lost", "_whole", "capacity", "columns", "data", "size", "total", "write")

    def __init__(self, columns: Sequence[str], capacity: int, whole: bool = False) -> None:
        self.columns = tuple(columns)
        self.capacity = capacity
        #: the number of rows ever added
        self.total = 0
        packed = struct.Struct(f"{len(self.columns)}{'q' if whole else 'd'}")
        self.write, self.size = packed.pack_into, packed.size
        self.data = memoryview(b"")
        self._whole = whole
        self._lost = 0  # rows that were not restored

    def __len__(self) -> int:
        return self.total - self.dropped

    @property
    def dropped(self) -> int:
        """Return how many rows are no longer kept."""
        return max(self.total - self.capacity, self._lost)

    def reserve(self) -> memoryview:
        """Return `data` with room for all rows, in memory directly from the system: malloc would reuse a freed ring's
        memory for a second ring, write all its zeros, and keep it (277 MB of recordings that were read and released:
        `python -m tests.soak`, 2026-11-28).
        """
        if not self.data:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            self.data = memoryview(mmap.mmap(-1, self.capacity * self.size, flags=flags))
        return self.data

    def add(self, numbers: Sequence[float]) -> None:
        """Add rows: their numbers one after the other."""
        data, width = self.reserve(), len(self.columns)
        if self._whole:
            numbers = list(map(int, numbers))
        for begin in range(0, len(numbers), width):
            self.write(data, self.total % self.capacity * self.size, *numbers[begin : begin + width])
            self.total += 1

    def extend(self, columns: Sequence[NDArray[np.int64]]) -> None:
        """Add rows of integers to a ring that is `whole`: all numbers of each column."""
        table = np.stack(columns, axis=1)
        data = np.frombuffer(self.reserve(), np.int64).reshape(self.capacity, -1)
        newest = table[-self.capacity :]
        begin = (self.total + len(table) - len(newest)) % self.capacity
        before = min(len(newest), self.capacity - begin)
        data[begin : begin + before] = newest[:before]
        data[: len(newest) - before] = newest[before:]
        self.total += len(table)

    def since(self, row: int, limit: int | None = None) -> tuple[int, bytes]:
        """Return the number of the first row that is still kept from `row` on, and all rows from there, or `limit` of
        them, as doubles.
        """
        first = min(max(row, self.dropped), self.total)
        rows = self.total - first if limit is None else min(self.total - first, limit)
        begin, count = first % self.capacity * self.size, rows * self.size
        if count == 0:
            return first, b""
        data = self.data
        if begin + count <= len(data):
            found = data[begin : begin + count].tobytes()
        else:
            found = data[begin:].tobytes() + data[: begin + count - len(data)].tobytes()
        return first, np.frombuffer(found, np.int64).astype(np.float64).tobytes() if self._whole else found

    def rows(self, row: int = 0) -> NDArray[np.float64]:
        """Return the rows kept from `row` on, one column per name."""
        return np.frombuffer(self.since(row)[1], np.float64).reshape(-1, len(self.columns))

    def dicts(self, row: int = 0) -> Iterator[dict[str, float]]:
        """Yield the rows kept from `row` on by the names of their columns."""
        for numbers in self.rows(row).tolist():
            yield dict(zip(self.columns, numbers, strict=True))

    def by_column(self, row: int = 0) -> dict[str, NDArray[np.float64]]:
        """Return the columns by name, with the rows kept from `row` on."""
        return dict(zip(self.columns, self.rows(row).T, strict=True))

    def row(self, number: int) -> dict[str, float] | None:
        """Return one row, None if it is no longer kept."""
        first, data = self.since(number, 1)
        return dict(zip(self.columns, np.frombuffer(data).tolist(), strict=True)) if data and first == number else None

    def restore(self, total: int, rows: NDArray[np.float64]) -> None:
        """Restore the rows that `rows` returned for a ring to which `total` rows had been added. Raises ValueError for
        another shape.
        """
        if rows.ndim != 2 or rows.shape[1] != len(self.columns) or total < len(rows):
            raise ValueError(f"{rows.shape} numbers are not rows of {', '.join(self.columns)}")
        newest = rows[-self.capacity :]
        self.total = self._lost = total - len(newest)
        self.add(newest.reshape(-1).tolist())
