"""The socket on which an endpoint listens, the process that holds a port, and the open files that sockets need."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from ...core.os_limits import explained
from ...core.status import InvalidArgumentError, UnavailableError

#: Seconds between two checks of the open files.
_PAUSE = 1.0

#: Triton listens on every address; a notebook's server accepts others only if set.
LOOPBACK = "127.0.0.1"
HTTP_PORT, GRPC_PORT, METRICS_PORT = 8000, 8001, 8002

BACKLOG = 2048
_LISTEN = "0A"  # of /proc/net/tcp: linux/tcp_states.h


def listen(address: str, port: int, shared: bool = False) -> socket.socket:
    """Return a listening socket; port 0 is any free one.

    With `shared`, other processes of this user may listen there too, if all of them set it; each gets its share of the
    connections. Raises UnavailableError if the port is in use, InvalidArgumentError if this machine does not have the
    address.
    """
    listener = _bound(address, port, shared)
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise refused(address, port, error) from None
    _open.add(listener)
    return listener


def _bound(address: str, port: int, shared: bool) -> socket.socket:
    if not 0 <= port <= 65535:  # Triton takes it modulo 65536
        raise InvalidArgumentError(f"cannot listen on '{address}:{port}': a port is a number from 0 to 65535")
    try:
        family, _, _, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise InvalidArgumentError(f"cannot listen on '{address}:{port}': {error}") from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(where)
    except OSError as error:
        listener.close()
        raise refused(address, port, error) from None
    return listener


def _close_all() -> None:
    """Close the sockets in a forked child, which would keep the ports bound without answering."""
    for listener in list(_open):
        listener.close()


_open: weakref.WeakSet[socket.socket] = weakref.WeakSet()
os.register_at_fork(after_in_child=_close_all)


def check_free(address: str, port: int, shared: bool = False) -> None:
    """Raise the error of `listen` without listening: connections to a shared port would be accepted and dropped."""
    _bound(address, port, shared).close()


def refused(address: str, port: int, error: OSError) -> UnavailableError | InvalidArgumentError:
    """Return why listening there fails; the text begins like Triton's."""
    where = f"Socket '{address}:{port}'"
    if isinstance(error, PermissionError):
        return InvalidArgumentError(f"{where} cannot be opened: {error.strerror}; choose a port above 1023")
    if error.errno == errno.EADDRINUSE:
        owner = port_owner(port)
        return UnavailableError(f"{where} already in use {f'by {owner}' if owner else ''}".rstrip())
    return InvalidArgumentError(f"{where} cannot be opened: {error.strerror}")


def port_owner(port: int) -> str:
    """Return the process that listens on the port, such as `process 123 (python3 -m http.server)`; "" if unknown."""
    inodes = _listening(port)
    for process in Path("/proc").glob("[0-9]*") if inodes else ():
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            for fd in (process / "fd").iterdir():
                if _target(fd) in inodes:
                    words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                    return f"process {process.name} ({' '.join(words).strip()[:100]})"
    return ""


def _target(fd: Path) -> str:
    """Return the target of a descriptor; "" if it has been closed, as the descriptor for listing the directory."""
    try:
        return os.readlink(fd)
    except OSError:
        return ""


def _listening(port: int) -> set[str]:
    """Return the sockets that listen on the port, by their names in /proc/<pid>/fd."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{fields[9]}]")
    return found


class FileWatch:
    """A watch that reports once each time that this process can open no more files, from `start` to `stop`. Then a port
    accepts no client, without an error: libuv closes new connections, gRPC keeps them waiting and tries again once a
    second. Both go on when files are closed.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._short = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="open files", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def look(self) -> None:
        """Open a file, and report if that fails for the first time."""
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
            self._short = False
        except OSError as error:
            if not self._short:
                self._short = True
                self._report(f"no connection can be accepted: {explained(error) or error.strerror}")

    def _watch(self) -> None:
        while not self._stopped.wait(_PAUSE):
            self.look()
