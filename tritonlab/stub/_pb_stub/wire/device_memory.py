"""Device memory of tensors in a block: the block has the place of the tensor's bytes, `DevicePlace`, not the bytes.

All memory that crosses is the server's: from its pool, or lent to a stub for its outputs. So a stub that dies takes no
memory with it that is still read, and leaves none behind. The sender of a place keeps the memory unchanged until the
block is returned, as with the bytes of other tensors.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from ..devices.driver import HANDLE_SIZE
from .serialization import Buffer

_PLACE = struct.Struct("<%dsQQ" % HANDLE_SIZE)


class DevicePlace(NamedTuple):
    """A place of `nbytes` of device memory, `offset` bytes from the start of the allocation of `handle`."""

    handle: bytes
    offset: int
    nbytes: int

    @staticmethod
    def read(data: Buffer) -> "DevicePlace":
        """Read the bytes of a Lent. Raises struct.error for data of another size."""
        return DevicePlace(*_PLACE.unpack(data))


class Lent(bytes):
    """A place in the form for sending. `keep` lives until the block in which it was sent is returned."""

    device: int
    keep: Any

    @staticmethod
    def from_place(data: Buffer, device: int, keep: Any) -> "Lent":
        """Make one from a place's bytes."""
        self = Lent(data)
        self.device = device
        self.keep = keep
        return self


def packed(place: DevicePlace) -> bytes:
    """Return the bytes of a place."""
    return _PLACE.pack(*place)
