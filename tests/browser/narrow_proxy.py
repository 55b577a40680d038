"""A gateway before a JupyterLab that lets through what a Jupyter server always has: its pages, its `/api`, its static
files. Whatever else a page asks for is refused, and kept in `refused`.
"""

from __future__ import annotations

import contextlib
import re
import socket
import socketserver
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

_PASSES = re.compile(r"/(?:api|static|lab/api|lab/extensions)/|/api$|/lab(?:$|/tree/|/workspaces/)|/$")


class NarrowProxy:
    """A proxy of requests and WebSockets to the server at `target`, whose path is the prefix of all that passes."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self.refused: list[str] = []
        self._server = _Server(("127.0.0.1", 0), _Connection)
        self._server.before = parts.path
        self._server.behind = (str(parts.hostname), int(parts.port or 80))
        self._server.refused = self.refused
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{parts.path}"

    def __enter__(self) -> NarrowProxy:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    before: str
    behind: tuple[str, int]
    refused: list[str]


class _Connection(socketserver.StreamRequestHandler):
    """A connection of one request; what follows an upgrade is a WebSocket and passes as it is."""

    server: _Server

    def handle(self) -> None:
        first = self.rfile.readline()
        if not first:
            return
        head = []
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            head.append(line)
        method, address, _ = first.decode().split(" ", 2)
        path = urlsplit(address).path
        within = path.removeprefix(self.server.before)
        if within == path or not _PASSES.match(within):
            self.server.refused.append(f"{method} {path}")
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        if not any(line.lower().startswith(b"upgrade:") for line in head):
            head = [line for line in head if not line.lower().startswith(b"connection:")] + [b"Connection: close\r\n"]
        with socket.create_connection(self.server.behind) as behind:
            behind.sendall(b"".join([first, *head, b"\r\n"]))
            threading.Thread(target=_copy, args=(self.rfile.read1, behind), daemon=True).start()
            _copy(behind.recv, self.connection)


def _copy(read: Callable[[int], bytes], to: socket.socket) -> None:
    """Copy until either side is gone."""
    with contextlib.suppress(OSError, ValueError):
        while data := read(65536):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
