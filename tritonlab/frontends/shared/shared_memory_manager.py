"""This module holds the shared-memory regions that clients have registered, in one table for all frontends (rule 6.10).

A key is a POSIX shared-memory name and nothing else: as with `shm_open`, neither a path nor a link, so a client can
name files of /dev/shm only.

A region is read and written by system calls on its file, and never mapped. If a client shortens the file, or /dev/shm
is full, a mapped page would end this process with SIGBUS; a system call fails that request only. Measured on 2 cores,
with the times of a mapping in brackets: reading 16 bytes 2 us (0.5), 1 MB 48 us (17), 64 MB 6 to 9 ms (3.5 to 6.5);
writing 16 bytes 2.3 us (0.3), 1 MB 64 us (16), 64 MB 8 to 9 ms (3.3). Copies by `process_vm_readv` and
`process_vm_writev` over a mapping survive as well, and are slower still: 3.3 us, 70 us, 8 to 11 ms.
"""

from __future__ import annotations

import mmap
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.status import AlreadyExistsError, InternalError, InvalidArgumentError, NotFoundError, UnsupportedError

_OUTSIDE = "Invalid offset + byte size for shared memory region: '{}'"
_DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
#: What Triton's stubs call theirs; a client has no business there.
_RESERVED = "triton_python_backend_shm_region_"
#: Bytes written at once. A write behind the end makes a file longer; so its size is asked for before each piece.
_PIECE = 4 << 20


