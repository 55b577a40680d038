"""A shared-memory region, with one writer, which alone allocates and frees; the reader only reads, and returns blocks
when it is done.

A region is a file without a name (`memfd_create`, elsewhere an unlinked temporary file), so nothing is left behind
after a kill, and the 64 MB /dev/shm of a container does not bound it. It grows in steps and never shrinks (rule 2.9.1),
but `give_back` returns the memory of free blocks; a limit reproduces Triton's errors. The processes share no lock and
no allocator state.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import tempfile
import threading
from functools import partial
from typing import Any, Callable, Dict, List, Optional

import numpy as np

try:
    import ctypes
except ImportError:  # a Python that was built without it
    ctypes = None  # type: ignore[assignment]

from .free_space import FreeSpace
from .serialization import WireError

#: The bytes from which on a separate class of views pays: such blocks are page aligned, so that a reader can map them
#: privately.
LARGE = 1 << 20
_PAGE = mmap.ALLOCATIONGRANULARITY
_ALIGN = 64
#: Advice to free the pages of a shared mapping, if the system has it.
_REMOVE = getattr(mmap, "MADV_REMOVE", None)
#: <linux/fcntl.h>; the names are in the fcntl module from Python 3.9 on
_ADD_SEALS = 1033
_SEAL_SHRINK = 2
#: Batches of one model tend to have one size: a freed block of up to this many bytes is kept for the next (0.7 us for
#: allocate and free instead of 2.8), up to a number of each size.
_SMALL = 1 << 16
_KEPT = 8


class SharedMemoryError(Exception):
    """A region that cannot grow. The text is Triton's (rule 2.9.1)."""


def _cannot_grow(size: int, error: Exception) -> SharedMemoryError:
    return SharedMemoryError(
        "Failed to increase the shared memory pool size to %d bytes. If you are running Triton inside docker, "
        "use '--shm-size' flag to control the shared memory region size. Error: %s" % (size, error)
    )


def create_region_file(name: str) -> int:
    """Create an empty file without a name in any directory and return its descriptor; `name` shows in /proc only."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # sealed against shrinking: a mapped file that shrinks kills its reader, here the server, with SIGBUS
        fcntl.fcntl(fd, _ADD_SEALS, _SEAL_SHRINK)
        return fd
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def trim_heap() -> None:
    """Return the freed memory that malloc keeps to the system, if malloc supports it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if ctypes is not None else None
    if trim is not None:
        trim(0)


def _file_memory(fd: int) -> int:
    """Return the bytes of memory of a file without a directory; 0 once it is closed."""
    return os.fstat(fd).st_blocks * 512 if fd >= 0 else 0


