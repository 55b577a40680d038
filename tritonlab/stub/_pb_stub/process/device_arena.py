"""Device memory that the server has lent to this process for its model's outputs: the process divides it, and the
server reads it and returns the parts, as with the stub's region. It still belongs to the server, so that sent tensors
outlive the process.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List, Tuple

from ..api.opened_memory import OPENED
from ..devices.driver import Driver
from ..wire.device_memory import DevicePlace, Lent, packed
from ..wire.free_space import FreeSpace
from ..wire.message_bodies import DeviceGrant, DeviceMemory

_ALIGN = 512
#: The least bytes to request, so that small tensors need no call each.
_LEAST = 4 << 20


class _Grant:
    """One piece of the server's memory."""

    def __init__(self, message: DeviceGrant) -> None:
        self.message = message
        self.handle = bytes.fromhex(message.handle)
        self.space = FreeSpace()
        self.space.add(0, message.nbytes)

    @property
    def empty(self) -> bool:
        return list(self.space) == [(0, self.message.nbytes)]


class _Part:
    """A part of a grant, in use until this object is destroyed, which may be at any moment: it takes no lock."""

    __slots__ = ("_let_go", "grant", "offset", "size")

    def __init__(self, let_go: List[Tuple[_Grant, int, int]], grant: _Grant, offset: int, size: int) -> None:
        self._let_go = let_go
        self.grant = grant
        self.offset = offset
        self.size = size

    def __del__(self) -> None:
        self._let_go.append((self.grant, self.offset, self.size))


class DeviceArena:
    """The device memory that `ask` gets from the server, in parts. It grows as needed, and empty grants are returned
    when memory is given back.
    """

    def __init__(self, ask: Callable[[DeviceMemory], Any]) -> None:
        self._ask = ask
        self._lock = threading.Lock()  # guards the next two fields
        self._grants: Dict[int, List[_Grant]] = {}
        self._let_go: List[Tuple[_Grant, int, int]] = []  # destructors append

    def lend(self, driver: Driver, device: int, address: int, nbytes: int) -> Lent:
        """Copy device memory of this process into the arena, and return its place there, for the server. Raises
        DriverError, and BridgeError if the server has no memory to lend."""
        part = self._take(device, max((nbytes + _ALIGN - 1) & -_ALIGN, _ALIGN))
        place = DevicePlace(part.grant.handle, part.grant.message.offset + part.offset, nbytes)
        if nbytes:
            mapped = OPENED.open(device, place.handle)
            driver.copy(device, mapped.address + place.offset, address, nbytes)
            driver.synchronize(device)
        return Lent.from_place(packed(place), device, part)

    def _take(self, device: int, size: int) -> _Part:
        with self._lock:
            self._collect()
            grants = self._grants.setdefault(device, [])
            for grant in grants:
                offset = grant.space.take(size, _ALIGN)
                if offset is not None:
                    return _Part(self._let_go, grant, offset, size)
        # without the lock, as the answer takes time
        message: DeviceGrant = self._ask(DeviceMemory(device, max(size, _LEAST)))
        grant = _Grant(message)
        with self._lock:
            grant.space.take(size, _ALIGN)
            grants.append(grant)
        return _Part(self._let_go, grant, 0, size)

    def _collect(self) -> None:
        while self._let_go:
            grant, offset, size = self._let_go.pop()
            grant.space.add(offset, size)

    def give_back(self) -> List[DeviceGrant]:
        """Forget the empty grants, and return them."""
        with self._lock:
            self._collect()
            empty = [grant for grants in self._grants.values() for grant in grants if grant.empty]
            for device, grants in self._grants.items():
                self._grants[device] = [grant for grant in grants if grant not in empty]
            return [grant.message for grant in empty]
