"""Requests whose heads came before on the same connection: they are not parsed, and are answered as if they were."""

from __future__ import annotations

import gzip
import json
import math
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, BinaryIO, TypeAlias

import pytest

from tests.conformance.cases_http import BAD
from tests.conformance.raw_http import JSON_SIZE, RawHTTP, Reply, read_reply
from tests.conformance.rules import rule
from tests.models import executes
from tests.serving import Lab, config
from tritonlab.core.observe.trace_settings import TraceSetting
from tritonlab.frontends.http import connection as connections
from tritonlab.frontends.http import large_work, request_parser
from tritonlab.frontends.http.connection_server import ConnectionServer
from tritonlab.frontends.http.http_app import HTTPOptions
from tritonlab.frontends.http.http_server import HTTPServer
from tritonlab.frontends.http.infer_decoder import InferDecoder
from tritonlab.frontends.shared.access import AccessRules
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager
from tritonlab.ipc.link.wait_policy import SoleSender

#: Returns its input and its parameters.
ECHO = executes(
    "return [\n"
    "    pb_utils.InferenceResponse([\n"
    '        pb_utils.Tensor("OUT", request.inputs()[0].as_numpy()),\n'
    '        pb_utils.Tensor("SAID", np.array([request.parameters().encode()], object)),\n'
    "    ])\n"
    "    for request in requests\n"
    "]"
)
Parsed: TypeAlias = list[connections.HttpConnection]
SIZE = 400  # bytes of a padded document
OUT = {"name": "OUT", "parameters": {"binary_data": False}}


@contextmanager
def serving(lab: Lab, options: HTTPOptions) -> Iterator[RawHTTP]:
    server = HTTPServer(lab.server.core, SharedMemoryManager(), options)
    try:
        yield RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}")
    finally:
        server.stop()


@pytest.fixture(scope="module")
def http(lab: Lab) -> Iterator[RawHTTP]:
    lab.load("echo", ECHO, config("IN FP32 -1", "OUT FP32 -1; SAID STRING 1"))
    with serving(lab, HTTPOptions(header_forward_pattern="^X-")) as http:
        yield http


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Parsed:
    """Return a list that gets the connection of each message that the parser sees."""
    found: Parsed = []
    begin = request_parser.RequestParser.on_message_begin

    def on_message_begin(self: request_parser.RequestParser) -> None:
        found.append(self._take_head.__self__)  # type: ignore[attr-defined]
        begin(self)

    monkeypatch.setattr(request_parser.RequestParser, "on_message_begin", on_message_begin)
    return found


class Connection:
    """A connection for several requests."""

    def __init__(self, http: RawHTTP) -> None:
        self.socket = http.connect()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream: BinaryIO = self.socket.makefile("rb")

    def exchange(self, *requests: bytes) -> Reply:
        """Send requests at once and return the reply to the first."""
        self.socket.sendall(b"".join(requests))
        return self.read()

    def read(self) -> Reply:
        return read_reply(self.stream)

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


@pytest.fixture
def connection(http: RawHTTP, parsed: Parsed) -> Iterator[Connection]:
    with closing(Connection(http)) as made:
        yield made


