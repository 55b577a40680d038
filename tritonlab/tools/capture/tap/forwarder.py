"""The forwarding of bytes between clients and a server, untouched, in one thread.

Every connection of a client has one to the server. A piece that one side sends is sent on at once, and a copy of it
goes to the capture. If a side does not read, the other side is not read either, as if they were connected directly: at
most one piece per direction waits here. The end of a side and its reset are passed on.

It is the system's epoll, not asyncio: a request takes 2 wake-ups and 12 system calls here. While traffic pauses, a
piece goes through the same code to nobody each millisecond (`Rehearsal`); otherwise the interpreter has left the
processor's caches when the next request comes. Added to p50 in front of tritonserver 2.51 (two quiet cores of a virtual
machine, requests with and without the tap in turns, aim 150 us): clients with 100 requests a second 55 to 78 us over
HTTP and 39 to 83 us over gRPC (without rehearsals 276 to 299 us), one client without a pause 115 to 128 us and 40 to
65 us. Beside it, in the same turns: haproxy 63 to 137 us, forty lines of C 40 to 129 us, this 114 to 157 us. Rehearsals
take 4 % of a core, and end a second after the last piece. To spin after a request instead is worse, because that takes
a processor from the server: 445 instead of 252 us over HTTP.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import resource
import select
import socket
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from .copied_bytes import CopySender, RecordKind

#: The most bytes of a piece. A larger buffer than malloc's limit for small ones costs a page fault for each page.
_PIECE = 1 << 16
#: Seconds for which copies wait for others, and bytes up to which they do: each time wakes the process of the capture,
#: which takes a processor from a request under way where processors are few.
_FLUSH_SECONDS, _FLUSH_BYTES = 0.05, 1 << 18
#: Seconds until no more connections are accepted after the last file descriptor was taken.
_ACCEPT_AGAIN = 0.1
#: Seconds for which bytes sent before a reset may be on their way to the other side.
_RESET_SECONDS = 5.0
#: Seconds between two rehearsals, and nanoseconds for which they continue after the last piece.
_REHEARSAL_SECONDS, _ACTIVE_NS = 0.001, 1_000_000_000
_ACCEPTED = 64
_IN, _OUT = select.EPOLLIN, select.EPOLLOUT
_RESET = struct.pack("ii", 1, 0)

Address: TypeAlias = tuple[socket.AddressFamily, tuple[object, ...]]


class Upstream:
    """The address of a server. A name is resolved at the start, and again in a thread when no address answers."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.addresses = self._resolve()
        self._resolving: threading.Thread | None = None

    def _resolve(self) -> list[Address]:
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _, _, _, address in found]

    def resolve_again(self) -> None:
        """Resolve the name for later connections."""
        if self._resolving is None or not self._resolving.is_alive():
            self._resolving = threading.Thread(target=self._update, name="resolver", daemon=True)
            self._resolving.start()

    def _update(self) -> None:
        with contextlib.suppress(OSError):
            self.addresses = self._resolve()

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class _Side:
    """One socket of a connection. `kind` and `ended`: the kinds of the records of its bytes and its end."""

    __slots__ = ("ended", "events", "fd", "is_reset", "kind", "link", "peer", "pending", "reads", "socket", "writes")

    peer: _Side

    def __init__(self, sock: socket.socket, link: _Connection, kind: int, ended: int) -> None:
        self.socket = sock
        self.fd = sock.fileno()
        self.link = link
        self.kind = kind
        self.ended = ended
        #: bytes for this side that it does not take yet
        self.pending: memoryview | None = None
        #: whether it may send more, and whether it takes more
        self.reads = self.writes = True
        self.is_reset = False
        #: the events for which it is registered
        self.events = 0


class _Connection:
    """A connection of a client and the one to the server."""

    __slots__ = (
        "addresses", "client", "copies", "is_copied", "last", "last_call", "number", "pieces", "server", "upstream"
    )  # fmt: skip

    client: _Side
    server: _Side

    def __init__(self, number: int, upstream: Upstream, copies: CopySender) -> None:
        self.number = number
        self.upstream = upstream
        self.copies = copies
        self.addresses = iter(upstream.addresses)
        self.pieces = 0
        #: whether the capture gets its bytes; if not, `last` is the kind of the last piece, and `last_call` the number
        #: of the last call of HTTP/2 that has begun, 0 if it is not known
        self.is_copied = True
        self.last = self.last_call = 0


