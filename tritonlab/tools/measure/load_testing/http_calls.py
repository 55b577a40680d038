"""The calls of load tests over HTTP, and the times and encoded requests that calls over gRPC share with them."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import NamedTuple, Protocol

import httptools

from ....core.inference.infer_request import InferenceRequest
from ....exchanges.http_document import infer_path, request_body
from ....exchanges.remote.http_link import HttpLink, error_text
from .token_times import TokenStream

_RECEIVE = 1 << 18


class Caller(Protocol):
    """The calls of one thread to a model, one request at a time."""

    def call(self, request: InferenceRequest, stream: TokenStream | None) -> CallTimes:
        """Send a request and wait for its answer, whose tokens `stream` counts. An error is part of the result."""

    def release(self) -> None:
        """Note that this thread makes no more calls."""

    def close(self) -> None:
        """End the calls under way, from another thread."""


class CallTimes(NamedTuple):
    """The times of one call, in nanoseconds of the monotonic clock, the number of its responses that are not empty, and
    the text of its error.
    """

    sent: int
    first: int
    done: int
    send: int = 0
    receive: int = 0
    responses: int = 1
    error: str = ""


class EncodedBodies:
    """The bytes of equal requests, the most common ones of a load test, by their inputs."""

    def __init__(self, fixed: Sequence[object]) -> None:
        self._fixed = {id(inputs) for inputs in fixed}
        self._known: dict[int, bytes] = {}

    def encode(self, request: InferenceRequest, encode: Callable[[InferenceRequest], bytes]) -> bytes:
        """Return the result of `encode` for a request, or the earlier one for the same inputs."""
        if request.correlation_id or id(request.inputs) not in self._fixed:
            return encode(request)
        known = self._known.get(id(request.inputs))
        if known is None:
            known = self._known[id(request.inputs)] = encode(request)
        return known


class HttpCaller:
    """A caller that keeps one connection open. `http.client` does this, too, but takes ten times as long to read a
    head."""

    def __init__(self, link: HttpLink, bodies: EncodedBodies) -> None:
        self._link = link
        self._bodies = bodies
        self._socket: socket.socket | None = None
        self._closed = False

    def call(self, request: InferenceRequest, stream: TokenStream | None) -> CallTimes:
        message = self._bodies.encode(request, self._message)
        if self._socket is not None and self._ready.poll(0):  # the server has closed it while it was idle
            self.release()
        sent = monotonic_ns()
        try:
            connection = self._socket or self._connect()
            connection.sendall(message)
            written = monotonic_ns()
            reply = _HttpReply()
            data = connection.recv(_RECEIVE)
            first = monotonic_ns()
            reply.feed(data)
            while not reply.complete:
                reply.feed(connection.recv(_RECEIVE))
        except (OSError, httptools.HttpParserError) as problem:
            self.release()
            failure = self._link.transport.failure(self._link.protocol, problem)
            return CallTimes(sent, 0, monotonic_ns(), error=failure.message)
        if not reply.keeps_alive:
            self.release()
        done = monotonic_ns()
        error = error_text(reply.body, reply.status) if reply.status != 200 else ""
        return CallTimes(sent, first, done, send=written - sent, receive=done - first, error=error)

    def _message(self, request: InferenceRequest) -> bytes:
        body, head = request_body(request, self._link.binary)
        transport = self._link.transport
        headers = {"Host": transport.address, **transport.headers, "Content-Length": str(len(body))}
        headers |= {"Inference-Header-Content-Length": str(head)} if head is not None else {}
        lines = [
            f"POST {infer_path(request)} HTTP/1.1",
            *(f"{k}: {v}" for k, v in headers.items()),
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    def _connect(self) -> socket.socket:
        if self._closed:
            raise OSError("the test has ended")
        self._socket = self._link.transport.connect()
        self._ready = select.poll()
        self._ready.register(self._socket, select.POLLIN)
        return self._socket

    def release(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        self._closed = True
        connection = self._socket
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _HttpReply:
    """The reader of one answer; its `on_` methods are the parser's."""

    def __init__(self) -> None:
        self.complete = False
        #: whether the server keeps the connection open; the parser forgets it with the end of the answer
        self.keeps_alive = False
        self._parts: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        if not data:
            raise ConnectionError("it closed the connection")
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)

    def on_message_complete(self) -> None:
        self.complete = True
        self.keeps_alive = bool(self._parser.should_keep_alive())

    @property
    def status(self) -> int:
        return int(self._parser.get_status_code())

    @property
    def body(self) -> bytes:
        return b"".join(self._parts)
