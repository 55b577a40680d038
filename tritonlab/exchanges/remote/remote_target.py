"""The target of load tests of a remote model.

It sends request after request over one HTTP connection for each client, or over one gRPC channel, and measures each;
`http_link` and `grpc_link` send single requests.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from queue import SimpleQueue
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import httptools

from ...core.inference.infer_request import InferenceRequest
from ...core.status import TritonError, UnsupportedError
from ...tools.measure.load_testing.call_log import CallLog
from ...tools.measure.load_testing.request_mix import Lane, ModelInputs, RequestMix
from ..http_document import request_body
from .http_link import HttpLink, error_text, model_path

if TYPE_CHECKING:
    from .grpc_link import GrpcLink

_RECEIVE = 1 << 18

#: The most threads that send the requests of an open loop: so many can be under way at once, later requests wait.
_MOST_THREADS = 256

#: A request, and when it is due; 0: at once.
_Job = tuple[InferenceRequest, int]
_Open = dict[int, InferenceRequest]


class RemoteTarget:
    """A target with a thread for each request under way, like as many clients.

    Guarantees: a request is counted as outstanding from `start`, or from when its client sends it, to its end.
    """

    def __init__(self, link: HttpLink | GrpcLink, name: str, version: str) -> None:
        self._link, self._name, self._version = link, name, version
        self.place = f"{link.protocol} {link.address}"
        try:
            config: Mapping[str, Any] | None = link.config(name, version)
        except TritonError:  # a server that has none
            config = None
        self.inputs = ModelInputs(name, link.metadata(name, version), config)
        if self.inputs.decoupled and isinstance(link, HttpLink):
            raise UnsupportedError("HTTP has one response for each request; use gRPC for a decoupled model")
        self._log = CallLog()
        self._bodies = EncodedBodies(())
        self._callers: list[Caller] = []
        self._open: _Open = {}
        #: the jobs of an open loop: by lane for sequences, whose requests are sent one after the other
        self._queues: dict[int, SimpleQueue[_Job | None]] = {}
        self._threads = 0

    def statistics(self) -> Mapping[str, Any] | None:
        try:
            return self._link.statistics(self._name, self._version)
        except TritonError:
            return None

    def open(self, log: CallLog, mix: RequestMix) -> None:
        self._log, self._open, self._queues, self._threads = log, {}, {}, 0
        self._bodies, self._callers = EncodedBodies(mix.fixed), []
        if not isinstance(self._link, HttpLink):
            from .grpc_calls import GrpcCalls

            self._callers = [GrpcCalls(self._link, self._bodies, self.inputs.decoupled)]

    def _caller(self) -> Caller:
        """Return the caller of a further thread: over HTTP each has a connection, over gRPC all share one channel."""
        if isinstance(self._link, HttpLink):
            self._callers.append(HttpCaller(self._link, self._bodies))
        return self._callers[-1]

    def keep(self, lanes: Sequence[Lane], mix: RequestMix, halt: threading.Event) -> None:
        problems: list[BaseException] = []
        threads = [
            threading.Thread(
                target=self._client, args=(lane, mix, halt, self._caller(), problems), name="client", daemon=True
            )
            for lane in lanes
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if problems:
            raise problems[0]

    def _client(
        self, lane: Lane, mix: RequestMix, halt: threading.Event, caller: Caller, problems: list[BaseException]
    ) -> None:
        try:
            _work(_until_halted(lane, mix, halt, self._open), caller, self._log, self._open)
        except BaseException as problem:  # a function that makes inputs raised
            problems.append(problem)
            halt.set()

    def start(self, request: InferenceRequest, due: int, lane: Lane) -> None:
        self._open[id(request)] = request
        number = lane.number if self.inputs.sequences else 0
        jobs = self._queues.get(number)
        if jobs is None:
            jobs = self._queues[number] = SimpleQueue()
            self._worker(jobs)
        elif not self.inputs.sequences and self._threads < min(len(self._open), _MOST_THREADS):
            self._worker(jobs)
        jobs.put((request, due))

    def _worker(self, jobs: SimpleQueue[_Job | None]) -> None:
        self._threads += 1
        arguments = (iter(jobs.get, None), self._caller(), self._log, self._open)
        threading.Thread(target=_work, args=arguments, name="load test client", daemon=True).start()

    def outstanding(self) -> int:
        return len(self._open)

    def abandon(self) -> int:
        left = len(self._open)
        for jobs in self._queues.values():
            for _ in range(self._threads):
                jobs.put(None)
        for caller in self._callers:
            caller.close()
        return left


def _until_halted(lane: Lane, mix: RequestMix, halt: threading.Event, under_way: _Open) -> Iterator[_Job]:
    while not halt.is_set():
        request = mix.request(lane)
        under_way[id(request)] = request
        yield request, 0
    if (last := mix.last(lane)) is not None:
        yield last, 0


def _work(jobs: Iterable[_Job], caller: Caller, log: CallLog, under_way: _Open) -> None:
    """Send requests, one after the other, and log them."""
    for request, due in jobs:
        *times, text = caller.call(request)
        error = log.error_number(text) if text else 0
        under_way.pop(id(request), None)
        log.add((due or times[0], *times, error, request.batch_size))


class Caller(Protocol):
    """The calls of one thread to a model, one request at a time."""

    def call(self, request: InferenceRequest) -> CallTimes:
        """Send a request and wait for its answer. An error is part of the result."""

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

    def call(self, request: InferenceRequest) -> CallTimes:
        message = self._bodies.encode(request, self._message)
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
