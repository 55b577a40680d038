"""Serves an ASGI application from a thread of its own, whatever the process's main thread does."""

from __future__ import annotations

import socket
import threading

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .listener import listen

#: Seconds an idle connection is kept: longer than clients keep theirs, or both would close one at the same time.
KEEP_ALIVE = 3600

#: Bytes of a request's first line and headers; the peer takes any number of headers of 8191 bytes (measured).
MAX_HEAD = 1 << 18


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.begun.set()


class _Bounded(HttpToolsProtocol):
    """uvicorn's protocol without three ways to fill the memory:

    - It forgets the timer of a connection that is reset, which keeps all of it, the last body too, for as long as an
      idle connection is kept.
    - It reads a head that does not end.
    - It collects the headers behind a chunked body, which nobody reads.
    """

    _head: list[int] | None = None  # of one that has begun and not ended, the bytes that came after its beginning

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        head = self._head
        super().data_received(data)
        if head is not None and head is self._head:
            head[0] += len(data)
            if head[0] > MAX_HEAD:
                self.send_400_response(f"the request has a head of more than {MAX_HEAD} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = [0]

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is not None:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()


class ASGIServer:
    """One listening socket, one event loop, one thread. Started and stopped at most once."""

    def __init__(self, app: ASGIApp, name: str, protocol: type[HttpToolsProtocol] = HttpToolsProtocol) -> None:
        config = uvicorn.Config(
            app,
            loop="uvloop",
            http=type(protocol.__name__, (_Bounded, protocol), {}),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        self._server = _Server(config)
        self._name = name
        self._thread: threading.Thread | None = None

    def start(self, address: str, port: int, shared: bool = False) -> int:
        """The port it listens on. Raises UnavailableError or InvalidArgumentError as `listen` does."""
        listener = listen(address, port, shared)
        thread = threading.Thread(target=self._server.run, args=([listener],), name=self._name, daemon=True)
        self._thread = thread
        thread.start()
        self._server.begun.wait()
        return int(listener.getsockname()[1])

    def stop(self, timeout: float) -> None:
        """Refuses new connections, lets requests under way end, and cuts them off after `timeout` seconds."""
        if self._thread is None:
            return
        self._server.config.timeout_graceful_shutdown = int(timeout)
        self._server.should_exit = True
        self._thread.join()
        self._thread = None
