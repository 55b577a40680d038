"""The metrics port: GET /metrics, and nothing else (rule 5.13.5)."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

_REFUSED = b'{"error":"Method Not Allowed"}'


def metrics_app(metrics_text: Callable[[], str]) -> ASGIApp:
    """The ASGI application. `metrics_text()` is Prometheus text; it is asked at each request."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await _answer(send, 405, b"text/plain", _REFUSED)
        elif scope["path"] in ("/metrics", "/metrics/"):
            await _answer(send, 200, b"text/plain; charset=utf-8", metrics_text().encode())
        else:  # Triton answers any other path with nothing (measured)
            await _answer(send, 200, b"text/plain; charset=utf-8", b"")

    return app


async def _answer(send: Send, status: int, kind: bytes, body: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
