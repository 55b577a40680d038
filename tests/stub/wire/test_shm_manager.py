from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.machines import NUMBERS, choose
from tritonlab.stub._pb_stub.wire import shm_manager
from tritonlab.stub._pb_stub.wire.serialization import WireError
from tritonlab.stub._pb_stub.wire.shm_manager import (
    LARGE,
    Lease,
    Region,
    RegionReader,
    SharedMemoryError,
    create_region_file,
)

MIB = 1 << 20
PAGE = 4096


@pytest.fixture
def fd() -> Iterator[int]:
    fd = create_region_file("test")
    yield fd
    os.close(fd)


# -- memory that goes back


def resident(fd: int) -> int:
    """Return the bytes that the system has allocated for the file."""
    return os.fstat(fd).st_blocks * 512


def test_what_is_free_goes_back_and_what_is_used_stays(fd: int) -> None:
    region = Region(fd, 1 * MIB)
    data = np.arange(8 * MIB, dtype=np.uint8)
    first, second, third = (region.allocate(data.nbytes) for _ in range(3))
    for offset in (first, second, third):
        region.write(offset, data)
    reader = RegionReader(os.dup(fd))
    region.free(first)
    region.free(third)
    assert resident(fd) >= 24 * MIB
    region.give_back()
    assert 8 * MIB <= resident(fd) <= 10 * MIB
    assert np.array_equal(np.frombuffer(reader.view(second, data.nbytes), np.uint8), data)
    again = region.allocate(data.nbytes)
    region.write(again, data)
    assert np.array_equal(np.frombuffer(reader.view(again, data.nbytes), np.uint8), data)
    reader.close()


def test_a_python_without_ctypes_keeps_its_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    shm_manager.trim_heap()
    monkeypatch.setattr(shm_manager, "ctypes", None)
    shm_manager.trim_heap()


def test_a_region_that_is_closed_gives_nothing_back() -> None:
    fd = create_region_file("test")
    region = Region(fd)
    region.close()
    region.give_back()


# -- the file


def test_a_region_has_no_name_in_any_directory(fd: int) -> None:
    Region(fd, 4 * MIB)
    assert os.fstat(fd).st_nlink == 0
    assert os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:")


def test_a_region_is_not_inherited_by_what_the_kernel_starts(fd: int) -> None:
    assert not os.get_inheritable(fd)


def test_nobody_can_shrink_a_region_under_its_reader(fd: int) -> None:
    """A mapped page that is cut off would kill the reader with SIGBUS."""
    Region(fd, MIB)
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    os.ftruncate(fd, 2 * MIB)


def test_without_memfd_it_is_an_unlinked_temporary_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    fd = create_region_file("test")
    try:
        region = Region(fd, MIB)
        assert os.fstat(fd).st_nlink == 0
        offset = region.allocate(10)
        region.write(offset, b"0123456789")
        assert bytes(RegionReader(fd).view(offset, 10)) == b"0123456789"
    finally:
        os.close(fd)


# -- the writer


@pytest.mark.parametrize("nbytes", [64, 1 << 16, (1 << 16) + 64, 2 * MIB])
def test_what_was_freed_is_used_again(fd: int, nbytes: int) -> None:
    region = Region(fd, 4 * MIB)
    for _ in range(20):
        region.free(region.allocate(nbytes))
    assert region.size == 4 * MIB


def test_kept_small_blocks_are_freed_before_the_region_grows(fd: int) -> None:
    region = Region(fd, MIB)
    blocks = [region.allocate(1 << 16) for _ in range(16)]  # all of it
    for block in blocks:
        region.free(block)
    region.free(region.allocate(MIB - PAGE))
    assert region.size == MIB


def test_it_asks_for_blocks_that_were_returned_before_it_grows(fd: int) -> None:
    region = Region(fd, MIB)
    block = region.allocate(MIB - PAGE)
    region.on_full = lambda: region.free(block)
    assert region.allocate(MIB - PAGE) == block
    assert region.size == MIB
    region.on_full = lambda: None
    region.allocate(MIB - PAGE)
    assert region.size > MIB


def test_it_grows_by_steps_as_far_as_needed(fd: int) -> None:
    region = Region(fd, MIB, growth=MIB)
    region.allocate(5 * MIB)
    assert region.size % MIB == 0
    assert 6 * MIB <= region.size <= 8 * MIB
    assert os.fstat(fd).st_size == region.size


def test_both_sides_hear_that_it_grew(fd: int) -> None:
    region, events = Region(fd, size=4096, growth=4096), []
    reader = RegionReader(fd)
    region.on_grow = lambda size, used: events.append(("writer", size, used))
    reader.on_grow = lambda size, used: events.append(("reader", size, used))
    reader.view(region.allocate(64), 64)
    assert events == []
    large = region.allocate(10_000)
    reader.view(large, 10_000)
    reader.view(large, 10_000)
    assert events == [("writer", 16384, 64 + 10_048), ("reader", 16384, -1)]


