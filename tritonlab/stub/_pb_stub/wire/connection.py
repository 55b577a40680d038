"""Complete messages over one end of the control socket, and freed blocks that return with them.

Waiting is spin, then block: most of a round trip on a small virtual machine is the wake-up of a sleeping process
(measured with a bare prototype on 2 cores: 90-125 us blocking, 16 us with up to 200 us of non-blocking receives first).
So `receive` polls for as long as its caller allows and then sleeps in Linux. It sleeps in poll, not in recv: recv
also wakes when the other side takes a message out of the socket. A stub that is asked 100 times a second slept twice
per request for that, and once with poll; all processes together used 1-4 % less processor time.

Guarantees: `send` may be called from any thread, and messages never interleave. `receive` and `try_receive` are for one
thread at a time, as the caller ensures (leader / follower on both sides).
"""

from __future__ import annotations

import contextlib
import mmap
import select
import socket
import threading
import time
from typing import Any, Callable, List, Optional, Tuple

from .ipc_message import BY_NUMBER, FREED, HEADER, MAX_BODY, MAX_FREED, PACKED
from .serialization import WIRE_VERSION, WireError, decode_body, encode_body, pack_body, unpack_body

#: (command number, id, decoded body)
Message = Tuple[int, int, Any]

_HEADER_SIZE = HEADER.size
#: Bytes of the receive buffer, and the largest size that it may keep once it is empty.
_BUFFER = 1 << 16
_KEPT_BUFFER = 1 << 20


class LinkClosed(Exception):
    """The other process is gone, or has closed its end."""


