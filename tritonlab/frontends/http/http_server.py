"""The HTTP endpoint of a server, on a thread and event loop of its own, and the application of the metrics port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from ...server.inference_server import InferenceServer
from ..shared.request_memory import RequestMemory
from ..shared.shared_memory_manager import SharedMemoryManager
from .connection_server import ConnectionServer
from .http_app import HTTPApp, HTTPOptions
from .models_page import FRAME
from .reply import METHOD_NOT_ALLOWED, TEXT, HttpReply, failure
from .request_parser import Request

_PROMETHEUS = b"text/plain; charset=utf-8"

__all__ = ["HTTPOptions", "HTTPServer"]


class HTTPServer:
    """The HTTP endpoint of one server. It is started and stopped at most once."""

    def __init__(
        self,
        core: InferenceServer,
        shared_memory: SharedMemoryManager,
        options: HTTPOptions,
        memory: RequestMemory | None = None,
    ) -> None:
        self._app = HTTPApp(core, shared_memory, options)
        self._shared = options.reuse_port
        app, access = self._app, options.access
        if options.models_page:
            access = replace(access, open_paths=frozenset(path.encode() for path in FRAME))
        self._server = ConnectionServer(
            app,
            "tritonlab http",
            access,
            app.on_defect,
            memory=memory,
            loop_context=app.reading,
            cancel_on_disconnect=options.cancel_on_disconnect,
        )

    def start(self, address: str, port: int) -> int:
        """Listen, and return the port. Raises UnavailableError if the port is in use."""
        return self._server.start(address, port, self._shared)

    def is_busy(self) -> bool:
        """Return whether a request is being received or an answer sent."""
        return self._server.is_busy()

    def stop(self, timeout: float = 0.0) -> None:
        """Refuse new connections; requests under way are cut off after `timeout` seconds."""
        self._server.stop(timeout)
        self._app.close()


def metrics_app(metrics_text: Callable[[], str]) -> Callable[[Request], Awaitable[HttpReply]]:
    """Make the application of the metrics port, which answers only GET /metrics (rule 5.13.5). `metrics_text()` returns
    Prometheus text and is called for each request.
    """

    async def app(request: Request) -> HttpReply:
        if request.method != "GET":
            return failure(405, METHOD_NOT_ALLOWED, TEXT)
        if request.path in (b"/metrics", b"/metrics/"):
            return HttpReply(body=metrics_text().encode(), kind=_PROMETHEUS)
        return HttpReply(kind=_PROMETHEUS)  # Triton answers any other path with nothing (measured)

    return app
