"""What clients do with a connection, over a socket to an application that answers with the request."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.conformance.raw_http import RawHTTP, read_reply
from tritonlab.frontends.http.connection_server import ConnectionServer
from tritonlab.frontends.http.reply import HttpReply
from tritonlab.frontends.http.request_parser import Request

UPGRADE = "Connection: Upgrade\r\nUpgrade: h2c\r\n"


async def echo(request: Request) -> HttpReply:
    """Answer with the path and the body."""
    return HttpReply(body=json.dumps([request.path.decode(), request.body.decode()]).encode())


@pytest.fixture(scope="module")
def http() -> Iterator[RawHTTP]:
    server = ConnectionServer(echo, "echo")
    yield RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}")
    server.stop(0)


def post(path: str, body: str, headers: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{headers}\r\n{body}".encode()


def chunked(path: str, *pieces: str, headers: str = "") -> bytes:
    body = "".join(f"{len(piece):x}\r\n{piece}\r\n" for piece in (*pieces, ""))
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n{headers}\r\n{body}".encode()


def parsed(http: RawHTTP, *pieces: bytes, count: int = 1, end: bool = False) -> list[Any]:
    """Return what is read of `count` requests, sent in these pieces."""
    with closing(http.connect()) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
        if end:
            connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as stream:
            return [read_reply(stream).document for _ in range(count)]


@pytest.mark.parametrize(
    "request_",
    [post("/a", "one two", UPGRADE), chunked("/a", "one", " two", headers=UPGRADE)],
    ids=["length", "chunks"],
)
def test_another_protocol_is_not_spoken(http: RawHTTP, request_: bytes) -> None:
    assert parsed(http, request_) == [["/a", "one two"]]
    for cut in (5, request_.index(b"\r\n\r\n") + 2, len(request_) - 4):
        assert parsed(http, request_[:cut], request_[cut:]) == [["/a", "one two"]]


def test_requests_before_and_behind_one_that_asks_for_another_protocol(http: RawHTTP) -> None:
    requests = post("/2", "two", UPGRADE)
    sent = post("/1", "one") + requests + chunked("/3", "th", "ree") + requests + post("/5", "")
    sent += chunked("/6", headers=UPGRADE)
    expected = [["/1", "one"], ["/2", "two"], ["/3", "three"], ["/2", "two"], ["/5", ""], ["/6", ""]]
    assert parsed(http, sent, count=6) == expected
    assert parsed(http, *[sent[at : at + 7] for at in range(0, len(sent), 7)], count=6) == expected


def test_a_request_without_a_body_that_asks_for_another_protocol(http: RawHTTP) -> None:
    get = f"GET /g HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}\r\n".encode()
    assert parsed(http, get + get + post("/a", "x"), count=3) == [["/g", ""], ["/g", ""], ["/a", "x"]]


def test_any_number_of_requests_to_change_the_protocol(http: RawHTTP) -> None:
    requests = f"GET /g HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}\r\n".encode()
    with closing(http.connect()) as connection, connection.makefile("rb") as stream:
        sender = threading.Thread(target=connection.sendall, args=(requests * 3000,))
        sender.start()
        assert [read_reply(stream).document for _ in range(3000)] == [["/g", ""]] * 3000
        sender.join()


def test_a_client_that_has_sent_all_gets_its_answers_and_then_the_end(http: RawHTTP) -> None:
    for count in (1, 3):
        sent = b"".join(post(f"/{number}", "x") for number in range(count))
        assert parsed(http, sent, count=count, end=True) == [[f"/{number}", "x"] for number in range(count)]
        with pytest.raises(ConnectionError):
            parsed(http, sent, count=count + 1, end=True)


def test_a_client_that_says_no_more_in_the_middle_of_a_body_is_not_waited_for(http: RawHTTP) -> None:
    with pytest.raises(ConnectionError):
        parsed(http, post("/a", "one")[:-1], end=True)


CODINGS = {
    "gzip": "gzip, chunked",
    "gzip-alone": "gzip",
    "two-lines": "gzip\r\nTransfer-Encoding: chunked",
    "identity": "identity",
    "list": ",chunked",
    "upgrade": "gzip, chunked\r\nConnection: Upgrade\r\nUpgrade: h2c",
    "expect": "gzip, chunked\r\nExpect: 100-continue",
}
#: Those that are no HTTP at all (RFC 9112, 6.1 and 6.3).
NO_HTTP = {
    "behind": "chunked\r\nTransfer-Encoding: gzip",
    "twice": "chunked, chunked",
    "length": "gzip\r\nContent-Length: 3",
    "length-too": "chunked\r\nContent-Length: 3",
}


@pytest.mark.parametrize("case", [*CODINGS, *NO_HTTP])
def test_a_body_in_another_transfer_coding_is_refused(http: RawHTTP, case: str) -> None:
    """Triton takes what follows for the next request, which only the client's bytes would say."""
    hidden = post("/hidden", "x")
    sent = chunked("/a", hidden.decode()).replace(b": chunked", f": {(CODINGS | NO_HTTP)[case]}".encode())
    with closing(http.connect()) as connection, connection.makefile("rb") as stream:
        connection.sendall(post("/before", "x") + sent + post("/behind", "x"))
        assert read_reply(stream).document == ["/before", "x"]
        reply = read_reply(stream)
        if case in NO_HTTP:
            assert (reply.status, stream.read()) == (400, b"")
            return
        assert reply.status == 501
        wanted = CODINGS[case].partition("\r\nC")[0].partition("\r\nE")[0].replace("\r\nTransfer-Encoding: ", ", ")
        assert reply.error == (
            f"the request has the Transfer-Encoding '{wanted}', and only 'chunked' is supported; a body that is "
            "compressed needs 'Content-Encoding'"
        )
        assert stream.read() == b""


@pytest.mark.parametrize("coding", ["Chunked", "chunked ", " CHUNKED"])
def test_the_coding_of_chunks_may_be_in_other_letters(http: RawHTTP, coding: str) -> None:
    assert parsed(http, chunked("/a", "one").replace(b" chunked", coding.encode())) == [["/a", "one"]]


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://localhost/a", "localhost", 200),
        ("http://127.0.0.1:8000/a?x#y", "evil.example", 200),
        ("http://evil.example/a", "localhost", 403),
        ("http://evil.example:80/a", "localhost", 403),
        ("http://localhost@evil.example/a", "localhost", 403),
        ("http://[::1].evil.example/a", "localhost", 403),
        ("https://evil.example?/a", "localhost", 403),
    ],
)
def test_a_whole_url_says_the_host(http: RawHTTP, target: str, host: str, status: int) -> None:
    """And the header `Host` does not, as RFC 9112 has it."""
    with closing(http.connect()) as connection, connection.makefile("rb") as stream:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nX: y\r\n\r\n".encode())
        reply = read_reply(stream)
        assert reply.status == status or (reply.status, "." in target.partition("?")[0]) == (400, True)
        if status == 200:
            assert reply.document == ["/a", ""]
