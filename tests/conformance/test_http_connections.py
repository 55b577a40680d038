"""What clients do with a connection besides sending one request after the other (section 6.1)."""

from __future__ import annotations

import json
import socket
from contextlib import closing

import pytest

from .cases_http import ANSWER, IN, JSON
from .models import CPU, ECHO, config, model
from .raw_http import JSON_SIZE, RawHTTP, Reply, read_reply
from .rules import rule

MODELS = {
    "one": model(ECHO, config("IN FP32 -1", "IN FP32 -1")),
    "rows": model(ECHO, config("IN INT32 -1", "IN INT32 -1", "max_batch_size: 4", CPU)),
}

BODY = json.dumps({"inputs": [IN]}).encode()
#: What Java's HttpClient sends with the first request of a connection, whatever its method, unless set to HTTP/1.1.
H2C = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"


def infer(http: RawHTTP, headers: str = "") -> bytes:
    lines = (
        f"POST /v2/models/one/infer HTTP/1.1\r\nHost: {http.address}\r\nContent-Length: {len(BODY)}\r\n{headers}\r\n"
    )
    return lines.encode() + BODY


def replies(http: RawHTTP, data: bytes, count: int, *, end: bool = False) -> list[Reply]:
    """Return the replies to what is sent at once; `end`: with nothing to follow."""
    with closing(http.connect()) as connection:
        connection.sendall(data)
        if end:
            connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as stream:
            return [read_reply(stream) for _ in range(count)]


