"""The metrics port answers GET /metrics, and nothing else (rule 5.13.5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from .reply import METHOD_NOT_ALLOWED, TEXT, HttpReply, failure
from .request_parser import Request

_PROMETHEUS = b"text/plain; charset=utf-8"


def metrics_app(metrics_text: Callable[[], str]) -> Callable[[Request], Awaitable[HttpReply]]:
    """Make the application. `metrics_text()` returns Prometheus text and is called for each request."""

    async def app(request: Request) -> HttpReply:
        if request.method != "GET":
            return failure(405, METHOD_NOT_ALLOWED, TEXT)
        if request.path in (b"/metrics", b"/metrics/"):
            return HttpReply(body=metrics_text().encode(), kind=_PROMETHEUS)
        return HttpReply(kind=_PROMETHEUS)  # Triton answers any other path with nothing (measured)

    return app
