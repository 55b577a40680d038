"""Serves an ASGI application from a thread of its own, whatever the process's main thread does."""

from __future__ import annotations

import socket
import threading

import uvicorn
from starlette.types import ASGIApp

from ..shared.listener import listen
from .http_connection import HTTPConnection

#: Seconds an idle connection is kept: longer than clients keep theirs, or both would close one at the same time.
KEEP_ALIVE = 3600


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.begun.set()


class ASGIServer:
    """One listening socket, one event loop, one thread. Started and stopped at most once."""

    def __init__(self, app: ASGIApp, name: str, protocol: type[HTTPConnection] = HTTPConnection) -> None:
        config = uvicorn.Config(
            app,
            loop="uvloop",
            http=protocol,
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