@rule("6.3.1")
def test_two_requests_one_after_the_other_and_a_body_in_chunks(http: RawHTTP) -> None:
    chunked = infer(http).replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")
    chunked = chunked.replace(BODY, b"5\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (BODY[:5], len(BODY) - 5, BODY[5:]))
    assert [reply.plain for reply in replies(http, infer(http) + chunked, 2)] == [(200, JSON, ANSWER)] * 2


@rule("6.3.1")
@pytest.mark.parametrize("headers", [H2C, "Connection: Upgrade\r\nUpgrade: websocket\r\n"], ids=["h2c", "websocket"])
def test_a_request_for_another_protocol_is_answered_in_this_one(http: RawHTTP, headers: str) -> None:
    (reply,) = replies(http, infer(http, headers), 1)
    assert reply.plain == (200, JSON, ANSWER)


@rule("6.3.1")
def test_a_client_that_has_sent_everything_is_answered(http: RawHTTP) -> None:
    (reply,) = replies(http, infer(http), 1, end=True)
    assert reply.plain == (200, JSON, ANSWER)


@rule("6.1.1")
@pytest.mark.parametrize(
    ("method", "path", "headers", "reason", "names"),
    [
        ("GET", "/v2/health/live", "", "OK", ""),
        ("GET", "/v2", "", "OK", ""),
        ("GET", "/v2/models/stats", "", "OK", ""),
        ("GET", "/v2/nothing", "", "Not Found", ""),
        ("DELETE", "/v2", "", "Not Allowed", ""),
        ("DELETE", "/v2/health/live", "", "Not Allowed", ""),
        ("POST", "/v2/repository/index", "", "OK", ""),
        ("POST", "/v2/models/one/infer", "", "OK", ""),
        ("POST", "/v2/models/one/infer", "Connection: close", "OK", "Connection"),
        ("POST", "/v2/models/one/infer", "Accept-Encoding: gzip", "OK", "Content-Encoding"),
        ("POST", "/v2/models/one/infer", "Content-Encoding: br", "Not Implemented", "Accept-Encoding"),
        ("POST", "/v2/models/one/infer", f"{JSON_SIZE}: 0", "OK", JSON_SIZE),
        ("POST", "/v2/models/one/generate_stream", "", "OK", "Transfer-Encoding"),
    ],
)
def test_names_of_headers_are_written_as_by_triton(
    http: RawHTTP, method: str, path: str, headers: str, reason: str, names: str
) -> None:
    body = BODY if path.endswith("infer") else b'{"IN":[1]}' if "generate" in path else b""
    if JSON_SIZE in headers:
        body = bytes(4)
    lines = f"{method} {path} HTTP/1.1\r\nHost: {http.address}\r\nContent-Length: {len(body)}\r\n{headers}"
    reply = http.send(f"{lines.rstrip()}\r\n\r\n".encode() + body)
    size = [] if names == "Transfer-Encoding" else ["Content-Length"]
    assert (reply.reason, set(reply.names)) == (reason, {"Content-Type", *size, *names.split()})


@rule("6.1.4")
@pytest.mark.parametrize("path", ["/v2/models/one/infer", "/v2/health/live", "/v2/models/nobody"])
def test_a_client_of_http_1_0_says_whether_the_connection_goes_on(http: RawHTTP, path: str) -> None:
    line, _, rest = infer(http, "Connection: keep-alive\r\n").partition(b"\r\n")
    stays = line.replace(b"/v2/models/one/infer HTTP/1.1", path.encode() + b" HTTP/1.0") + b"\r\n" + rest
    if path != "/v2/models/one/infer":
        stays = stays.replace(b"POST", b"GET").replace(b": %d" % len(BODY), b": 0").removesuffix(BODY)
    with closing(http.connect()) as connection, connection.makefile("rb") as stream:
        found = []
        for _ in range(2):
            connection.sendall(stays)
            found.append(read_reply(stream))
        assert [(reply.protocol, reply.headers["connection"]) for reply in found] == [("HTTP/1.0", "keep-alive")] * 2
        connection.sendall(stays.replace(b"Connection: keep-alive\r\n", b""))
        last = read_reply(stream)
        assert {last.plain, *(reply.plain for reply in found)} == {found[0].plain}
        assert (last.protocol, last.headers.get("connection")) == ("HTTP/1.0", None)
        assert stream.read() == b""


@rule("6.1.4", "6.9.1")
@pytest.mark.parametrize("headers", ["", "Connection: keep-alive\r\n"])
def test_a_client_of_http_1_0_gets_a_stream_that_the_connection_ends(http: RawHTTP, headers: str) -> None:
    """HTTP/1.0 has no chunks; 2.51 sends them, and such a client shows their sizes between the events."""
    body = b'{"IN":[1,2]}'
    lines = f"POST /v2/models/one/generate_stream HTTP/1.0\r\nHost: {http.address}\r\nContent-Length: {len(body)}\r\n"
    (reply,) = replies(http, f"{lines}{headers}\r\n".encode() + body, 1)
    assert (reply.status, reply.protocol, reply.kind) == (200, "HTTP/1.0", "text/event-stream; charset=utf-8")
    assert reply.body == b'data: {"IN":[1.0,2.0],"model_name":"one","model_version":"1"}\n\n'
    if http.side == "lab":
        assert reply.headers.keys() == {"content-type"}


@rule("6.1.4")
@pytest.mark.parametrize("headers", ["Connection: foo, keep-alive\r\n", "Connection: Keep-Alive\r\n"])
def test_a_client_of_http_1_0_may_list_what_it_says_of_the_connection(http: RawHTTP, headers: str) -> None:
    """2.51 knows the header with one word alone, and closes."""
    data = infer(http, headers).replace(b"HTTP/1.1", b"HTTP/1.0")
    if http.side == "real" and "," in headers:
        (reply,) = replies(http, data, 1)
        assert "connection" not in reply.headers
    else:
        assert [reply.headers["connection"] for reply in replies(http, data * 2, 2)] == ["keep-alive"] * 2


@rule("6.3.1")
@pytest.mark.parametrize("before", [1, 2])
def test_what_is_no_request_takes_no_answer_from_those_before_it(http: RawHTTP, before: int) -> None:
    found = replies(http, infer(http) * before + b"GARBAGE\r\n\r\n", before)
    assert [reply.plain for reply in found] == [(200, JSON, ANSWER)] * before


@pytest.mark.parametrize("coding", ["gzip, chunked", "gzip"])
def test_a_body_in_another_transfer_coding_is_no_next_request(http: RawHTTP, coding: str) -> None:
    """Rule 6.15.7: 2.51 answers a body that it cannot decode as a request of its own."""
    hidden = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    head = f"POST /v2/models/one/infer HTTP/1.1\r\nHost: {http.address}\r\nTransfer-Encoding: {coding}\r\n\r\n"
    if http.side == "lab":
        (reply,) = replies(http, head.encode() + hidden, 1)
        assert reply.status == 501
    else:
        answers = replies(http, head.encode() + hidden, 2)
        assert [(reply.status, bool(reply.body)) for reply in answers] == [(200, True), (200, False)]
