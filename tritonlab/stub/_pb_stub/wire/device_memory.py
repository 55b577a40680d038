"""Device memory of tensors in a block: what lies in the block is not the tensor's bytes but their place, `DevicePlace`.

All memory that crosses is the server's: from its pool, or lent to a stub for its outputs. So a stub that dies takes no
memory with it that somebody still reads, and leaves none behind. The sender of a place keeps the memory as it is until
the block comes back, as with the bytes of other tensors.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from ..devices.driver import HANDLE_SIZE
from .serialization import Buffer

_PLACE = struct.Struct("<%dsQQ" % HANDLE_SIZE)


class DevicePlace(NamedTuple):
    """`nbytes` of device memory, `offset` bytes from where the allocation begins that `handle` stands for."""

    handle: bytes
    offset: int
    nbytes: int

    @staticmethod
    def read(data: Buffer) -> "DevicePlace":
        """Read what a Lent holds. Raises struct.error for data of another size."""
        return DevicePlace(*_PLACE.unpack(data))


class Lent(bytes):
    """A place as it is sent. `keep` lives until the block comes back in which it was sent."""

    device: int
    keep: Any

    @staticmethod
    def from_place(data: Buffer, device: int, keep: Any) -> "Lent":
        """Make one of a place's bytes."""
        self = Lent(data)
        self.device = device
        self.keep = keep
        return self


def packed(place: DevicePlace) -> bytes:
    """Return the bytes of a place."""
    return _PLACE.pack(*place)
