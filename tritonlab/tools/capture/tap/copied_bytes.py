"""The copies of forwarded bytes, on their way from the forwarding process to the capture.

The sender never waits: copies wait in memory up to a limit. Where it is reached, the connection is no longer copied,
and the capture learns of it.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple


class RecordKind(enum.IntEnum):
    """The kinds of records."""

    OPENED = 0
    FROM_CLIENT = 1
    FROM_SERVER = 2
    #: nothing more will come from it; with data: because it has reset the connection
    CLIENT_ENDED = 3
    SERVER_ENDED = 4
    #: both have ended; with the number of the last call of HTTP/2 if its bytes were not copied then
    CLOSED = 5
    #: further bytes of the connection are not copied
    LOST = 6
    #: they are again, from this place, which may be the beginning of a request; with the number of pieces before it
    RESUMED = 9
    #: the tap ends: the capture shall name connections without requests under way
    DRAINING = 7


#: Kind, connection, nanoseconds of the monotonic clock, bytes that were not yet sent before it, bytes after the head.
_HEAD = struct.Struct("<BIQQI")
#: A connection without a request under way, and how many pieces of it the capture had seen.
_IDLE = struct.Struct("<IQ")
#: The most pieces of one call of sendmsg, below the system's limit of 1024.
_PIECES = 512


class Record(NamedTuple):
    """One record. `at`: its time in nanoseconds of the monotonic clock; `lag`: bytes of copies that waited then."""

    kind: int
    connection: int
    at: int
    lag: int
    data: bytes


class CopySender:
    """The sender of copies. It is not thread-safe and never waits, but in `finish`.

    most_bytes: the limit of waiting copies
    """

    def __init__(self, link: socket.socket, most_bytes: int) -> None:
        link.setblocking(False)
        self.link = link
        #: whether the capture reads
        self.is_open = True
        self.waiting_bytes = 0
        #: bytes that were not copied because the capture was too slow
        self.lost_bytes = 0
        self._most_bytes = most_bytes
        self._queue: deque[bytes | memoryview] = deque()

    def has_room(self, size: int) -> bool:
        return self.waiting_bytes + size <= self._most_bytes

    @property
    def has_much_room(self) -> bool:
        return self.waiting_bytes <= self._most_bytes // 4

    def add(self, kind: int, connection: int, at: int, data: bytes = b"") -> None:
        """Add a record to the waiting ones."""
        if not self.is_open:
            return
        self._queue.append(_HEAD.pack(kind, connection, at, self.waiting_bytes, len(data)))
        if data:
            self._queue.append(data)
        self.waiting_bytes += _HEAD.size + len(data)

    def flush(self) -> None:
        """Send as much as the capture takes now."""
        queue = self._queue
        while queue:
            try:
                sent = self.link.sendmsg(list(itertools.islice(queue, _PIECES)))
            except BlockingIOError:
                return
            except OSError:  # the capture has ended
                self.close()
                return
            self.waiting_bytes -= sent
            while sent:
                size = len(queue[0])
                if size > sent:
                    queue[0] = memoryview(queue[0])[sent:]
                    break
                sent -= size
                queue.popleft()

    def finish(self, seconds: float) -> None:
        """Send all that waits, for so many seconds at most, and end the link."""
        until = time.monotonic() + seconds
        with contextlib.suppress(OSError):
            self.link.shutdown(socket.SHUT_RD)  # unread names of idle connections would block the capture
            for piece in self._queue if self.is_open else ():
                self.link.settimeout(max(until - time.monotonic(), 0.001))
                self.link.sendall(piece)
        with contextlib.suppress(OSError):
            self.link.shutdown(socket.SHUT_WR)
        self._queue.clear()

    def close(self) -> None:
        self.is_open = False
        self.waiting_bytes = 0
        self._queue.clear()

    def read_idle(self) -> Iterator[tuple[int, int]]:
        """Yield the connections that the capture has called idle, each with the number of pieces that it had seen."""
        try:
            data = self.link.recv(_IDLE.size * 4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
        yield from _IDLE.iter_unpack(data[: len(data) // _IDLE.size * _IDLE.size])


class CopyReader:
    """The receiver of copies."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._file = link.makefile("rb", buffering=1 << 20)

    def __iter__(self) -> Iterator[Record]:
        """Yield records until the sender has ended; the last one may be cut off, and is left out."""
        read = self._file.read
        while len(head := read(_HEAD.size)) == _HEAD.size:
            kind, connection, at, lag, size = _HEAD.unpack(head)
            data = read(size) if size else b""
            if len(data) < size:
                return
            yield Record(kind, connection, at, lag, data)

    def tell_idle(self, connection: int, pieces: int) -> None:
        """Name a connection without a request under way after so many pieces."""
        with contextlib.suppress(OSError):
            self._link.sendall(_IDLE.pack(connection, pieces))