class Connection:
    """A framed, thread-safe sender and single-threaded receiver over a connected stream socket."""

    def __init__(
        self, sock: socket.socket, on_freed: Optional[Callable[[int], None]] = None, *, unpacks: bool = False
    ) -> None:
        """`unpacks`: whether it takes packed bodies (`serialization.pack_body`)."""
        self._sock = sock
        self._unpacks = unpacks
        self._fd = sock.fileno()
        self._on_freed = on_freed
        self._send_lock = threading.Lock()  # guards writes to the socket and changes of `unsent`
        #: the bytes that `flush` has to write
        self.unsent = bytearray()
        # allocated when something is received: the monitors of stubs send nothing during a load
        self._buffer: "mmap.mmap | bytes" = b""
        self._view = memoryview(self._buffer)
        self._start = 0  # unread bytes are _buffer[_start:_end]
        self._end = 0
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        #: offsets in the other side's region that this side no longer reads; destructors append, the next message
        #: carries them
        self.freed: List[int] = []

    def fileno(self) -> int:
        return self._fd

    # -- sending

    def send(self, command: int, ident: int, body: Any = None) -> None:
        """Send one message, blocking while the socket is full. Raises LinkClosed."""
        data = self._frame(command, ident, encode_body(body))
        with self._send_lock:
            try:
                self._sock.sendall(data)
            except OSError as error:
                raise LinkClosed(str(error)) from None

    def post(self, command: int, ident: int, body: Any = None, *, packed: bool = False) -> bool:
        """Send one message without blocking. Bytes that do not fit are kept; then it returns False, and the caller must
        call `flush` when the socket is writable. `packed`: the body is packed if possible, for a receiver that unpacks.
        Raises LinkClosed.
        """
        short = pack_body(body) if packed else None
        if short is not None:
            command |= PACKED
        data = self._frame(command, ident, encode_body(body) if short is None else short)
        with self._send_lock:
            sent = 0 if self.unsent else self._try_write(data)
            if sent < len(data):
                self.unsent += memoryview(data)[sent:]
            return not self.unsent

    def flush(self) -> bool:
        """Write as much as possible of the bytes kept by `post`; returns True if none are left. Raises LinkClosed."""
        with self._send_lock:
            del self.unsent[: self._try_write(self.unsent)]
            return not self.unsent

    def _try_write(self, data: "bytes | bytearray") -> int:
        try:
            return self._sock.send(data, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self.unsent.clear()  # no reader is left
            raise LinkClosed(str(error)) from None

    def _frame(self, command: int, ident: int, body: bytes) -> bytes:
        freed = self.freed
        if not freed:
            length = len(body)
            return HEADER.pack(WIRE_VERSION + command + length, command, 0, length, ident) + body
        offsets: List[bytes] = []
        try:
            while freed and len(offsets) < MAX_FREED:
                offsets.append(FREED.pack(freed.pop()))
        except IndexError:
            pass  # another thread's message took the last one
        count, length = len(offsets), len(body)
        total = WIRE_VERSION + command + count + length
        return b"".join([HEADER.pack(total, command, count, length, ident), *offsets, body])

    # -- receiving

    def try_receive(self) -> Optional[Message]:
        """Return one message if a whole one has arrived, else None. Raises LinkClosed, WireError."""
        message = self._parse() if self._start != self._end else None
        while message is None:
            if not self._fill(socket.MSG_DONTWAIT):
                return None
            message = self._parse()
        return message

    def take_buffered(self) -> Optional[Message]:
        """Return one message if a whole one was already read, else None. Raises WireError."""
        return self._parse() if self._start != self._end else None

    def wait(self, spin: float = 0.0, timeout: Optional[float] = None) -> bool:
        """Return whether something has arrived: polls for `spin` seconds, then sleeps `timeout` seconds at most
        (None: for ever).

        True may also mean that the link has ended, or that only a part of a message has arrived.
        """
        if spin > 0.0 and self._spin(spin):
            return True
        return bool(self._poll.poll(None if timeout is None else max(timeout * 1000, 0)))

    def _spin(self, seconds: float) -> bool:
        poll = self._poll.poll
        end = time.perf_counter() + seconds
        while not poll(0):
            if time.perf_counter() >= end:
                return False
        return True

    def receive(self, spin: float = 0.0, timeout: Optional[float] = None) -> Optional[Message]:
        """Return the next message, None when time is up. Polls for `spin` seconds, then sleeps up to `timeout` seconds
        (None: for ever). Raises LinkClosed, WireError."""
        message = self.take_buffered()
        if message is None and spin > 0.0 and self._spin(spin):
            self._fill(socket.MSG_DONTWAIT)
            message = self._parse()
        if message is not None:
            return message
        deadline = None if timeout is None else time.monotonic() + timeout
        while message is None:
            left = None if deadline is None else max(deadline - time.monotonic(), 0) * 1000
            if not self._poll.poll(left):
                return None
            self._fill(0)
            message = self._parse()
        return message

    def _fill(self, flags: int) -> bool:
        """Read the bytes that have arrived; returns False if there are none."""
        if self._start == self._end:
            self._start = self._end = 0
            if not 0 < len(self._buffer) <= _KEPT_BUFFER:
                self._make_room(0)
        elif self._end == len(self._buffer):
            self._make_room(0)
        try:
            count = self._sock.recv_into(self._view[self._end :], 0, flags)
        except (BlockingIOError, InterruptedError):
            return False
        except ConnectionResetError:
            count = 0  # the other end closed before it had read everything
        except OSError as error:
            raise LinkClosed(str(error)) from None
        if count == 0:
            raise LinkClosed("the other end closed the link")
        self._end += count
        return True

    def _make_room(self, need: int) -> None:
        """Move unread bytes to the front of a buffer with room for `need` bytes and some more."""
        unread = bytes(self._view[self._start : self._end])
        size = max(_BUFFER, len(unread) * 2, need + (1 << 12))
        # Pages apart from the heap, which keeps memory that threads have freed: with heap buffers a server grew by
        # 18 MB in 400 loads and unloads, with these by 1 MB.
        buffer = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        buffer[: len(unread)] = unread
        self._buffer, self._view = buffer, memoryview(buffer)
        self._start, self._end = 0, len(unread)

    def _parse(self) -> Optional[Message]:
        available = self._end - self._start
        if available < _HEADER_SIZE:
            return None
        checked, command, freed, length, ident = HEADER.unpack_from(self._buffer, self._start)
        version = checked - command - freed - length
        if version != WIRE_VERSION:
            raise WireError("wire version %d, expected %d, or a damaged header" % (version, WIRE_VERSION))
        packed = self._unpacks and command & PACKED
        command -= packed
        if command not in BY_NUMBER or length > MAX_BODY:
            raise WireError("no such message: command %d with %d bytes" % (command, length))
        total = _HEADER_SIZE + freed * 8 + length
        if available < total:
            if self._start + total > len(self._buffer):
                self._make_room(total)
            return None
        position = self._start + _HEADER_SIZE
        for _ in range(freed):
            if self._on_freed is not None:
                self._on_freed(FREED.unpack_from(self._buffer, position)[0])
            position += 8
        body = (unpack_body if packed else decode_body)(self._view[position : position + length])
        self._start += total
        return command, ident, body

    def shutdown(self) -> None:
        """End both ways: the other side and a local receiver see LinkClosed. The descriptor stays until `close`."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def abandon(self) -> None:
        """Close the descriptor, in a forked process, without ending the link, which the parent still uses."""
        self._sock.close()

    def close(self) -> None:
        self._sock.close()
