"""A part of a POSIX shared memory that a client has registered (rule 6.10.2).

A key is only a shared-memory name: as with `shm_open`, not a path or a link, so a client can name only files of
/dev/shm.

A region is read and written by system calls on its file, and never mapped. If a client shortens the file, or /dev/shm
is full, a mapped page would end this process with SIGBUS; a failing system call fails only that request. Measured on 2
cores, with the times of a mapping in brackets: reading 16 bytes 2 us (0.5), 1 MB 48 us (17), 64 MB 6 to 9 ms (3.5 to
6.5); writing 16 bytes 2.3 us (0.3), 1 MB 64 us (16), 64 MB 8 to 9 ms (3.3). Copies by `process_vm_readv` and
`process_vm_writev` over a mapping also survive, but are slower still: 3.3 us, 70 us, 8 to 11 ms.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.inference.data_type import DataType
from ...core.inference.device_array import DeviceArray
from ...core.inference.tensor import Tensor, wire_elements
from ...core.status import InternalError, InvalidArgumentError

OUTSIDE = "Invalid offset + byte size for shared memory region: '{}'"
#: The names of regions of Triton's stubs, which clients may not use.
_RESERVED = "triton_python_backend_shm_region_"
#: Bytes written at once. A write behind the end makes a file longer, so its size is checked before each piece.
_PIECE = 4 << 20


class _File:
    """An open file, closed after its last reference: a request may still read it when its region is unregistered."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.fd)

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size


@dataclass(frozen=True, slots=True)
class SystemRegion:
    """One registered region."""

    KIND: ClassVar[str] = "system"

    name: str
    key: str
    offset: int
    byte_size: int
    file: _File

    @staticmethod
    def open(name: str, key: str, offset: int, byte_size: int) -> SystemRegion:
        """Open the shared memory `key` for the region. Raises TritonError with Triton's text."""
        try:
            file = _File(_shm_open(key))
        except (OSError, ValueError) as error:
            raise InternalError(f"Unable to open shared memory region: '{key}'") from error
        found = os.fstat(file.fd)
        if not stat.S_ISREG(found.st_mode):  # a pipe, for example, on which a read would wait
            raise InternalError(f"Unable to open shared memory region: '{key}'")
        if found.st_size < offset + byte_size:
            raise InvalidArgumentError(f"failed to register shared memory region '{name}': invalid args")
        if byte_size == 0 or offset % mmap.ALLOCATIONGRANULARITY:
            # A file that cannot be mapped; the words of Triton's text are joined like this (measured).
            raise InvalidArgumentError(
                f"failed to register shared memory region '{name}': unable to process address spaceInvalid argument"
            )
        return SystemRegion(name, key, offset=offset, byte_size=byte_size, file=file)

    def tensor(self, offset: int, size: int, datatype: DataType, shape: tuple[int, ...]) -> Tensor:
        """Return a tensor with a copy of the current bytes."""
        return Tensor(datatype, shape, wire_elements(self.read(offset, size), datatype))

    def copies(self, datatype: DataType) -> bool:
        """Return True: tensors are copied to this process's memory."""
        return True

    def copy(self, offset: int, array: DeviceArray) -> bool:
        """Do nothing, because the region is in host memory."""
        return False

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

    def missing_bytes(self) -> int:
        """Return how many bytes of the file are not in memory. They are allocated when they are written."""
        found = os.fstat(self.file.fd)
        return max(found.st_size - found.st_blocks * 512, 0)

    def check(self, offset: int, size: int) -> None:
        """Raise the errors of `write` for these bytes, which are within the region."""
        if self.file.size < self.offset + offset + size:
            raise self.cut_off()

    def facts(self) -> dict[str, Any]:
        """Return the region's status."""
        return {"name": self.name, "key": self.key, "offset": self.offset, "byte_size": self.byte_size}

    def cut_off(self) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{OUTSIDE.format(self.name)}: its file '{self.key}' was made smaller after it was registered, it has "
            f"{self.file.size} bytes"
        )


def _shm_open(key: str) -> int:
    """Open the file that Linux's `shm_open` would open. Raises OSError, and ValueError for a key that is not a name."""
    name = key.lstrip("/")
    if not name or "/" in name:
        raise ValueError(key)
    return os.open(f"/dev/shm/{name}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)


def check_key(name: str, key: str) -> None:
    """Raise InvalidArgumentError for a key that clients may not register as region `name`."""
    if key.startswith(_RESERVED):
        raise InvalidArgumentError(
            f"cannot register shared memory region '{name}' - invalid shm key '{key}' as the key contains the "
            f"reserved prefix '{_RESERVED}'"
        )