def test_views_of_before_stay_valid_when_it_grows(fd: int) -> None:
    region = Region(fd, MIB)
    offset = region.allocate(8)
    region.write(offset, b"original")
    reader = RegionReader(fd)
    view = reader.view(offset, 8)
    region.write(region.allocate(3 * MIB), b"x")
    assert bytes(view) == b"original"
    region.write(offset, b"changed!")
    assert bytes(view) == b"changed!"


@pytest.mark.rule("2.9.1")
def test_a_limit_refuses_growth_with_tritons_text(fd: int) -> None:
    region = Region(fd, MIB, MIB, limit=2 * MIB)
    block = region.allocate(1000)
    with pytest.raises(
        SharedMemoryError,
        match=r"^Failed to increase the shared memory pool size to \d+ bytes. If you are running Triton inside docker, "
        r"use '--shm-size' flag to control the shared memory region size. Error: limit of 2097152 bytes reached$",
    ):
        region.allocate(4 * MIB)
    region.free(block)
    assert region.size == MIB
    region.allocate(MIB // 2)  # it goes on working


def test_more_than_the_machine_has_is_refused(fd: int) -> None:
    region = Region(fd, MIB)
    with pytest.raises(SharedMemoryError):
        region.allocate(1 << 62)
    assert region.used == 0


class RegionMachine(RuleBasedStateMachine):
    """A region beside a list of its blocks. No two overlap, the reader sees in each what was written, whatever is
    allocated, freed and given back elsewhere, and nothing gets lost.

    A block that its writer holds, at most once, is free once the reader has returned it and the hold is gone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fd = create_region_file("test")
        self.region, self.reader = Region(self.fd, MIB), RegionReader(os.dup(self.fd))
        self.sizes: dict[int, int] = {}
        self.written: dict[int, bytes] = {}
        self.holds: dict[int, object] = {}
        self.held_once: set[int] = set()
        self.returned: set[int] = set()
        self.let_go = 0  # bytes that the next call frees

    def gone(self, block: int) -> int:
        del self.written[block]
        self.returned.discard(block)
        self.held_once.discard(block)
        return self.sizes.pop(block)

    @rule(nbytes=st.sampled_from([0, 1, 63, 64, 65, 5000, 1 << 16, (1 << 16) + 1, LARGE - 1, LARGE, 3 * MIB]))
    def allocate(self, nbytes: int) -> None:
        block, align = self.region.allocate(nbytes), PAGE if nbytes >= LARGE else 64
        assert block % align == 0 and block not in self.sizes
        self.sizes[block] = max(-(-nbytes // align) * align, 64)
        self.written[block] = os.urandom(min(nbytes, 64))
        self.region.write(block, self.written[block])
        self.let_go = 0

    @precondition(lambda self: self.sizes.keys() - self.returned)
    @rule(number=NUMBERS)
    def free(self, number: int) -> None:
        block = choose(number, self.sizes.keys() - self.returned)
        self.region.free(block)
        self.let_go = 0
        if block in self.holds:
            self.returned.add(block)
        else:
            self.gone(block)

    @precondition(lambda self: self.sizes.keys() - self.held_once)
    @rule(number=NUMBERS)
    def hold(self, number: int) -> None:
        block = choose(number, self.sizes.keys() - self.held_once)
        self.held_once.add(block)
        self.holds[block] = self.region.hold(block)

    @precondition(lambda self: self.holds)
    @rule(number=NUMBERS)
    def let_hold_go(self, number: int) -> None:
        block = choose(number, self.holds.keys())
        del self.holds[block]
        self.let_go += self.gone(block) if block in self.returned else 0

    @rule(offset=st.sampled_from([64, 1, -64, 1 << 40]), number=NUMBERS)
    def free_what_is_not_out(self, offset: int, number: int) -> None:
        offset = choose(number, self.returned) if self.returned else offset
        if offset not in self.sizes.keys() - self.returned:
            with pytest.raises(WireError, match="freed twice"):
                self.region.free(offset)
            self.let_go = 0

    @rule()
    def give_back(self) -> None:
        self.region.give_back()
        self.let_go = 0

    @invariant()
    def the_blocks_are_those_of_the_list(self) -> None:
        spans = sorted((block, block + size) for block, size in self.sizes.items())
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise([*spans, (self.region.size, 0)]))
        assert self.region.used == sum(self.sizes.values()) + self.let_go
        for block, data in self.written.items():
            assert self.reader.view(block, len(data)) == data
        assert self.reader.size == self.region.size

    def teardown(self) -> None:
        self.holds.clear()
        for block in self.sizes.keys() - self.returned:
            self.region.free(block)
        size = self.region.size
        assert self.region.allocate(size) == 0 and self.region.size == size
        os.close(self.fd)
        self.reader.close()


TestRegionMachine = RegionMachine.TestCase
TestRegionMachine.settings = settings(max_examples=40)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(10, dtype=np.int16),
        np.arange(5000, dtype=np.float64),
        np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        np.array(7.5),
        np.empty((0, 3), np.float32),
        np.arange(4000, dtype=np.int32)[::2],
        np.asfortranarray(np.arange(6000, dtype=np.float32).reshape(60, 100)),
        np.array([True, False]),
    ],
    ids=lambda array: f"{array.dtype}{list(array.shape)}",
)
def test_arrays_are_written_in_c_order(fd: int, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    region = Region(fd, MIB)
    offset = region.allocate(array.nbytes)
    assert region.write(offset, array) == array.nbytes
    assert bytes(RegionReader(fd).view(offset, array.nbytes)) == array.tobytes()


@pytest.mark.parametrize("data", [b"", b"bytes", memoryview(b"view")])
def test_bytes_are_written_as_they_are(fd: int, data: bytes) -> None:
    region = Region(fd, MIB)
    offset = region.allocate(len(data))
    assert region.write(offset, data) == len(data)
    assert bytes(RegionReader(fd).view(offset, len(data))) == bytes(data)


# -- the reader


@pytest.mark.parametrize(("offset", "nbytes"), [(0, MIB + 1), (MIB, 1), (-1, 8), (0, -1), (1 << 62, 8)])
def test_a_view_outside_the_region_is_refused(fd: int, offset: int, nbytes: int) -> None:
    Region(fd, MIB)
    with pytest.raises(WireError):
        RegionReader(fd).view(offset, nbytes)


def test_a_closed_region_is_refused_but_what_was_seen_stays(fd: int) -> None:
    region = Region(fd, MIB)
    offset = region.allocate(4)
    region.write(offset, b"seen")
    reader = RegionReader(os.dup(fd))
    view = reader.view(offset, 4)
    reader.close()
    assert bytes(view) == b"seen"
    region.allocate(MIB)
    with pytest.raises(WireError, match="the region is closed"):
        reader.view(MIB, 4)


def test_a_lease_returns_its_block_once_when_the_last_holder_lets_go(fd: int) -> None:
    region = Region(fd, MIB)
    offset = region.allocate(64)
    freed: list[int] = []
    reader = RegionReader(fd)
    lease: Lease | None = Lease(freed, offset, reader)
    array = reader.array(offset, 64, lease)
    part = array[8:16]
    lease = None
    del array
    gc.collect()
    assert freed == []
    del part
    gc.collect()
    assert freed == [offset]


def test_an_array_is_the_memory_itself(fd: int) -> None:
    region = Region(fd, MIB)
    offset = region.allocate(16)
    reader = RegionReader(fd)
    array = reader.array(offset, 16, None)
    region.write(offset, bytes(range(16)))
    assert array.tolist() == list(range(16))


@pytest.mark.parametrize("position", [0, 64, PAGE - 64])
def test_a_private_array_is_writable_and_nobody_else_sees_it(fd: int, position: int) -> None:  # rule 1.4.11
    region = Region(fd, 4 * MIB)
    block = region.allocate(2 * MIB)
    offset = block + position
    region.write(offset, np.full(MIB, 7, np.uint8))
    freed: list[int] = []
    reader = RegionReader(fd)
    lease = Lease(freed, block, reader)
    private = lease.private_array(reader.view(offset, MIB))
    assert private.nbytes == MIB
    private[0] = 9
    assert (private[1:] == 7).all()
    assert reader.view(offset, 1)[0] == 7
    del lease
    gc.collect()
    assert freed == []  # pages that were not written still are the region's
    del private
    gc.collect()
    assert freed == [block]


def test_a_private_array_of_a_view_older_than_the_last_growth(fd: int) -> None:
    """The model keeps an input, something larger comes (a BLS answer, the next batch), then it asks for the array."""
    region = Region(fd, 4 * MIB)
    block = region.allocate(2 * MIB)
    region.write(block, np.full(2 * MIB, 7, np.uint8))
    reader = RegionReader(fd)
    lease = Lease([], block, reader)
    view = reader.view(block, 2 * MIB)
    later = region.allocate(16 * MIB)
    reader.view(later, 16 * MIB)
    private = lease.private_array(view)
    assert (private == 7).all()


def test_the_constants_are_those_of_this_machine() -> None:
    fcntl = pytest.importorskip("fcntl")
    assert fcntl.F_ADD_SEALS == shm_manager._ADD_SEALS
    assert fcntl.F_SEAL_SHRINK == shm_manager._SEAL_SHRINK
