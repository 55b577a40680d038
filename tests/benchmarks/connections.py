"""Many connections at once: how many requests a second a server answers, and what one costs it.

One thread keeps one request under way on each of N connections. It sends bytes that were made before and counts bytes
that come back, so that it costs little of the cores which it shares with the servers: 10 us a request over HTTP. gRPC
is spoken in frames of HTTP/2 for the same reason; grpcio as a client takes 150 us a request, more than the servers.
"""

from __future__ import annotations

import json
import select
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tritonclient.grpc
import tritonclient.http

from .measuring import A, B
from .paced import cpu_seconds, spent, tree

SECONDS = 0.5
ROUNDS = 4
COUNTS = (1, 4, 8, 16)
#: The bytes of one reply are fewer.
_RECEIVED = 1 << 16
#: Seconds after which a request counts as lost.
_PATIENCE = 10


class Busy(NamedTuple):
    """The work of one side: requests a second, and seconds of processor time for each."""

    rate: float
    cpu: float


class Talk(Protocol):
    """A connection on which one request is under way at a time."""

    sock: socket.socket

    def send(self) -> None:
        """Send a request."""

    def receive(self, data: bytes) -> bool:
        """Take bytes that came; return whether the answer is complete."""


class HttpTalk:
    """The same HTTP request again and again; all answers have the size of the first."""

    def __init__(self, address: str, request: bytes) -> None:
        self.sock = _connected(address)
        self._request = request
        self._size = self._received = 0

    def send(self) -> None:
        self._received = 0
        self.sock.sendall(self._request)

    def receive(self, data: bytes) -> bool:
        if not self._received and not data.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(data.decode(errors="replace"))
        self._received += len(data)
        if not self._size:
            head, _, _ = data.lower().partition(b"\r\n\r\n")
            self._size = len(head) + 4 + int(head.partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0])
        return self._received == self._size


class GrpcTalk:
    """The same unary call again and again, each on a stream of its own."""

    _DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
    _ACK = _END_STREAM = 1
    _END_HEADERS = 4

    def __init__(self, address: str, message: bytes) -> None:
        self.sock = _connected(address)
        path = b"/inference.GRPCInferenceService/ModelInfer"
        # HPACK without its tables: `:method: POST`, `:scheme: http`, then names and values as they are
        block = b"\x83\x86" + b"\x04" + _text(path) + b"\x01" + _text(address.encode())
        block += b"\x00" + _text(b"content-type") + _text(b"application/grpc")
        block += b"\x00" + _text(b"te") + _text(b"trailers")
        self._block = block
        self._body = b"\x00" + len(message).to_bytes(4, "big") + message
        self._stream = -1
        self._buffer = b""
        self._answered = False
        room = (4).to_bytes(2, "big") + (0x7FFFFFFF).to_bytes(4, "big")
        self.sock.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + self._frame(self._SETTINGS, 0, 0, room)
            + self._frame(self._WINDOW, 0, 0, (1 << 30).to_bytes(4, "big"))
        )

    def send(self) -> None:
        self._stream += 2
        self._answered = False
        head = self._frame(self._HEADERS, self._END_HEADERS, self._stream, self._block)
        self.sock.sendall(head + self._frame(self._DATA, self._END_STREAM, self._stream, self._body))

    def receive(self, data: bytes) -> bool:
        buffer, at, over = self._buffer + data, 0, False
        while len(buffer) - at >= 9:
            end = at + 9 + int.from_bytes(buffer[at : at + 3], "big")
            if end > len(buffer):
                break
            kind, flags = buffer[at + 3], buffer[at + 4]
            if kind == self._DATA:
                self._answered = True
            elif kind == self._HEADERS and flags & self._END_STREAM:
                if not self._answered:
                    raise RuntimeError(f"a call failed: {buffer[at:end]!r}")
                over = True
            elif kind in (self._SETTINGS, self._PING) and not flags & self._ACK:
                body = buffer[at + 9 : end] if kind == self._PING else b""
                self.sock.sendall(self._frame(kind, self._ACK, 0, body))
            elif kind in (self._RESET, self._GOAWAY):
                raise RuntimeError(f"the server ended it: {buffer[at:end]!r}")
            at = end
        self._buffer = buffer[at:]
        return over

    @staticmethod
    def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
        return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body


