"""The call of an endpoint, its reply, and the refusal of a call that lacks a header."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple

from ...core.status import InvalidArgumentError, TritonError
from ..shared.access import CATEGORIES, Headers
from . import errors

JSON = b"application/json"
TEXT = b"text/plain"
BINARY = b"application/octet-stream"

#: Up to this many bytes of binary data go out with the JSON in one write; more is sent as it lies in memory.
_JOIN_BELOW = 1 << 16


#: As libevent's: for one status the phrase is not the usual one.
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_STATUS_LINES[405] = b"HTTP/1.1 405 Not Allowed\r\n"


class WriteWatch(NamedTuple):
    """A reply that is written in pieces: `begin` is called before its first byte, `end` after the last byte written."""

    begin: Callable[[], None]
    end: Callable[[], None]


@dataclass(slots=True)
class HttpReply:
    """A status, and a body in pieces, which are not joined if large; or `events`, which are sent as they come."""

    status: int = 200
    body: bytes = b""
    kind: bytes = JSON
    headers: Headers = ()
    more: Sequence[bytes | memoryview] = ()

    events: AsyncIterator[bytes] | None = None
    watch: WriteWatch | None = None

    def whole(self, keep_alive: bool = True, headers: Headers = (), *, old: bool = False) -> bytes | None:
        """Return the response in one piece, `headers` added; None if it is too large for that. `old`: as HTTP/1.0."""
        size = len(self.body)
        for piece in self.more:
            size += len(piece)
        if size >= _JOIN_BELOW:
            return None
        head = _head(
            self.status, self.kind, size=size, headers=(*self.headers, *headers), keep_alive=keep_alive, old=old
        )
        return b"".join((head, self.body, *self.more))

    def head(self, keep_alive: bool, headers: Headers = (), *, old: bool = False) -> bytes:
        """Return the bytes before the body."""
        size = None if self.events is not None else len(self.body) + sum(map(len, self.more))
        return _head(
            self.status, self.kind, size=size, headers=(*self.headers, *headers), keep_alive=keep_alive, old=old
        )


@functools.lru_cache(256)  # most replies of one model have the same head
def _head(status: int, kind: bytes, size: int | None, headers: Headers, keep_alive: bool, old: bool) -> bytes:
    """Return the head before a body of `size` bytes, or of unknown size if that is None. Names and values of headers
    are ours, and are not checked. Names are written as Triton writes them (measured)."""
    lines = [_STATUS_LINES[status] + b"Content-Type: " + kind]
    if size is not None:
        lines.append(b"Content-Length: %d" % size)
    elif not old:  # HTTP/1.0 has no chunks: there the end of the connection is the end of the body
        lines.append(b"Transfer-Encoding: chunked")
    lines.extend(b"%b: %b" % (name.title(), value) for name, value in headers)
    if old == keep_alive:  # only a difference from the protocol's default has to be written
        lines.append(b"Connection: keep-alive" if old else b"Connection: close")
    head = b"\r\n".join(lines) + b"\r\n\r\n"
    return head.replace(b"HTTP/1.1", b"HTTP/1.0", 1) if old else head


def chunk(piece: bytes) -> bytes:
    """Return a piece of a body of unknown length."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


LAST_CHUNK = b"0\r\n\r\n"


class CutOffError(Exception):
    """An error for events of a reply that ended too early; the connection must end, too."""


def refusal(error: TritonError, kind: bytes = JSON, headers: Headers = ()) -> HttpReply:
    return HttpReply(errors.status(error), errors.body(error.message), kind, headers)


def failure(status: int, text: str, kind: bytes = JSON) -> HttpReply:
    return HttpReply(status, errors.body(text), kind)


METHOD_NOT_ALLOWED = "Method Not Allowed"


@dataclass(slots=True)
class HttpCall:
    """A request to an endpoint, with its body. `path` has the parts of the path that the route names."""

    method: str
    path: dict[str, str]
    body: bytes | bytearray


def header(headers: Headers, name: bytes) -> str | None:
    """Return the first value of a header; `name` is in lower case."""
    return next((value.decode("latin-1") for key, value in headers if key == name), None)


_MAX = 2**63 - 1


def version_number(text: str) -> int:
    """Return a path's version as a number; `""` is -1, the latest. Raises InvalidArgumentError above 64 bits."""
    number = int(text.lstrip("0")[:20] or 0) if text else -1
    if number > _MAX:
        raise InvalidArgumentError(
            f"failed to get model version from specified version string '{text}' (details: stol), version should be an "
            "integral value > 0"
        )
    return number


class RestrictedFeatures:
    """The refusal of requests to restricted endpoints that lack the header of their category (rule 6.1.3). `table`:
    category -> (header name, value).
    """

    def __init__(self, table: Mapping[str, tuple[str, str]]) -> None:
        unknown = sorted(set(table) - set(CATEGORIES))
        if unknown:
            expected = ", ".join(CATEGORIES)
            raise InvalidArgumentError(f"unknown restricted api '{unknown[0]}', expected one of {expected}")
        self._table = {
            category: (key, key.lower().encode("latin-1"), value) for category, (key, value) in table.items()
        }

    def refusal(self, category: str, headers: Headers) -> HttpReply | None:
        """Return the answer to a client that may not use endpoints of the category; None if it may."""
        wanted = self._table.get(category)
        if wanted is None or header(headers, wanted[1]) == wanted[2]:
            return None
        return failure(403, f"This API is restricted, expecting header '{wanted[0]}'", TEXT)
