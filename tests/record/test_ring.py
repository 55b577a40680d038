from __future__ import annotations

import ctypes

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritonlab.record.ring import Ring


def filled(count: int, capacity: int, step: int = 1) -> Ring:
    ring = Ring(("a", "b"), capacity)
    for first in range(0, count, step):
        ring.add([n for i in range(first, min(first + step, count)) for n in (i, -i)])
    return ring


@given(st.integers(0, 40), st.integers(1, 12), st.integers(1, 30), st.integers(0, 45))
def test_the_last_rows_are_kept_in_order(count: int, capacity: int, step: int, since: int) -> None:
    ring = filled(count, capacity, step)
    kept = list(range(max(0, count - capacity), count))
    assert (ring.total, len(ring), ring.dropped) == (count, len(kept), count - len(kept))
    assert ring.rows().tolist() == [[i, -i] for i in kept]
    first, data = ring.since(since)
    assert np.frombuffer(data).reshape(-1, 2)[:, 0].tolist() == [i for i in kept if i >= since]
    assert first == min(max(since, count - len(kept)), count)


@given(st.integers(0, 40), st.integers(1, 12), st.integers(1, 12), st.integers(0, 9))
def test_a_ring_goes_on_where_it_was(count: int, capacity: int, smaller: int, more: int) -> None:
    ring, other = filled(count, capacity), Ring(("a", "b"), smaller)
    other.restore(ring.total, ring.rows())
    for i in range(count, count + more):
        other.add([i, -i])
    assert other.total == count + more
    kept = min(smaller, more + min(capacity, smaller, count))
    assert other.rows()[:, 0].tolist() == list(range(count + more - kept, count + more))


def test_whole_numbers_are_read_as_doubles() -> None:
    ring = Ring(("a", "b"), 3, whole=True)
    ring.add([1, 2, 3.0, -4, 5, 1 << 60, 7, 8])
    assert ring.rows().tolist() == [[3.0, -4.0], [5.0, 2.0**60], [7.0, 8.0]]
    assert ring.row(3) == {"a": 7.0, "b": 8.0}
    other = Ring(("a", "b"), 3, whole=True)
    other.restore(ring.total, ring.rows())
    assert np.array_equal(other.rows(), ring.rows()) and other.total == 4


def test_rows_of_another_table_are_refused() -> None:
    with pytest.raises(ValueError, match="not rows of a, b"):
        Ring(("a", "b"), 4).restore(1, np.zeros((1, 3)))


def test_memory_is_not_of_malloc() -> None:
    """malloc would give a ring the memory of one before it, write all of its zeros, and keep it."""
    Mallinfo = type("Mallinfo", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_size_t) for name in "abcdefghij"]})
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo

    def reserved() -> int:
        return int(mallinfo().e + mallinfo().h)  # hblkhd and uordblks: blocks of their own, and in the heap

    ring, before = Ring(["a"] * 16, 1_000_000), reserved()
    assert len(ring.reserve()) == 128_000_000 and reserved() - before < 1 << 20
    array = np.zeros(128_000_000, np.uint8)
    assert reserved() - before >= array.nbytes


def test_memory_is_used_as_rows_come() -> None:
    def resident() -> int:
        return psutil.Process().memory_info().rss

    ring, before = Ring(["a"] * 16, 1_000_000), resident()
    ring.add(range(16))
    assert resident() - before < 64 << 20  # of 128 MB
    assert ring.rows().tolist() == [list(map(float, range(16)))]