class _File:
    """An open file. It is closed when its last holder is gone: a request may still read it while its region is
    unregistered."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.fd)

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size


@dataclass(frozen=True, slots=True)
class ClientRegion:
    """One registered region."""

    name: str
    key: str
    offset: int
    byte_size: int
    file: _File

    def read(self, offset: int, size: int) -> memoryview:
        data = np.empty(size, np.uint8).data
        done = 0
        while done < size:
            count = os.preadv(self.file.fd, [data[done:]], self.offset + offset + done)
            if not count:
                raise self.cut_off()
            done += count
        return data.toreadonly()

    def write(self, offset: int, data: memoryview) -> None:
        start, done = self.offset + offset, 0
        while done < data.nbytes:
            piece = data[done : done + _PIECE]
            if self.file.size < start + done + piece.nbytes:
                raise self.cut_off()
            done += os.pwrite(self.file.fd, piece, start + done)

    def cut_off(self) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{_OUTSIDE.format(self.name)}: its file '{self.key}' was made smaller after it was registered, it has "
            f"{self.file.size} bytes"
        )


class SharedMemoryManager:
    """Registers regions, and reads and writes them within their bounds; from any thread.

    Every method raises UnsupportedError unless `allowed` (rule 6.10.1). Sizes and offsets are in bytes.
    """

    def __init__(self, allowed: bool = False) -> None:
        self._allowed = allowed
        self._regions: dict[str, ClientRegion] = {}
        self._lock = threading.Lock()  # of register: a name is given once

    @property
    def in_use(self) -> bool:
        """Tells whether any region is registered."""
        return bool(self._regions)

    def register_system(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """Registers `byte_size` bytes from `offset`, a multiple of the page size, of the shared memory `key`."""
        self._check_allowed()
        if key.startswith(_RESERVED):
            raise InvalidArgumentError(
                f"cannot register shared memory region '{name}' - invalid shm key '{key}' as the key contains the "
                f"reserved prefix '{_RESERVED}'"
            )
        with self._lock:
            if name in self._regions:
                raise AlreadyExistsError(f"shared memory region '{name}' already in manager")
            self._regions[name] = _open(name, key, offset, byte_size)

    def register_cuda(self, name: str) -> None:
        """Refuses, as this server opens no memory of a client's GPU."""
        self._check_allowed()
        # Triton's text where it was built without GPU support (rule 6.10.5).
        raise InvalidArgumentError(f"failed to register CUDA shared memory region: '{name}', GPUs not supported")

    def unregister(self, name: str) -> None:
        """Removes a region; an unknown one is ignored."""
        self._check_allowed()
        self._regions.pop(name, None)

    def unregister_all(self) -> None:
        self._check_allowed()
        self._regions.clear()

    def status(self, name: str = "") -> list[dict[str, Any]]:
        """Returns `name`, `key`, `offset` and `byte_size` of one region, or of all. Raises NotFoundError."""
        self._check_allowed()
        if not name:
            regions = sorted(self._regions.copy().values(), key=lambda region: region.name)
        elif (region := self._regions.get(name)) is not None:
            regions = [region]
        else:
            raise NotFoundError(f"Unable to find system shared memory region: '{name}'")
        return [{"name": r.name, "key": r.key, "offset": r.offset, "byte_size": r.byte_size} for r in regions]

    def cuda_status(self, name: str = "") -> list[dict[str, Any]]:
        """Returns the registered CUDA regions, of which there are none. Raises NotFoundError for any name."""
        self._check_allowed()
        if name in self._regions:
            raise NotFoundError(
                f"The region named '{name}' is registered as system shared memory, not CUDA shared memory"
            )
        if name:
            raise NotFoundError(f"Unable to find cuda shared memory region: '{name}'")
        return []

    def unregister_cuda(self, name: str = "") -> None:
        """Does nothing: see `register_cuda`."""
        self._check_allowed()

    def read(self, name: str, offset: int, size: int) -> memoryview:
        """Returns a copy of the bytes as they are now."""
        region = self._find(name, offset, size)
        try:
            return region.read(offset, size)
        except (OSError, MemoryError) as error:  # a file may be any size, without a byte of memory
            raise InternalError(f"failed to read shared memory region '{name}': {error}") from None

    def write(self, name: str, offset: int, data: NDArray[Any] | bytes | memoryview) -> None:
        """Writes the bytes of `data`, which is C-contiguous, at `offset`."""
        view = data.reshape(-1).view(np.uint8).data if isinstance(data, np.ndarray) else memoryview(data)
        if view.nbytes:
            region = self._find(name, offset, view.nbytes)
            try:
                region.write(offset, view)
            except OSError as error:  # of a full /dev/shm
                raise InternalError(f"failed to write shared memory region '{name}': {error}") from None

    def check(self, name: str, offset: int, size: int) -> None:
        """Raises what `write` would raise, before the request runs."""
        region = self._find(name, offset, size)
        if region.file.size < region.offset + offset + size:
            raise region.cut_off()

    def _find(self, name: str, offset: int, size: int) -> ClientRegion:
        self._check_allowed()
        region = self._regions.get(name)
        if region is None:
            raise NotFoundError(f"Unable to find shared memory region: '{name}'")
        # Triton adds the registered offset to both ends and reads beyond the mapping then (measured); not here.
        if not 0 <= offset < region.byte_size:
            raise InvalidArgumentError(f"Invalid offset for shared memory region: '{name}'")
        # Triton compares with the last byte: nothing at offset 0 is out of bounds, too (measured).
        if size < 0 or not 0 <= offset + size - 1 < region.byte_size:
            raise InvalidArgumentError(_OUTSIDE.format(name))
        return region

    def _check_allowed(self) -> None:
        if not self._allowed:
            raise UnsupportedError(_DISABLED)


def _shm_open(key: str) -> int:
    """Opens what `shm_open` of Linux's C library would open. Raises OSError, and ValueError for a key that is not a
    name."""
    name = key.lstrip("/")
    if not name or "/" in name:
        raise ValueError(key)
    return os.open(f"/dev/shm/{name}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)


def _open(name: str, key: str, offset: int, byte_size: int) -> ClientRegion:
    try:
        file = _File(_shm_open(key))
    except (OSError, ValueError) as error:
        raise InternalError(f"Unable to open shared memory region: '{key}'") from error
    found = os.fstat(file.fd)
    if not stat.S_ISREG(found.st_mode):  # a pipe, for example, that a read waits for
        raise InternalError(f"Unable to open shared memory region: '{key}'")
    if found.st_size < offset + byte_size:
        raise InvalidArgumentError(f"failed to register shared memory region '{name}': invalid args")
    if byte_size == 0 or offset % mmap.ALLOCATIONGRANULARITY:
        # What cannot be mapped; Triton's words run into one another like this (measured).
        raise InvalidArgumentError(
            f"failed to register shared memory region '{name}': unable to process address spaceInvalid argument"
        )
    return ClientRegion(name, key, offset, byte_size, file)
