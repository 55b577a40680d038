"""The HTTP endpoint adds to a request's trace what only it knows: when the bytes came and the answer went (rule
5.14.4)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from ...server.inference_server import InferenceServer
from ...server.observe.tracer import RECEPTION, Reception
from .reply import HttpReply, WriteWatch, header
from .request_parser import Request

#: Headers that continue a client's OpenTelemetry trace.
_CONTEXT = ("traceparent", "tracestate")

Endpoint = Callable[[Request, str, str], Awaitable[HttpReply]]


class TracedCall:
    """What a trace needs of an endpoint that makes one request. It is only used while requests are traced."""

    def __init__(self, core: InferenceServer, endpoint: Endpoint) -> None:
        self._core = core
        self._endpoint = endpoint

    async def __call__(self, request: Request, model: str, version: str) -> HttpReply:
        now = self._core.clock.now
        reception = Reception(_context(request))
        reception.stamp("HTTP_RECV_START", request.begun)
        reception.stamp("HTTP_RECV_END", request.ended)

        def begin() -> None:
            reception.stamp("INFER_RESPONSE_COMPLETE", now())
            reception.stamp("HTTP_SEND_START", now())

        def end() -> None:
            reception.stamp("HTTP_SEND_END", now())
            reception.end()

        token = RECEPTION.set(reception)
        try:
            reply = await self._endpoint(request, model, version)
        except BaseException:
            reception.end()
            raise
        finally:
            RECEPTION.reset(token)
        reply.watch = WriteWatch(begin, end)
        return reply


def _context(request: Request) -> str | None:
    headers = request.headers
    found = {name: value for name in _CONTEXT if (value := header(headers, name.encode())) is not None}
    return json.dumps(found) if "traceparent" in found else None