class Rehearsal:
    """A connection to nobody, whose pieces keep the forwarder's code in the processor's caches."""

    def __init__(self, upstream: Upstream) -> None:
        self._from, client = socket.socketpair()
        self._to, server = socket.socketpair()
        self._read, copied = socket.socketpair()
        connection = _Connection(0, upstream, CopySender(copied, _PIECE))
        self.side = connection.client = _Side(client, connection, RecordKind.FROM_CLIENT, RecordKind.CLIENT_ENDED)
        connection.server = _Side(server, connection, RecordKind.FROM_SERVER, RecordKind.SERVER_ENDED)
        connection.client.peer, connection.server.peer = connection.server, connection.client
        self._all = (self._from, client, self._to, server, self._read, copied)

    def begin(self) -> None:
        self._from.send(b"rehearsal")

    def end(self) -> None:
        self.side.link.copies.flush()
        self._to.recv(_PIECE)
        self._read.recv(_PIECE)

    def close(self) -> None:
        for each in self._all:
            each.close()


class Forwarder:
    """The connections of all listening sockets, each of which has a server.

    grace: seconds that connections may go on after the first signal to end
    """

    def __init__(
        self, listeners: Sequence[tuple[socket.socket, Upstream]], copies: CopySender, grace: float = 25.0
    ) -> None:
        self._copies = copies
        self._grace = grace
        self._epoll = select.epoll()
        self._listeners = {listener.fileno(): (listener, upstream) for listener, upstream in listeners}
        self._connections: dict[int, _Connection] = {}
        self._sides: dict[int, _Side] = {}
        self._numbers = itertools.count(1)
        self._resets: list[tuple[socket.socket, float]] = []  # to be reset once their bytes have gone
        self._accepts_at = 0.0  # 0: now
        self._ends_at: float | None = None  # once asked to end
        self._flush_at = 0.0
        self._was_open = True
        self._rehearsal = Rehearsal(listeners[0][1])
        self._last_piece = 0  # its nanoseconds of the monotonic clock
        #: how many connections there were
        self.count = 0
        self._wake, self._woken = socket.socketpair()
        self._others: dict[int, Callable[[], object]] = {
            self._woken.fileno(): lambda: self._woken.recv(64),
            copies.link.fileno(): self._on_idle,
        }

    # -- called by the command

    def run(self) -> None:
        """Forward until `end` was called, and all connections have ended or `grace` is over."""
        _raise_file_limit()
        self._wake.setblocking(False)
        for fd in self._others:
            self._epoll.register(fd, _IN)
        for fd, (listener, _) in self._listeners.items():
            listener.setblocking(False)
            listener.listen(1024)
            self._epoll.register(fd, _IN)
        try:
            while self._ends_at is None or (self._connections and time.monotonic() < self._ends_at):
                self._turn()
        finally:
            self._stop_listening()
            for connection in list(self._connections.values()):
                self._close(connection, aborts=True)
            for sock, _ in self._resets:
                _reset(sock)
            self._epoll.close()
            self._rehearsal.close()
            self._wake.close()
            self._woken.close()

    def end(self) -> None:
        """End once the connections have ended; called again, end now. Any thread, and a signal's handler, may call
        it."""
        self._ends_at = 0.0 if self._ends_at is not None else time.monotonic() + self._grace
        with contextlib.suppress(OSError):
            self._wake.send(b"x")

    def _stop_listening(self) -> None:
        for fd, (listener, _) in self._listeners.items():
            with contextlib.suppress(OSError):
                self._epoll.unregister(fd)
            listener.close()
        self._listeners.clear()

    # -- the loop

    def _turn(self) -> None:
        copies = self._copies
        wait = 0.01 if self._resets else _FLUSH_SECONDS if copies.waiting_bytes else None
        if wait is None and (self._accepts_at or self._ends_at is not None):
            wait = _ACCEPT_AGAIN
        if time.monotonic_ns() - self._last_piece < _ACTIVE_NS:
            wait = _REHEARSAL_SECONDS
        events = self._epoll.poll(wait)
        if not events:
            self._rehearse()
        sides = self._sides
        for fd, event in events:
            side = sides.get(fd)
            if side is None:
                if fd in self._listeners:
                    self._accept(fd)
                elif fd in self._others:
                    self._others[fd]()
                continue
            if event & _OUT and sides.get(fd) is side:
                self._on_writable(side)
            if event & ~_OUT and sides.get(fd) is side:
                if side.events & _IN:
                    self._on_readable(side)
                else:  # its end, which is read later; until then epoll would report it again and again
                    self._watch(side, 0)
        if copies.waiting_bytes:
            now = time.monotonic()
            if now >= self._flush_at or copies.waiting_bytes >= _FLUSH_BYTES:
                copies.flush()
                self._flush_at = now + _FLUSH_SECONDS
        if self._was_open and not copies.is_open:
            self._was_open = False
            self._epoll.unregister(copies.link.fileno())
            print("tritonlab tap: the capture has ended; requests are forwarded without it", file=sys.stderr)
        if self._resets:
            self._resets = [each for each in self._resets if not _reset_if_sent(*each)]
        if self._accepts_at and time.monotonic() >= self._accepts_at:
            self._accepts_at = 0.0
            for fd in self._listeners:
                self._epoll.register(fd, _IN)
        if self._ends_at is not None and self._listeners:
            self._stop_listening()
            copies.add(RecordKind.DRAINING, 0, time.monotonic_ns())

    def _rehearse(self) -> None:
        """Forward a piece to nobody, which does not count as traffic."""
        last = self._last_piece
        self._rehearsal.begin()
        self._on_readable(self._rehearsal.side)
        self._rehearsal.end()
        self._last_piece = last

    def _watch(self, side: _Side, events: int) -> None:
        """Register a side for these events, or for none, in which case not even its end is reported."""
        if events == side.events:
            return
        if not side.events:
            self._epoll.register(side.fd, events)
        elif events:
            self._epoll.modify(side.fd, events)
        else:
            self._epoll.unregister(side.fd)
        side.events = events

    # -- connections

    def _accept(self, fd: int) -> None:
        if self._accepts_at:
            return  # another listener has met the limit of open files in this turn
        listener, upstream = self._listeners[fd]
        for _ in range(_ACCEPTED):
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    for each in self._listeners:
                        self._epoll.unregister(each)
                    self._accepts_at = time.monotonic() + _ACCEPT_AGAIN
                return
            number = next(self._numbers) & 0xFFFFFFFF
            connection = _Connection(number, upstream, self._copies)
            connection.client = _Side(_plain(sock), connection, RecordKind.FROM_CLIENT, RecordKind.CLIENT_ENDED)
            self.count += 1
            self._connect(connection)

    def _connect(self, connection: _Connection) -> None:
        """Connect to the next address of the server; after the last one, end the client's connection."""
        for family, address in connection.addresses:
            try:
                sock = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                break
            sock.setblocking(False)
            if sock.connect_ex(address) not in (0, errno.EINPROGRESS):
                sock.close()
                continue
            server = _Side(_plain(sock), connection, RecordKind.FROM_SERVER, RecordKind.SERVER_ENDED)
            connection.server = server
            server.peer, connection.client.peer = connection.client, server
            server.reads = False  # not yet
            self._sides[server.fd] = server
            self._connections[connection.number] = connection
            self._watch(server, _OUT)
            return
        connection.upstream.resolve_again()
        self._connections.pop(connection.number, None)
        _reset(connection.client.socket)

    def _on_connected(self, server: _Side) -> None:
        connection = server.link
        failed = server.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not failed and not _is_connected(server.socket):
            return  # the event was of a socket that had this number before
        if failed:
            self._watch(server, 0)
            del self._sides[server.fd]
            server.socket.close()
            self._connect(connection)
            return
        server.reads = True
        client = server.peer
        self._sides[client.fd] = client
        self._copies.add(RecordKind.OPENED, connection.number, time.monotonic_ns(), str(connection.upstream).encode())
        self._watch(server, _IN)
        self._watch(client, _IN)

    def _on_readable(self, side: _Side) -> None:
        try:
            data = side.socket.recv(_PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            side.is_reset = True
            data = b""
        if not data:
            self._on_end(side)
            return
        peer = side.peer
        self._last_piece = at = time.monotonic_ns()
        try:
            sent = peer.socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._on_deaf(peer)
            return
        connection = side.link
        copies = connection.copies
        if not connection.is_copied and copies.has_much_room and _may_begin(side, data):
            copies.add(RecordKind.RESUMED, connection.number, at, connection.pieces.to_bytes(8))
            connection.is_copied = True
        connection.pieces += 1
        if connection.is_copied and copies.has_room(len(data)):
            copies.add(side.kind, connection.number, at, data)
        else:
            if connection.is_copied:
                copies.add(RecordKind.LOST, connection.number, at)
            connection.is_copied = False
            connection.last = side.kind
            if side.kind == RecordKind.FROM_CLIENT:
                connection.last_call = max(connection.last_call, _last_call(data))
            copies.lost_bytes += len(data)
        if sent < len(data):
            peer.pending = memoryview(data)[sent:]
            self._watch(side, side.events & ~_IN)
            self._watch(peer, peer.events | _OUT)

    def _on_writable(self, side: _Side) -> None:
        if side.pending is None:
            if side.link.client.fd not in self._sides:
                self._on_connected(side)
            return
        peer = side.peer
        try:
            sent = side.socket.send(side.pending)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._on_deaf(side)
            return
        if sent < len(side.pending):
            side.pending = side.pending[sent:]
            return
        side.pending = None
        self._watch(side, side.events & ~_OUT)
        if peer.reads:
            self._watch(peer, peer.events | _IN)
        else:
            self._pass_end(peer)

    def _on_end(self, side: _Side) -> None:
        """Handle the end of the bytes of a side, or its reset."""
        side.reads = False
        self._watch(side, side.events & ~_IN)
        self._copies.add(side.ended, side.link.number, time.monotonic_ns(), b"reset" if side.is_reset else b"")
        if side.peer.pending is None:
            self._pass_end(side)

    def _pass_end(self, side: _Side) -> None:
        """Pass on the end of a side, after all of its bytes."""
        peer = side.peer
        is_deaf = peer.reads and not side.writes  # and so the rest of the other side's bytes goes nowhere
        if side.is_reset or is_deaf or not peer.reads:
            self._close(side.link, aborts=side.is_reset or is_deaf or peer.is_reset)
            return
        try:
            peer.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._on_deaf(peer)
            return
        peer.writes = False

    def _on_deaf(self, side: _Side) -> None:
        """Handle a side that takes no more bytes. It may have sent some before, which are passed on."""
        side.pending = None
        side.writes = False
        peer = side.peer
        self._watch(side, side.events & ~_OUT)
        self._watch(peer, peer.events & ~_IN)
        if not side.reads:
            self._close(side.link, aborts=True)

    def _close(self, connection: _Connection, aborts: bool) -> None:
        """Close both sockets; `aborts`: with a reset, after the bytes that were sent before."""
        if self._connections.pop(connection.number, None) is None:
            return
        for side in (connection.client, connection.server):
            self._sides.pop(side.fd, None)
            self._watch(side, 0)
            side.pending = None
            if aborts and not side.is_reset:
                self._resets.append((side.socket, time.monotonic() + _RESET_SECONDS))
            else:
                side.socket.close()
        last_call = connection.last_call.to_bytes(4) if connection.last_call else b""
        self._copies.add(RecordKind.CLOSED, connection.number, time.monotonic_ns(), last_call)
        del connection.client.peer, connection.server.peer  # a circle

    def _on_idle(self) -> None:
        for number, pieces in self._copies.read_idle():
            connection = self._connections.get(number)
            if connection is None or connection.pieces != pieces:
                continue
            if not _has_bytes(connection.client.socket):
                self._close(connection, aborts=False)


def _may_begin(side: _Side, data: bytes) -> bool:
    """Return whether a request of HTTP/1.1 may begin with this piece: it comes after an answer."""
    return side.kind == RecordKind.FROM_CLIENT != side.link.last and data.startswith((b"POST /", b"GET /", b"HEAD /"))


def _last_call(data: bytes) -> int:
    """Return the number of the last call of HTTP/2 that begins in a piece of the client; 0 if none does, or if the
    piece does not begin with a frame."""
    found = at = 0
    while at + 9 <= len(data):
        size, kind, flags = int.from_bytes(data[at : at + 3]), data[at + 3], data[at + 4]
        number = int.from_bytes(data[at + 5 : at + 9])
        if kind > 9 or (kind == 0 and not number):
            break
        if kind == 1 and flags & ~0x21 == 4 and number % 2 and size < 1 << 12:  # whole headers of a client's call
            found = number
        at += 9 + size
    return found


def _plain(sock: socket.socket) -> socket.socket:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


def _is_connected(sock: socket.socket) -> bool:
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


def _has_bytes(sock: socket.socket) -> bool:
    """Return whether unread bytes, or the end, have come."""
    try:
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _reset_if_sent(sock: socket.socket, until: float) -> bool:
    """Reset a connection whose bytes the other side has, or whose time is over; return whether it was."""
    (unsent,) = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0" * 4))
    if unsent and time.monotonic() < until:
        return False
    _reset(sock)
    return True


def _reset(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    sock.close()


def _raise_file_limit() -> None:
    """Allow as many open files as the system grants: each connection takes two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