class Region:
    """The writer's side: it allocates blocks, and frees them when the reader has returned them."""

    def __init__(self, fd: int, size: int = 1 << 20, growth: int = 1 << 20, limit: Optional[int] = None) -> None:
        self._fd = fd
        self._growth = growth
        self._limit = limit
        self._lock = threading.Lock()  # guards all fields below
        self._free = FreeSpace()
        self._blocks: Dict[int, int] = {}  # offset -> size of blocks in use
        self._held: Dict[int, bool] = {}  # blocks that this side also reads -> whether the reader has returned them
        self._owners: Dict[int, Any] = {}  # block -> the objects that live until it is free
        self._recent: Dict[int, List[int]] = {}  # size -> freed small blocks, kept whole for the next one of their size
        #: held blocks that were released; destructors append
        self._let_go: List[int] = []
        self.size = 0
        self.used = 0
        #: called after a growth with (size, used), bytes
        self.on_grow: Optional[Callable[[int, int], None]] = None
        #: returns whether there is memory for a block of LARGE or more bytes
        self.has_room: Optional[Callable[[int], bool]] = None
        #: called before the region grows: it may free blocks that the reader has returned
        self.on_full: Optional[Callable[[], None]] = None
        self._map: mmap.mmap
        self.buffer: memoryview
        self._grow_to(size)

    def allocate(self, nbytes: int) -> int:
        """Allocate at least `nbytes` and return the offset. Raises SharedMemoryError if the region cannot grow."""
        align = _PAGE if nbytes >= LARGE else _ALIGN
        if nbytes >= LARGE and self.has_room is not None and not self.has_room(nbytes):
            raise _cannot_grow(self.used + nbytes, OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)))
        need = max((nbytes + align - 1) & -align, _ALIGN)
        if self._let_go:
            self._drop_holds()
        with self._lock:
            recent = self._recent.get(need)
            if recent:
                block = recent.pop()
                self._blocks[block] = need
                self.used += need
                return block
            offset = self._take(need, align)
        if offset is None and self.on_full is not None:
            self.on_full()
            with self._lock:
                offset = self._take(need, align)
        if offset is not None:
            return offset
        with self._lock:
            missing = need + align
            self._grow_to(self.size + self._growth * (missing // self._growth + 1))
            offset = self._take(need, align)
            assert offset is not None
        if self.on_grow is not None:
            self.on_grow(self.size, self.used)
        return offset

    def _take(self, need: int, align: int) -> Optional[int]:
        """Take a block from the free space, None if none fits; the caller holds the lock."""
        offset = self._free.take(need, align)
        if offset is None and self._recent:
            self._release_recent()
            offset = self._free.take(need, align)
        if offset is not None:
            self._blocks[offset] = need
            self.used += need
        return offset

    def free(self, offset: int) -> None:
        """Free a block. Raises WireError for an offset that is not allocated, which no correct reader returns."""
        if self._let_go:
            self._drop_holds()
        with self._lock:
            if offset in self._held:
                if self._held[offset]:
                    raise WireError("block %d was freed twice" % offset)
                self._held[offset] = True
                return
            self._free_block(offset)

    def _free_block(self, offset: int) -> None:
        size = self._blocks.pop(offset, None)
        if size is None:
            raise WireError("block %d was freed twice or never allocated" % offset)
        self.used -= size
        if self._owners:
            self._owners.pop(offset, None)
        if size <= _SMALL:
            recent = self._recent.setdefault(size, [])
            if len(recent) < _KEPT:
                recent.append(offset)
                return
        self._free.add(offset, size)

    def hold(self, offset: int) -> "Hold":
        """Keep a block unchanged until the returned object is gone, even if the reader has returned it."""
        with self._lock:
            self._held[offset] = False
        return Hold(self._let_go, offset)

    def held_array(self, offset: int, nbytes: int, hold: "Hold") -> "np.ndarray[Any, Any]":
        """Return a part of a held block as a uint8 array that keeps `hold`."""
        return np.asarray(_LeasedMemory(_address_of(self.buffer) + offset, nbytes, self._map, hold))

    def keep(self, offset: int, owners: Any) -> None:
        """Keep `owners` alive until the block is free. Their destructors may run with the region's lock held."""
        with self._lock:
            self._owners[offset] = owners

    def _drop_holds(self) -> None:
        with self._lock:
            while self._let_go:
                offset = self._let_go.pop()
                if self._held.pop(offset):
                    self._free_block(offset)

    def _release_recent(self) -> None:
        for size, offsets in self._recent.items():
            for offset in offsets:
                self._free.add(offset, size)
        self._recent.clear()

    def give_back(self) -> None:
        """Return the memory of free blocks to the system; it is zeroed when it is used again. The first bytes of the
        region stay, for small tensors."""
        if self._let_go:
            self._drop_holds()
        with self._lock:
            self._release_recent()
            for offset, size in self._free:
                start, end = max(-(-offset // _PAGE) * _PAGE, LARGE), (offset + size) // _PAGE * _PAGE
                if start < end and _REMOVE is not None:
                    with contextlib.suppress(OSError):  # a file system that cannot
                        self._map.madvise(_REMOVE, start, end - start)

    def memory(self) -> int:
        """Return the bytes of memory that the region takes."""
        with self._lock:
            return _file_memory(self._fd)

    def _grow_to(self, size: int) -> None:
        try:
            if self._limit is not None and size > self._limit:
                raise OSError("limit of %d bytes reached" % self._limit)
            os.ftruncate(self._fd, size)
            # views of the old map stay valid: it is the same memory, and they keep the old map alive
            self._map = mmap.mmap(self._fd, size)
        except (OSError, ValueError, OverflowError) as error:
            raise _cannot_grow(size, error) from error
        self.buffer = memoryview(self._map)
        self._free.add(self.size, size - self.size)
        self.size = size

    def close(self) -> None:
        """Close the file; no more blocks can be allocated. The memory is freed with the last view of it."""
        with self._lock:
            os.close(self._fd)
            self._fd = -1
            self._free.clear()
            self._recent.clear()
            self._owners.clear()
            # a map has its own descriptor, and this object may live on in a cycle
            del self._map
            self.buffer = memoryview(b"")

    def write(self, offset: int, data: Any) -> int:
        """Copy an ndarray's elements (C order) or bytes to `offset`; returns their number of bytes."""
        if isinstance(data, np.ndarray):
            nbytes = data.nbytes
            if nbytes < 4096:
                self.buffer[offset : offset + nbytes] = data.tobytes()
            else:
                # releases the GIL, unlike a memoryview assignment
                target = np.frombuffer(self.buffer, dtype=np.uint8, count=nbytes, offset=offset)
                np.copyto(target, np.ascontiguousarray(data).reshape(-1).view(np.uint8))
            return int(nbytes)
        nbytes = len(data)
        self.buffer[offset : offset + nbytes] = data
        return nbytes


class RegionReader:
    """The reader's side: it gives views of the other process's region, which it maps again after a growth."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._size = 0
        #: called with (size, -1), bytes, when a growth is noticed
        self.on_grow: Optional[Callable[[int, int], None]] = None
        self._known = os.fstat(fd).st_size
        self._map: Optional[mmap.mmap] = None
        self._buffer = memoryview(b"")
        self._address = 0
        self._lock = threading.Lock()  # guards their replacement; they only ever grow, _size last

    @property
    def size(self) -> int:
        """The bytes of the region now, including unread ones; 0 once it is closed."""
        with self._lock:
            return os.fstat(self._fd).st_size if self._fd >= 0 else 0

    def memory(self) -> int:
        """Return the bytes of memory of the region."""
        with self._lock:
            return _file_memory(self._fd)

    def _remap(self, end: int) -> None:
        with self._lock:
            if end <= self._size:
                return
            try:
                size = os.fstat(self._fd).st_size
            except OSError as error:
                raise WireError("the region is closed: %s" % error) from error
            if end > size:
                raise WireError("tensor ends at byte %d of a region of %d" % (end, size))
            self._map = mmap.mmap(self._fd, size)
            self._buffer = memoryview(self._map)
            self._address = _address_of(self._map)
            self._size = size
            grown, self._known = size > self._known, size
        if grown and self.on_grow is not None:
            self.on_grow(size, -1)

    def view(self, offset: int, nbytes: int) -> memoryview:
        """Return the bytes of a block, without a copy. Raises WireError for a range outside the region."""
        end = offset + nbytes
        if offset < 0 or nbytes < 0:
            raise WireError("tensor at byte %d with %d bytes" % (offset, nbytes))
        if end > self._size:
            self._remap(end)
        return self._buffer[offset:end]

    def close(self) -> None:
        """Close the file. The memory is freed with the last view of it."""
        with self._lock:
            os.close(self._fd)
            self._fd = -1
            self._map = None
            self._buffer = memoryview(b"")
            self._size = 0

    def array(self, offset: int, nbytes: int, lease: Any) -> "np.ndarray[Any, Any]":
        """Return the bytes of a block as a uint8 array that keeps `lease` alive as long as any view of it."""
        self.view(offset, nbytes)
        return np.asarray(_LeasedMemory(self._address + offset, nbytes, self._map, lease))

    def private(self, offset: int, nbytes: int, lease: Any) -> "np.ndarray[Any, Any]":
        """Return a block as a writable copy-on-write uint8 array: a private copy whose pages are copied when they are
        first written (rule 1.4.11)."""
        self.view(offset, nbytes)
        start = offset & -_PAGE
        private = _PrivateMap(self._fd, offset + nbytes - start, flags=mmap.MAP_PRIVATE, offset=start)
        private.lease = lease
        return np.frombuffer(private, dtype=np.uint8, count=nbytes, offset=offset - start)


def _address_of(memory: Any) -> int:
    return int(np.frombuffer(memory, dtype=np.uint8).__array_interface__["data"][0])


class _PrivateMap(mmap.mmap):
    """A mapping that ends with the last array over it; the writer may not use the block before."""

    lease: Any


class _LeasedMemory:
    __slots__ = ("__array_interface__", "_lease", "_map")

    def __init__(self, address: int, nbytes: int, mapped: Any, lease: Any) -> None:
        self._map = mapped
        self._lease = lease
        self.__array_interface__ = {"data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}


class Hold:
    """A writer's claim to read its own block later. It ends without taking a lock, as it may end at any moment."""

    __slots__ = ("__del__",)

    def __init__(self, let_go: List[int], offset: int) -> None:
        self.__del__ = partial(let_go.append, offset)  # see Lease


class Lease:
    """The right to read one block of the other side's region; after its last holder a message returns the block."""

    # A destructor in a slot is called without a Python instruction in between: no signal handler of the author can
    # raise there, which would lose the block and the exception.
    __slots__ = ("__del__", "__weakref__", "_reader")

    def __init__(self, freed: List[int], offset: int, reader: RegionReader) -> None:
        self.__del__ = partial(freed.append, offset)
        self._reader = reader

    def private_array(self, view: memoryview) -> "np.ndarray[Any, Any]":
        """Do as RegionReader.private; `view` is a view of this lease's block."""
        # relative to the map of the view, as the region may have been mapped again since
        return self._reader.private(_address_of(view) - _address_of(view.obj), view.nbytes, self)
