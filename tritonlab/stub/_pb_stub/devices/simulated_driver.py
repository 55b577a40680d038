"""The simulated driver, which follows CUDA's rules without a GPU: for machines without one, and for tests.

A device's memory is a file without a name, which another process opens by its owner's number; so it is gone with its
owner. These rules are CUDA's:

    only the driver can use an address: the processor cannot read it, and no other process knows it
    a handle is for a whole allocation, and only other processes open it
    a copy on the device is done when `synchronize` has returned, or a copy to the host; a process that reads it
    before finds the old bytes
    memory that was freed or closed is refused, also if another process still reads it
    a forked process cannot use what its parent has begun to use
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import threading
from bisect import bisect_right, insort
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from .driver import (
    HANDLE_SIZE,
    ILLEGAL_ADDRESS,
    INVALID_CONTEXT,
    INVALID_DEVICE,
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_INITIALIZED,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    DeviceFacts,
    Driver,
    DriverError,
)

#: The highest byte of a simulated address. No processor maps such addresses, so that reading one ends the process.
_MARK = 0x5D
_ALIGN = 512
_MAGIC = b"simulated GPU\0\0\0"
#: The name of an allocation's file: device and owner, and its form in /proc.
_FILE = "simulated GPU %d of %d"
_OWN_FILE = re.compile(r"/memfd:simulated GPU (\d+) of (\d+) ")
#: process, descriptor, inode, bytes and device of an allocation
_HANDLE = struct.Struct("<16sIIQQI")


class Copied(NamedTuple):
    """The bytes copied so far for a process: from the host, to the host, and between addresses of devices."""

    to_device: int
    to_host: int
    on_device: int


class _Allocation:
    """Memory of a device, allocated by this process or opened from another one."""

    def __init__(self, base: int, nbytes: int, device: int, fd: int, owner: Optional[Tuple[str, int]]) -> None:
        self.base = base
        self.nbytes = nbytes
        self.device = device
        self.fd = fd if owner is None else -1
        self.owner = owner  # for opened memory: path and inode of its owner's descriptor
        self.opened = 1
        self.bytes = np.frombuffer(mmap.mmap(fd, nbytes), dtype=np.uint8)


class SimulatedDriver(Driver):
    """Simulated devices, which this machine lacks. `total_bytes`: the memory of each for one process's allocations."""

    simulated = True

    def __init__(self, count: int = 64, total_bytes: int = 16 << 30) -> None:
        self._count = count
        self._total = total_bytes
        self._lock = threading.RLock()  # guards all fields below
        self._pid = 0
        self._next = 0
        self._bases: List[int] = []  # sorted
        self._allocations: Dict[int, _Allocation] = {}
        self._handles: Dict[bytes, _Allocation] = {}  # for opened memory
        self._queued: Dict[int, List[Tuple[Any, Any]]] = {}
        self._copied = [0, 0, 0]

    @property
    def copied(self) -> Copied:
        """The bytes copied so far."""
        return Copied(*self._copied)

    def devices(self) -> List[DeviceFacts]:
        return [
            DeviceFacts(
                ordinal=n,
                uuid="GPU-simulated-%d" % n,
                name="Simulated GPU",
                total_bytes=self._total,
                compute=(8, 0),
                simulated=True,
            )
            for n in range(self._count)
        ]

    def free_bytes(self, device: int) -> int:
        with self._lock:
            self._use(device, "asking for the free memory of GPU %d" % device)
            # over a list, as a destructor may free another allocation meanwhile, on this same thread
            own = [each.nbytes for each in list(self._allocations.values()) if each.device == device and each.fd >= 0]
            return self._total - sum(own)

    def allocate(self, device: int, nbytes: int) -> int:
        what = "allocating %d bytes on GPU %d" % (nbytes, device)
        with self._lock:
            self._use(device, what)
            if nbytes <= 0:
                raise _error(what, INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE")
            if nbytes > self.free_bytes(device):
                raise _error(what, OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY (out of memory)")
            if not hasattr(os, "memfd_create"):
                raise _error(what, NOT_SUPPORTED, "simulated GPUs need Linux")
            fd = os.memfd_create(_FILE % (device, os.getpid()), os.MFD_CLOEXEC)
            os.ftruncate(fd, nbytes)
            return self._add(nbytes, device, fd, None).base

    def free(self, device: int, address: int) -> None:
        what = "freeing memory of GPU %d" % device
        with self._lock:
            found = self._whole(what, device, address)
            if found.fd < 0:
                raise _error(what, INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE (opened memory is closed, not freed)")
            self._finish(device)
            self._remove(found)
            os.close(found.fd)

    def base_of(self, address: int) -> Tuple[int, int, int]:
        with self._lock:
            found = self._find("looking at the address %#x" % address, address)
            return found.base, found.nbytes, found.device

    def export(self, device: int, base: int) -> bytes:
        what = "sharing memory of GPU %d" % device
        with self._lock:
            found = self._find(what, base)
            if found.fd < 0 or found.device != device:
                raise _error(what, INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE (memory is shared by its owner only)")
            inode = os.fstat(found.fd).st_ino
            handle = _HANDLE.pack(_MAGIC, os.getpid(), found.fd, inode, found.nbytes, found.device)
            return handle.ljust(HANDLE_SIZE, b"\0")

    def open(self, device: int, handle: bytes) -> int:
        what = "opening another process's memory of GPU %d" % device
        with self._lock:
            self._use(device, what)
            known = self._handles.get(handle)
            if known is not None:
                known.opened += 1
                return known.base
            magic, pid, number, inode, nbytes, of_device = _HANDLE.unpack_from(handle)
            if magic != _MAGIC or of_device != device:
                raise _error(what, INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE (no handle of this device)")
            if pid == os.getpid():
                raise _error(what, INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT (the handle is this process's own)")
            owner = ("/proc/%d/fd/%d" % (pid, number), inode)
            _check_owner(what, owner)
            fd = os.open(owner[0], os.O_RDWR | os.O_CLOEXEC)
            try:
                found = self._add(nbytes, device, fd, owner)
            finally:
                os.close(fd)
            self._handles[handle] = found
            return found.base

    def close(self, device: int, address: int) -> None:
        what = "closing another process's memory of GPU %d" % device
        with self._lock:
            found = self._whole(what, device, address)
            if found.fd >= 0:
                raise _error(what, INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE (own memory is freed, not closed)")
            found.opened -= 1
            if not found.opened:
                self._finish(device)
                self._remove(found)
                self._handles = {handle: each for handle, each in list(self._handles.items()) if each is not found}

    def copy_in(self, device: int, address: int, buffer: Any) -> None:
        host = np.frombuffer(buffer, dtype=np.uint8)
        with self._lock:
            there = self._span("copying to GPU %d" % device, device, address, host.nbytes)
            self._finish(device)
            np.copyto(there, host)
            self._copied[0] += host.nbytes

    def copy_out(self, device: int, address: int, buffer: Any) -> None:
        host = np.frombuffer(buffer, dtype=np.uint8)
        with self._lock:
            there = self._span("copying from GPU %d" % device, device, address, host.nbytes)
            self._finish(device)
            np.copyto(host, there)
            self._copied[1] += host.nbytes

    def copy(self, device: int, target: int, source: int, nbytes: int) -> None:
        what = "copying on GPU %d" % device
        with self._lock:
            copy = (self._span(what, None, target, nbytes), self._span(what, None, source, nbytes))
            self._queued.setdefault(device, []).append(copy)
            self._copied[2] += nbytes

    def synchronize(self, device: int) -> None:
        with self._lock:
            self._use(device, "waiting for GPU %d" % device)
            self._finish(device)

    # -- its data; with the lock held

    def _use(self, device: int, what: str) -> None:
        """Note that this process uses the device."""
        if not 0 <= device < self._count:
            raise _error(what, INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE (invalid device ordinal)")
        if self._pid != os.getpid():
            if self._pid:
                raise _error(what, NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED (the parent process uses the GPU)")
            self._pid = os.getpid()
            self._next = (_MARK << 56) + ((self._pid & 0xFFFF) << 40)

    def _add(self, nbytes: int, device: int, fd: int, owner: Optional[Tuple[str, int]]) -> _Allocation:
        base = self._next
        self._next += (nbytes + _ALIGN) & -_ALIGN  # never reused, and never adjacent to another
        found = _Allocation(base, nbytes, device=device, fd=fd, owner=owner)
        self._allocations[base] = found
        insort(self._bases, base)
        return found

    def _remove(self, found: _Allocation) -> None:
        del self._allocations[found.base]
        self._bases.remove(found.base)

    def _finish(self, device: int) -> None:
        for target, source in self._queued.pop(device, ()):
            np.copyto(target, source)

    def _find(self, what: str, address: int) -> _Allocation:
        self._use(0, what)
        index = bisect_right(self._bases, address)
        found = self._allocations[self._bases[index - 1]] if index else None
        if found is None or address >= found.base + found.nbytes:
            raise _error(what, INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE (%#x is not memory of a GPU)" % address)
        return found

    def _whole(self, what: str, device: int, address: int) -> _Allocation:
        found = self._find(what, address)
        if found.base != address or found.device != device:
            raise _error(what, INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE (no allocation of GPU %d begins here)" % device)
        return found

    def _span(self, what: str, device: Optional[int], address: int, nbytes: int) -> Any:
        """Return the bytes there. `device` None: of any device."""
        found = self._find(what, address)
        offset = address - found.base
        if offset + nbytes > found.nbytes or device not in (None, found.device):
            raise _error(what, ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access)")
        if found.owner is not None:
            _check_owner(what, found.owner)
        return found.bytes[offset : offset + nbytes]


def is_simulated(memory: Union[int, bytes]) -> bool:
    """Return whether that is an address or a handle of a simulated driver."""
    return memory >> 56 == _MARK if isinstance(memory, int) else memory.startswith(_MAGIC)


def held_by(pid: int) -> Dict[int, int]:
    """Return the bytes that a process has allocated on each simulated device, from its descriptors in /proc; empty for
    a process that has none, or has ended.
    """
    files: Dict[int, Tuple[int, int]] = {}  # by inode, because a mapping has a descriptor of its own
    directory = "/proc/%d/fd" % pid
    for number in _listed(directory):
        path = "%s/%s" % (directory, number)
        try:
            link, stat = os.readlink(path), os.stat(path)
        except OSError:  # closed meanwhile
            continue
        name = _OWN_FILE.match(link)
        if name and int(name.group(2)) == pid:
            files[stat.st_ino] = (int(name.group(1)), stat.st_size)
    found: Dict[int, int] = {}
    for device, nbytes in files.values():
        found[device] = found.get(device, 0) + nbytes
    return found


def _listed(directory: str) -> List[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _check_owner(what: str, owner: Tuple[str, int]) -> None:
    """Raise DriverError unless the allocating process still has it."""
    try:
        here = os.stat(owner[0]).st_ino == owner[1]
    except OSError:
        here = False
    if not here:
        raise _error(what, INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE (its owner has no such memory)")


def _error(what: str, code: int, text: str) -> DriverError:
    return DriverError(what, code, text + ", simulated")
