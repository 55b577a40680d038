"""Request after request over one HTTP connection or one gRPC channel, each measured: what a load test needs, where
`http_link` and `grpc_link` send one now and then."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from time import monotonic_ns
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import grpc
import httptools

from ..core.inference.infer_request import InferenceRequest
from ..core.status import TritonError
from .grpc_link import UNLIMITED, GrpcLink, grpc_error, infer_message
from .http_document import request_body
from .http_link import HttpLink, error_text, model_path

_RECEIVE = 1 << 18
_MODEL_INFER = "/inference.GRPCInferenceService/ModelInfer"


class CallTimes(NamedTuple):
    """The times of one call, in nanoseconds of the monotonic clock, and what came: the number of responses that
    are not empty, and the text of an error.
    """

    sent: int
    first: int
    done: int
    send: int = 0
    receive: int = 0
    responses: int = 1
    error: str = ""


class Caller(Protocol):
    """The calls of one thread to a model, one request at a time. An error is in what it returns."""

    def call(self, request: InferenceRequest) -> CallTimes: ...


class CallLink(Protocol):
    """The maker of callers, which ends the calls of all of them."""

    def caller(self) -> Caller: ...

    def close(self) -> None: ...


class EncodedBodies:
    """The bytes of requests that differ in nothing, as most of a load test do: by their inputs."""

    def __init__(self, fixed: Sequence[object]) -> None:
        self._fixed = {id(inputs) for inputs in fixed}
        self._known: dict[int, Any] = {}

    def get(self, request: InferenceRequest) -> Any:
        return self._known.get(id(request.inputs)) if not request.correlation_id else None

    def keep(self, request: InferenceRequest, body: Any) -> Any:
        if id(request.inputs) in self._fixed and not request.correlation_id:
            self._known[id(request.inputs)] = body
        return body


class HttpCalls:
    """The maker of callers over HTTP, with a connection each."""

    def __init__(self, link: HttpLink, bodies: EncodedBodies) -> None:
        self.link = link
        self.bodies = bodies
        self._callers: list[HttpCaller] = []

    def caller(self) -> HttpCaller:
        found = HttpCaller(self.link, self.bodies)
        self._callers.append(found)
        return found

    def close(self) -> None:
        for caller in self._callers:
            caller.close()


class HttpCaller:
    """A caller that keeps one connection open. `http.client` does that as well, but reads a head at ten times the
    cost."""

    def __init__(self, link: HttpLink, bodies: EncodedBodies) -> None:
        self._link = link
        self._bodies = bodies
        self._socket: socket.socket | None = None
        self._closed = False

    def call(self, request: InferenceRequest) -> CallTimes:
        message = self._bodies.get(request) or self._bodies.keep(request, self._message(request))
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
            self._drop()
            return CallTimes(
                sent, 0, monotonic_ns(), error=f"{self._link.address} does not answer over HTTP: {problem}"
            )
        if not reply.keeps_alive:
            self._drop()
        done = monotonic_ns()
        error = error_text(reply.body, reply.status) if reply.status != 200 else ""
        return CallTimes(sent, first, done, send=written - sent, receive=done - first, error=error)

    def _message(self, request: InferenceRequest) -> bytes:
        body, head = request_body(request, self._link.binary)
        version = str(request.model_version) if request.model_version != -1 else ""
        headers = {"Host": self._link.address, **self._link.headers, "Content-Length": str(len(body))}
        headers |= {"Inference-Header-Content-Length": str(head)} if head is not None else {}
        lines = [
            f"POST {model_path(request.model_name, version)}/infer HTTP/1.1",
            *(f"{k}: {v}" for k, v in headers.items()),
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    def _connect(self) -> socket.socket:
        if self._closed:
            raise OSError("the test has ended")
        found = urlsplit(f"//{self._link.address}")
        self._socket = socket.create_connection((found.hostname or "", found.port or 80), self._link.timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _drop(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """End the call under way, from another thread."""
        self._closed = True
        connection = self._socket
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _HttpReply:
    """The reader of one answer; its `on_` methods are the parser's."""

    def __init__(self) -> None:
        self.complete = False
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

    @property
    def status(self) -> int:
        return int(self._parser.get_status_code())

    @property
    def keeps_alive(self) -> bool:
        return bool(self._parser.should_keep_alive())

    @property
    def body(self) -> bytes:
        return b"".join(self._parts)


class GrpcCalls:
    """The maker of callers over one gRPC channel. Answers to unary calls are not decoded: nobody looks at them."""

    def __init__(self, link: GrpcLink, bodies: EncodedBodies, decoupled: bool) -> None:
        self._link, self._bodies, self._decoupled = link, bodies, decoupled
        self._channel = grpc.insecure_channel(link.address, options=UNLIMITED)
        self._streams = GrpcLink(link.address, dict(link.headers), link.timeout) if decoupled else None
        self._infer = self._channel.unary_unary(_MODEL_INFER, None, None)

    def caller(self) -> GrpcCalls:
        return self

    def close(self) -> None:
        self._channel.close()
        if self._streams is not None:
            self._streams.close()

    def call(self, request: InferenceRequest) -> CallTimes:
        return self._call_stream(request) if self._decoupled else self._call_unary(request)

    def _call_unary(self, request: InferenceRequest) -> CallTimes:
        began = monotonic_ns()
        message = self._bodies.get(request)
        if message is None:
            message = self._bodies.keep(request, infer_message(request).SerializeToString())
        sent = monotonic_ns()
        try:
            self._infer(message, metadata=self._link.headers, timeout=self._link.timeout)
        except grpc.RpcError as problem:
            return CallTimes(began, 0, monotonic_ns(), error=grpc_error(problem).message)
        except ValueError as problem:  # the channel was closed
            return CallTimes(began, 0, monotonic_ns(), error=str(problem))
        done = monotonic_ns()
        return CallTimes(began, done, done, sent - began)

    def _call_stream(self, request: InferenceRequest) -> CallTimes:
        assert self._streams is not None
        sent, first, count, error = monotonic_ns(), 0, 0, ""
        try:
            for response in self._streams.send(request, True):
                if response.error is not None:
                    error = response.error.message
                elif not response.empty:
                    first = first or monotonic_ns()
                    count += 1
        except TritonError as problem:
            error = problem.message
        except ValueError as problem:  # the channel was closed
            error = str(problem)
        return CallTimes(sent, first, monotonic_ns(), responses=count, error=error)
