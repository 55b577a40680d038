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


class HTTPServer(ConnectionServer):
    """The HTTP endpoint of one server. It is started and stopped at most once."""

    def __init__(
        self,
        core: InferenceServer,
        shared_memory: SharedMemoryManager,
        options: HTTPOptions,
        memory: RequestMemory | None = None,
    ) -> None:
        self._endpoints = HTTPApp(core, shared_memory, options)
        app, access = self._endpoints, options.access
        if options.models_page:
            access = replace(access, open_paths=frozenset(path.encode() for path in FRAME))
        super().__init__(
            app,
            "tritonlab http",
            access,
            app.on_defect,
            memory=memory,
            loop_context=app.reading,
            cancel_on_disconnect=options.cancel_on_disconnect,
            shares_port=options.reuse_port,
        )

    def stop(self, timeout: float = 0.0) -> None:
        super().stop(timeout)
        self._endpoints.close()


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
