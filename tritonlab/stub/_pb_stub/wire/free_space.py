"""The free ranges of a piece of memory. A `FreeSpace` has no lock; its owner does."""

from __future__ import annotations

from bisect import insort
from typing import Iterator, List, Optional, Tuple


class FreeSpace:
    """The free ranges, initially none."""

    def __init__(self) -> None:
        self._ranges: List[Tuple[int, int]] = []  # (offset, size), sorted, never adjacent

    def __iter__(self) -> Iterator[Tuple[int, int]]:
        return iter(self._ranges)

    def take(self, need: int, align: int) -> Optional[int]:
        """Take the first range of `need` bytes that begins at a multiple of `align`; None without one."""
        for index, (offset, size) in enumerate(self._ranges):
            start = (offset + align - 1) & -align
            if offset + size - start < need:
                continue
            rest = []
            if start > offset:
                rest.append((offset, start - offset))
            if offset + size > start + need:
                rest.append((start + need, offset + size - start - need))
            self._ranges[index : index + 1] = rest
            return start
        return None

    def add(self, offset: int, size: int) -> None:
        """Add a range, joined with its neighbours."""
        ranges = self._ranges
        insort(ranges, (offset, size))
        index = ranges.index((offset, size))
        if index + 1 < len(ranges) and offset + size == ranges[index + 1][0]:
            size += ranges.pop(index + 1)[1]
            ranges[index] = (offset, size)
        if index > 0 and sum(ranges[index - 1]) == offset:
            before = ranges[index - 1][0]
            ranges[index - 1 : index + 1] = [(before, offset - before + size)]

    def clear(self) -> None:
        """Forget all ranges."""
        self._ranges.clear()
