"""An `HttpCall` is what an endpoint is asked with, an `HttpReply` what it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple

from ...core.status import TritonError
from . import errors

JSON = b"application/json"
TEXT = b"text/plain"
BINARY = b"application/octet-stream"

Headers = Sequence[tuple[bytes, bytes]]

#: Up to this many bytes of binary data go out with the JSON in one write; more is sent as it lies in memory.
_JOIN_BELOW = 1 << 16


_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class WriteWatch(NamedTuple):
    """Called before the first byte of a reply is written, and after the last, or when nothing more will be."""

    begin: Callable[[], None]
    end: Callable[[], None]


@dataclass(slots=True)
class HttpReply:
    """A status, and a body in pieces, which are not copied if they are many bytes; or `events`, sent as they come."""

    status: int = 200
    body: bytes = b""
    kind: bytes = JSON
    headers: Headers = ()
    more: Sequence[bytes | memoryview] = ()

    events: AsyncIterator[bytes] | None = None
    watch: WriteWatch | None = None

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body) + sum(map(len, self.more))

    def whole(self, keep_alive: bool = True, headers: Headers = ()) -> bytes | None:
        """The response in one piece, `headers` added; None for one that is not to be copied."""
        size = self.size
        if size >= _JOIN_BELOW:
            return None
        body = b"".join((self.body, *self.more)) if self.more else self.body
        return response(self.status, (*self._headers(size), *headers), body, keep_alive=keep_alive)

    def head(self, keep_alive: bool, headers: Headers = ()) -> bytes:
        """What stands before the body."""
        return response(self.status, (*self._headers(self.size), *headers), b"", keep_alive=keep_alive)

    def _headers(self, size: int) -> Headers:
        length = (b"content-length", b"%d" % size) if self.events is None else (b"transfer-encoding", b"chunked")
        return ((b"content-type", self.kind), length, *self.headers)


def response(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, *, keep_alive: bool = True) -> bytes:
    """A whole response. Names and values of headers are ours, and are not checked."""
    pieces = [_STATUS_LINES[status]]
    for name, value in headers:
        pieces += (name, b": ", value, b"\r\n")
    pieces.append(b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
    pieces.append(body)
    return b"".join(pieces)


def chunk(piece: bytes) -> bytes:
    """A piece of a body whose length is not known before."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


LAST_CHUNK = b"0\r\n\r\n"


class CutOffError(Exception):
    """The events of a reply end before their end: the connection does, too."""


def refusal(error: TritonError, kind: bytes = JSON, headers: Headers = ()) -> HttpReply:
    return HttpReply(errors.status(error), errors.body(error.message), kind, headers)


def failure(status: int, text: str, kind: bytes = JSON) -> HttpReply:
    return HttpReply(status, errors.body(text), kind)


METHOD_NOT_ALLOWED = "Method Not Allowed"


@dataclass(slots=True)
class HttpCall:
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