def infer(document: Any, *headers: str, model: str = "echo", blobs: bytes = b"", version: str = "HTTP/1.1") -> bytes:
    """Return an infer request, its JSON padded to SIZE bytes so that the head does not depend on it."""
    text = document if isinstance(document, str) else json.dumps(document)
    body = text.encode("utf-8", "surrogateescape").ljust(SIZE) + blobs
    lines = [
        f"POST /v2/models/{model}/infer {version}",
        "Host: localhost",
        f"{JSON_SIZE}: {SIZE}",
        f"Content-Length: {len(body)}",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def document(*data: float, **more: Any) -> dict[str, Any]:
    entry = {"name": "IN", "shape": [len(data)], "datatype": "FP32", "data": data}
    return {"inputs": [entry], "outputs": [OUT, {"name": "SAID"}], **more}


def binary(count: int, **more: Any) -> dict[str, Any]:
    entry = {"name": "IN", "shape": [count], "datatype": "FP32", "parameters": {"binary_data_size": 4 * count}}
    return {"inputs": [entry], **more}


def data(reply: Reply) -> list[float]:
    assert reply.status == 200, reply.body
    return list(reply.document["outputs"][0]["data"])


def parameters_of(reply: Reply) -> dict[str, Any]:
    (text,) = reply.document["outputs"][1]["data"]
    return dict(json.loads(text)) if text else {}


# what is answered directly


def test_a_head_that_came_before_is_not_parsed_again(connection: Connection, parsed: Parsed) -> None:
    replies = [connection.exchange(infer(document(value))) for value in (1, 2, 3)]
    assert [data(reply) for reply in replies] == [[1], [2], [3]]
    assert len(parsed) == 1
    assert [reply.headers for reply in replies] == [replies[0].headers] * 3


def test_each_connection_learns_for_itself(http: RawHTTP, parsed: Parsed) -> None:
    for _ in range(2):
        with closing(Connection(http)) as connection:
            assert data(connection.exchange(infer(document(1)))) == [1]
    assert len(parsed) == 2


@rule("6.3.1", "6.3.4")
@pytest.mark.parametrize("bad", [document for document, _ in BAD.values()], ids=BAD.keys())
def test_a_bad_body_gets_the_same_error_as_behind_a_new_head(
    connection: Connection, http: RawHTTP, parsed: Parsed, bad: Any
) -> None:
    with closing(Connection(http)) as fresh:
        expected = fresh.exchange(infer(bad))
    parsed.clear()
    assert data(connection.exchange(infer(document(1)))) == [1]
    assert connection.exchange(infer(bad)) == expected
    assert data(connection.exchange(infer(document(2)))) == [2]
    assert len(parsed) == 1


@rule("6.5.1")
def test_binary_data_behind_a_known_head(connection: Connection, parsed: Parsed) -> None:
    for values in ([1.0, 2.0], [3.0, 4.0]):
        request = infer(binary(2, outputs=[OUT]), blobs=struct.pack("<2f", *values))
        assert data(connection.exchange(request)) == values
    reply = connection.exchange(infer(binary(3), blobs=bytes(8)))
    assert (reply.status, reply.error) == (
        400,
        "unexpected size for input 'IN', expecting 4 additional bytes for model 'echo'",
    )
    assert len(parsed) == 1


def test_a_large_answer_to_a_known_head(connection: Connection, parsed: Parsed) -> None:
    count = 6000  # as JSON, more than is written in one piece
    request = infer(binary(count, outputs=[{"name": "OUT"}]), blobs=b"\x01\x02\x03\x04" * count)
    replies = [connection.exchange(request) for _ in range(3)]
    assert len(replies[0].body) > 1 << 16
    assert replies[1:] == [replies[0]] * 2
    assert len(parsed) == 1


@rule("6.14")
def test_forwarded_headers_of_a_known_head(connection: Connection, parsed: Parsed) -> None:
    request = infer(document(1, parameters={"other": 5}), "X-Who: me")
    assert [parameters_of(connection.exchange(request)) for _ in range(2)] == [{"other": 5, "X-Who": "me"}] * 2
    assert len(parsed) == 1


@rule("6.3.6")
def test_compressed_bodies_of_a_known_head(connection: Connection, parsed: Parsed) -> None:
    body = gzip.compress(json.dumps(document(1)).encode())
    head = f"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    request = f"{head}Content-Encoding: gzip\r\nAccept-Encoding: gzip\r\n\r\n".encode() + body
    for _ in range(2):
        reply = connection.exchange(request)
        assert reply.headers["content-encoding"] == "gzip"
        assert json.loads(gzip.decompress(reply.body))["outputs"][0]["data"] == [1]
    assert len(parsed) == 1


def test_the_head_of_a_large_request_is_not_remembered(connection: Connection, parsed: Parsed) -> None:
    values = [math.sin(value) for value in range(500)]
    body = gzip.compress(json.dumps(document(*values)).encode())
    assert len(body) > large_work.PACKED_AT_ONCE
    head = f"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    for _ in range(2):
        reply = connection.exchange(f"{head}Content-Encoding: gzip\r\n\r\n".encode() + body)
        assert data(reply) == pytest.approx(values)
    assert len(parsed) == 2 and not parsed[0]._known


# answers that come later


@pytest.fixture
def unpolled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no answer be there at once."""
    monkeypatch.setattr(SoleSender, "begin", lambda self, *about: False)


@pytest.mark.usefixtures("unpolled")
def test_an_answer_that_comes_later(connection: Connection, parsed: Parsed) -> None:
    assert [data(connection.exchange(infer(document(value)))) for value in (1, 2, 3)] == [[1], [2], [3]]
    assert len(parsed) == 1


@pytest.mark.usefixtures("unpolled")
def test_requests_behind_one_that_is_answered_later_wait_for_it(
    connection: Connection, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data(connection.exchange(infer(document(0)))) == [0]
    held, infer_now = threading.Event(), lab.server.core.infer
    requests: list[Any] = []

    def hold(request: Any, version: Any) -> None:
        requests.append(request)
        held.set()

    monkeypatch.setattr(lab.server.core, "infer", hold)
    connection.socket.sendall(infer(document(1)))
    assert held.wait(60)
    monkeypatch.undo()
    connection.socket.sendall(infer(document(2)) + infer(document(3)))
    infer_now(requests[0])
    assert [data(connection.read()) for _ in range(3)] == [[1], [2], [3]]
    assert data(connection.exchange(infer(document(4)))) == [4]


# what is parsed after all


def test_a_known_head_in_pieces_or_in_company(connection: Connection, parsed: Parsed) -> None:
    first, second = infer(document(1)), infer(document(2))
    assert data(connection.exchange(first)) == [1]
    assert data(connection.exchange(first, second)) == [1]
    assert data(connection.read()) == [2]
    assert len(parsed) == 3
    for cut in (7, len(first) - SIZE, len(first) - 1):
        connection.socket.sendall(first[:cut])
        assert data(connection.exchange(first[cut:])) == [1]
    assert len(parsed) >= 3
    parsed.clear()
    assert data(connection.exchange(second)) == [2]
    assert parsed == []


@pytest.mark.parametrize(
    "header", ["Connection: close", "Expect: 100-continue", "X-Long: " + 5000 * "x"], ids=["close", "expect", "long"]
)
def test_heads_that_concern_the_connection_or_are_long_are_not_remembered(
    connection: Connection, parsed: Parsed, header: str
) -> None:
    assert connection.exchange(infer(document(1), header)).status in (100, 200)
    assert not parsed[0]._known


@pytest.mark.parametrize("origin", ["https://friend.example", "https://stranger.example"], ids=["friend", "stranger"])
def test_answers_to_pages_say_who_may_read_them(lab: Lab, parsed: Parsed, origin: str) -> None:
    friendly = AccessRules(origins=("https://friend.example",))
    with serving(lab, HTTPOptions(access=friendly)) as http, closing(Connection(http)) as connection:
        assert data(connection.exchange(infer(document(1)))) == [1]
        replies = [connection.exchange(infer(document(1), f"Origin: {origin}")) for _ in range(3)]
    friend = (200, "https://friend.example")
    expected = friend if origin == friend[1] else (403, None)
    assert [(reply.status, reply.headers.get("access-control-allow-origin")) for reply in replies] == [expected] * 3
    assert len(parsed) == (2 if expected is friend else 4)


def test_a_token_is_required_with_every_head(lab: Lab, parsed: Parsed) -> None:
    with serving(lab, HTTPOptions(access=AccessRules(token="s3cret"))) as http, closing(Connection(http)) as connection:
        for sent, status in (("s3cret", 200), ("s3cret", 200), ("other", 401), ("s3cret", 200), ("other", 401)):
            assert connection.exchange(infer(document(1), f"Authorization: Bearer {sent}")).status == status
    assert len(parsed) == 3


def test_what_is_http_1_0_or_chunked_is_not_remembered(http: RawHTTP, parsed: Parsed) -> None:
    with closing(Connection(http)) as connection:
        for _ in range(2):
            reply = connection.exchange(infer(document(1), "Connection: keep-alive", version="HTTP/1.0"))
            assert (reply.status, reply.headers["connection"]) == (200, "keep-alive")
        assert connection.exchange(infer(document(1), version="HTTP/1.0")).status == 200
        with pytest.raises(ConnectionError):
            connection.read()
    body = json.dumps(document(1)).encode()
    head = b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with closing(Connection(http)) as connection:
        for _ in range(2):
            assert data(connection.exchange(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))) == [1]
    assert len(parsed) == 5
    assert not any(one._known for one in parsed)


def test_only_what_succeeded_is_remembered(connection: Connection, parsed: Parsed) -> None:
    for _ in range(2):
        assert connection.exchange(infer(document(1), model="nobody")).status == 404
    assert len(parsed) == 2


def test_a_connection_remembers_a_few_heads(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_HEADS", 2)
    for number in (1, 2, 3, 1, 2):
        assert parameters_of(connection.exchange(infer(document(1), f"X-Number: {number}"))) == {
            "X-Number": str(number)
        }


# what has changed since


def test_a_model_that_is_gone_since(http: RawHTTP, lab: Lab) -> None:
    lab.load("leaves", ECHO, config("IN FP32 -1", "OUT FP32 -1; SAID STRING 1"))
    with closing(Connection(http)) as connection, closing(Connection(http)) as fresh:
        request = infer(document(1), model="leaves")
        assert data(connection.exchange(request)) == [1]
        lab.server.unload("leaves")
        assert connection.exchange(request) == fresh.exchange(request)


@rule("5.14.4")
def test_requests_are_traced_as_soon_as_tracing_starts(connection: Connection, lab: Lab, parsed: Parsed) -> None:
    request = infer(document(1))
    assert data(connection.exchange(request)) == [1]
    lab.server.trace_settings.start(TraceSetting(("TIMESTAMPS",), 1, mode="opentelemetry"))
    try:
        assert data(connection.exchange(request)) == [1]
        assert len(parsed) == 2
    finally:
        lab.server.trace_settings.stop()


def test_a_defect_of_ours_behind_a_known_head(
    connection: Connection, lab: Lab, monkeypatch: pytest.MonkeyPatch, parsed: Parsed
) -> None:
    assert data(connection.exchange(infer(document(1)))) == [1]
    monkeypatch.setattr(InferDecoder, "decode", lambda *args, **options: 1 / 0)
    reply = connection.exchange(infer(document(1)))
    assert (reply.status, reply.error) == (500, "unexpected error: ZeroDivisionError: division by zero")
    assert "an HTTP request failed at" in lab.server.logs()[-1].text
    monkeypatch.undo()
    assert data(connection.exchange(infer(document(1)))) == [1]


# how long a connection and its memory are kept


def test_a_connection_that_was_used_is_not_idle(lab: Lab) -> None:
    server = HTTPServer(lab.server.core, SharedMemoryManager(), HTTPOptions())
    http = RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}")

    def pass_time(connections: ConnectionServer) -> None:
        done = threading.Event()
        assert connections._loop is not None
        connections._loop.call_soon_threadsafe(lambda: (connections.close_idle(), done.set()))
        assert done.wait(60)

    with closing(Connection(http)) as used, closing(Connection(http)) as idle:
        for connection in (used, idle):
            assert data(connection.exchange(infer(document(1)))) == [1]
        pass_time(server)
        assert data(used.exchange(infer(document(2)))) == [2]
        pass_time(server)
        assert data(used.exchange(infer(document(3)))) == [3]
        with pytest.raises(ConnectionError):
            idle.read()
    server.stop()


def test_a_known_head_keeps_no_body(connection: Connection, parsed: Parsed) -> None:
    assert data(connection.exchange(infer(document(1)))) == [1]
    (known,) = parsed[0]._known.values()
    assert known.request.body == b"" and known.request.remember is None
