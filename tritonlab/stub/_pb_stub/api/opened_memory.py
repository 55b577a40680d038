"""Device memory of the server, mapped into this process when the author first uses it. A tensor that a model only
passes on is never mapped, and needs no context in the model's process.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Dict, List
from weakref import WeakValueDictionary

from ..devices.driver import Driver, DriverError
from ..devices.gpus import driver_of
from ..wire.device_memory import DevicePlace
from ..wire.serialization import Buffer


class OpenedMemory:
    """An allocation of the server, mapped here until it is no longer needed."""

    __slots__ = ("__weakref__", "_device", "_driver", "address")

    def __init__(self, device: int, handle: bytes) -> None:
        self._device = device
        self._driver = driver_of(handle)
        self.address = self._driver.open(device, handle)

    def __del__(self) -> None:
        if hasattr(self, "address"):
            with contextlib.suppress(DriverError):  # the process is ending, or the server has ended
                self._driver.close(self._device, self.address)


class OpenedHandles:
    """The mapped allocations by handle. Mapping takes long, so mapped allocations stay until memory is returned."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the next two fields
        self._memories: Dict[bytes, OpenedMemory] = {}
        self._live: "WeakValueDictionary[bytes, OpenedMemory]" = WeakValueDictionary()

    def open(self, device: int, handle: bytes) -> OpenedMemory:
        """Return the allocation, mapped. Raises DriverError."""
        with self._lock:
            found = self._live.get(handle)
            if found is None:
                found = self._live[handle] = OpenedMemory(device, handle)
            self._memories[handle] = found
            return found

    def give_back(self) -> List[bytes]:
        """Unmap unused allocations, and return the handles of the others."""
        with self._lock:
            self._memories.clear()
            return list(self._live.keys())


#: The handles of this process.
OPENED = OpenedHandles()


class OpenedPlace:
    """Mapped device memory of a received tensor. `lease` keeps the memory unchanged."""

    __slots__ = ("_device", "_driver", "_lease", "_opened", "pointer")

    def __init__(self, device: int, data: Buffer, lease: Any) -> None:
        place = DevicePlace.read(data)
        self._device = device
        self._driver = driver_of(place.handle)
        self._opened = OPENED.open(device, place.handle)
        self._lease = lease
        self.pointer: int = self._opened.address + place.offset

    def synchronize(self) -> None:
        """Wait until no work of this process on the device still reads or writes the memory."""
        self._driver.synchronize(self._device)


class BorrowedMemory:
    """`owner`, held for a user of its device memory. A user that ends may have work in progress that reads the memory,
    so this waits for the device before the owner can be released.
    """

    __slots__ = ("_device", "_driver", "_owner")

    def __init__(self, driver: Driver, device: int, owner: Any) -> None:
        self._driver = driver
        self._device = device
        self._owner = owner

    def __del__(self) -> None:
        with contextlib.suppress(DriverError):  # its work has failed, as the author's library has reported
            self._driver.synchronize(self._device)