def _text(value: bytes) -> bytes:
    return bytes((len(value),)) + value


def _connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def binary_talk(address: str, model: str, shape: Sequence[int]) -> HttpTalk:
    """Return a connection for a request whose tensors are behind the JSON, both ways."""
    inputs = [tritonclient.http.InferInput(name, list(shape), "FP32") for name in ("INPUT0", "INPUT1")]
    for tensor, array in zip(inputs, (A, B), strict=True):
        tensor.set_data_from_numpy(array.reshape(shape))
    body, json_size = tritonclient.http.InferenceServerClient.generate_request_body(inputs)
    return HttpTalk(address, _post(address, model, body, f"Inference-Header-Content-Length: {json_size}\r\n"))


def json_talk(address: str, model: str, shape: Sequence[int]) -> HttpTalk:
    inputs = [
        {"name": name, "datatype": "FP32", "shape": list(shape), "data": array.tolist()}
        for name, array in (("INPUT0", A), ("INPUT1", B))
    ]
    return HttpTalk(address, _post(address, model, json.dumps({"inputs": inputs}).encode()))


def _post(address: str, model: str, body: bytes, headers: str = "") -> bytes:
    head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: {address}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def grpc_talk(address: str, model: str, shape: Sequence[int]) -> GrpcTalk:
    message = tritonclient.grpc.service_pb2.ModelInferRequest(model_name=model)
    for name, array in (("INPUT0", A), ("INPUT1", B)):
        message.inputs.add(name=name, datatype="FP32", shape=list(shape))
        message.raw_input_contents.append(np.ascontiguousarray(array).tobytes())
    return GrpcTalk(address, message.SerializeToString())


class Side:
    """A server and its connections."""

    def __init__(self, pid: int, talks: Sequence[Talk]) -> None:
        self._pid = pid
        self._talks = {talk.sock.fileno(): talk for talk in talks}
        self._epoll = select.epoll()
        for fd in self._talks:
            self._epoll.register(fd, select.EPOLLIN)
        self._found: list[Busy] = []

    def round(self, seconds: float = SECONDS) -> None:
        pids = tree(self._pid)
        before = cpu_seconds(pids)
        started = time.perf_counter()
        count = self._run(started + seconds)
        self._found.append(Busy(count / (time.perf_counter() - started), spent(before) / count))

    def _run(self, end: float) -> int:
        talks, poll = self._talks, self._epoll.poll
        for talk in talks.values():
            talk.send()
        under_way, count, goes_on = len(talks), 0, True
        while under_way:
            events = poll(_PATIENCE)
            if not events:
                raise TimeoutError(f"{under_way} requests were not answered")
            for fd, _ in events:
                talk = talks[fd]
                data = talk.sock.recv(_RECEIVED)
                if not data:
                    raise ConnectionError("the server closed a connection")
                if talk.receive(data):
                    count += 1
                    if goes_on:
                        talk.send()
                    else:
                        under_way -= 1
            goes_on = goes_on and time.perf_counter() < end
        return count

    def found(self) -> Busy:
        """Return the work in all rounds but the first, in which the server warms up."""
        rounds = self._found[1:]
        return Busy(statistics.median(each.rate for each in rounds), statistics.median(each.cpu for each in rounds))

    def close(self) -> None:
        self._epoll.close()
        for talk in self._talks.values():
            talk.sock.close()


def compared(ours: Any, real: Any) -> Iterator[tuple[str, int, Busy, Busy]]:
    """Yield each kind of request with each number of connections: its name, the number, and the work of each side."""
    ways: list[tuple[str, Any, str, Sequence[int]]] = [
        ("HTTP binary", binary_talk, "add_sub", [4]),
        ("HTTP JSON, dynamic batching", json_talk, "add_sub_batch", [1, 4]),
        ("gRPC", grpc_talk, "add_sub", [4]),
    ]
    for name, talk, model, shape in ways:
        for count in COUNTS:
            sides = []
            for each in (ours, real):
                address = each.grpc if talk is grpc_talk else each.http
                sides.append(Side(each.pid, [talk(address, model, shape) for _ in range(count)]))
            for number in range(ROUNDS + 1):
                for side in sides if number % 2 == 0 else reversed(sides):
                    side.round()
            yield name, count, sides[0].found(), sides[1].found()
            for side in sides:
                side.close()
