"""The HTTP endpoint of a server, on a thread and event loop of its own."""

from __future__ import annotations

from starlette.types import ASGIApp

from ...server.inference_server import InferenceServer
from ..shared.shared_memory_manager import SharedMemoryManager
from .asgi_server import ASGIServer
from .http_app import HTTPApp, HTTPOptions
from .http_protocol import HTTPProtocol

__all__ = ["HTTPOptions", "HTTPServer"]


class HTTPServer:
    """`app` is the ASGI application, middleware included. Started and stopped at most once."""

    def __init__(self, core: InferenceServer, shared_memory: SharedMemoryManager, options: HTTPOptions) -> None:
        self._application = HTTPApp(core, shared_memory, options)
        app: ASGIApp = self._application
        for wrap in reversed((options.access.guard, *options.middleware)):
            app = wrap(app)
        self.app = app
        self._shared = options.reuse_port
        self._server = ASGIServer(app, "tritonlab http", HTTPProtocol)

    def start(self, address: str, port: int) -> int:
        """The port it listens on. Raises UnavailableError if another one has it."""
        return self._server.start(address, port, self._shared)

    def stop(self, timeout: float = 0.0) -> None:
        """Refuses new connections; requests under way are cut off after `timeout` seconds."""
        self._server.stop(timeout)
        self._application.close()
