"""A `Call` is what an endpoint is asked with, a `Reply` what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from ...core.status import TritonError
from . import errors
from .http_protocol import respond_at_once, response

JSON = b"application/json"
TEXT = b"text/plain"
BINARY = b"application/octet-stream"

Headers = Sequence[tuple[bytes, bytes]]

#: Up to this many bytes of binary data go out with the JSON in one write; more is sent as it lies in memory.
_JOIN_BELOW = 1 << 16


@dataclass(slots=True)
class Reply:
    """A status, and a body in pieces, which are not copied if they are many bytes."""

    status: int = 200
    body: bytes = b""
    kind: bytes = JSON
    headers: Headers = ()
    more: Sequence[bytes | memoryview] = ()

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body) + sum(map(len, self.more))

    def whole(self) -> bytes | None:
        """The response in one piece; None for one that is not to be copied."""
        size = self.size
        return response(self.status, self._headers(size), self._joined()) if size < _JOIN_BELOW else None

    def _headers(self, size: int) -> Headers:
        return ((b"content-type", self.kind), (b"content-length", b"%d" % size), *self.headers)

    def _joined(self) -> bytes:
        return b"".join((self.body, *self.more)) if self.more else self.body

    async def send(self, send: Send) -> None:
        size = self.size
        headers = self._headers(size)
        if size < _JOIN_BELOW:
            body = self._joined()
            if not respond_at_once(send, self.status, headers, body):
                await send({"type": "http.response.start", "status": self.status, "headers": headers})
                await send({"type": "http.response.body", "body": body})
            return
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        for piece in self.more:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})


def refusal(error: TritonError, kind: bytes = JSON, headers: Headers = ()) -> Reply:
    return Reply(errors.status(error), errors.body(error.message), kind, headers)


def failure(status: int, text: str, kind: bytes = JSON) -> Reply:
    return Reply(status, errors.body(text), kind)


METHOD_NOT_ALLOWED = "Method Not Allowed"


@dataclass(slots=True)
class Call:
    """A request to an endpoint, its body read. `path` are the parts of the path that the route names."""

    method: str
    path: dict[str, str]
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes | bytearray

    def header(self, name: bytes) -> str | None:
        return header(self.headers, name)


def header(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The first value of a header; `name` in lower case."""
    return next((value.decode("latin-1") for key, value in headers if key == name), None)


class Disconnected(Exception):
    """The client went before its request was complete."""


async def read_body(scope: Scope, receive: Receive) -> bytes | bytearray:
    """The whole body. Raises Disconnected."""
    message = await receive()
    whole: bytearray | None = scope.get("tritonlab.body")
    pieces = bytearray() if whole is None else whole
    while message["type"] == "http.request":
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            if not pieces:
                return body
            pieces += body
            return pieces
        pieces += body
        message = await receive()
    raise Disconnected
