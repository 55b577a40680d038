"""The HTTP endpoint adds to a request's trace what only it knows: when the bytes came and the answer went (rule
5.14.4)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from starlette.types import Message, Receive, Scope, Send

from ...server.inference_server import InferenceServer
from ...server.observe.tracer import RECEPTION, Reception
from .reply import header

#: Headers that continue a client's OpenTelemetry trace.
_CONTEXT = ("traceparent", "tracestate")

Endpoint = Callable[[Scope, Receive, Send, str, str], Awaitable[None]]


class TracedCall:
    """Around an endpoint that makes one request, while requests are traced."""

    def __init__(self, core: InferenceServer, endpoint: Endpoint) -> None:
        self._core = core
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send, model: str, version: str) -> None:
        clock = self._core.clock
        reception = Reception(_context(scope))
        reception.stamp("HTTP_RECV_START", clock.now())

        async def received() -> Message:
            message = await receive()
            if not message.get("more_body"):
                reception.stamp("HTTP_RECV_END", clock.now())
            return message

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                reception.stamp("INFER_RESPONSE_COMPLETE", clock.now())
                reception.stamp("HTTP_SEND_START", clock.now())
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                reception.stamp("HTTP_SEND_END", clock.now())

        token = RECEPTION.set(reception)
        try:
            await self._endpoint(scope, received, sent, model, version)
        finally:
            RECEPTION.reset(token)
            reception.end()


def _context(scope: Scope) -> str | None:
    found = {name: value for name in _CONTEXT if (value := header(scope["headers"], name.encode())) is not None}
    return json.dumps(found) if "traceparent" in found else None
