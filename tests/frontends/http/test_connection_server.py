"""Connections of a server whose application is the test's: order, ends, and what goes wrong."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.conformance.raw_http import RawHTTP, read_reply
from tests.serving import SOON, eventually, in_threads
from tritonlab.frontends.http.connection_server import ConnectionServer
from tritonlab.frontends.http.reply import CutOffError, HttpReply, WriteWatch
from tritonlab.frontends.http.request_parser import Request
from tritonlab.frontends.shared.request_memory import RequestMemory


class App:
    """An application that answers with the path, once `go_on` is set for paths with `held`."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.arrived = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.gone = threading.Event()

    async def __call__(self, request: Request) -> HttpReply:
        path = request.path.decode()
        self.begun.append(path)
        self.arrived.release()
        if "held" in path:
            request.call_when_gone(self.gone.set)
            while not self.go_on.is_set() and not self.gone.is_set():
                await asyncio.sleep(0.001)
        if "wrong" in path:
            raise ValueError("mine")
        if "events" in path:
            return HttpReply(kind=b"text/event-stream", events=self._events("cut" in path, "late" in path))
        return HttpReply(body=path.encode())

    async def _events(self, cut: bool, late: bool) -> AsyncIterator[bytes]:
        for number in range(3):
            yield b"event %d" % number
        if cut:
            raise CutOffError
        if late:
            raise ValueError("mine")


@contextmanager
def serving(**options: Any) -> Iterator[tuple[App, ConnectionServer, RawHTTP]]:
    app = App()
    server = ConnectionServer(app, "test", **options)
    http = RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}")
    try:
        yield app, server, http
    finally:
        app.go_on.set()
        server.stop(SOON)


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def test_requests_behind_one_that_takes_long_wait_and_come_in_order() -> None:
    with serving() as (app, _, http), closing(http.connect()) as connection, connection.makefile("rb") as stream:
        connection.sendall(get("/held") + b"".join(get(f"/{number}") for number in range(500)))
        assert app.arrived.acquire(timeout=SOON)
        assert http.get("/other").body == b"/other"
        assert app.begun == ["/held", "/other"]
        app.go_on.set()
        assert [read_reply(stream).body for _ in range(501)] == [b"/held", *(b"/%d" % number for number in range(500))]


def test_it_is_busy_while_a_request_comes_or_is_answered() -> None:
    with serving() as (app, server, http), closing(http.connect()) as connection, connection.makefile("rb") as stream:
        connection.sendall(get("/a"))
        assert read_reply(stream).body == b"/a"
        eventually(lambda: not server.is_busy())
        connection.sendall(get("/held", "Content-Length: 2") + b"1")
        eventually(server.is_busy)
        connection.sendall(b"2")
        assert app.arrived.acquire(timeout=SOON) and app.arrived.acquire(timeout=SOON)
        assert server.is_busy()
        app.go_on.set()
        assert read_reply(stream).body == b"/held"
        eventually(lambda: not server.is_busy())


def test_a_word_to_go_on_comes_when_it_is_the_requests_turn() -> None:
    with serving() as (app, _, http), closing(http.connect()) as connection, connection.makefile("rb") as stream:
        connection.sendall(get("/held") + get("/a", "Content-Length: 1", "Expect: 100-continue", method="POST"))
        assert app.arrived.acquire(timeout=SOON)
        app.go_on.set()
        assert [read_reply(stream).status for _ in range(2)] == [200, 100]
        connection.sendall(b"x")
        assert read_reply(stream).body == b"/a"


def test_a_word_to_go_on_comes_for_a_large_body_too() -> None:
    with serving() as (app, _, http), closing(http.connect()) as connection, connection.makefile("rb") as stream:
        app.go_on.set()
        connection.sendall(post("/a", MB, "Expect: 100-continue"))
        assert read_reply(stream).status == 100
        connection.sendall(bytes(MB))
        assert read_reply(stream).body == b"/a"


def test_paths_are_as_they_were_sent_without_what_does_not_belong_to_them() -> None:
    with serving() as (_, _, http):
        for sent, path in (("/a%20b", "/a%20b"), ("/a?b=/c", "/a"), ("http://localhost/a/b?c", "/a/b"), ("//a", "//a")):
            assert http.send(get(sent)).body.decode() == path


def test_head_has_no_body() -> None:
    with serving() as (_, _, http), closing(http.connect()) as connection, connection.makefile("rb") as stream:
        connection.sendall(get("/one", method="HEAD") + get("/two"))
        lines = [stream.readline() for _ in range(4)]
        assert lines[0] == b"HTTP/1.1 200 OK\r\n" and b"Content-Length: 4\r\n" in lines and lines[3] == b"\r\n"
        assert read_reply(stream).body == b"/two"


def test_events_come_in_chunks_and_the_connection_goes_on() -> None:
    with serving() as (_, _, http), closing(http.connect()) as connection, connection.makefile("rb") as stream:
        connection.sendall(get("/events") + get("/two"))
        assert read_reply(stream).chunks == (b"event 0", b"event 1", b"event 2")
        assert read_reply(stream).body == b"/two"


@pytest.mark.parametrize("path", ["/events/cut", "/events/late"])
def test_events_that_are_cut_off_end_the_connection_without_their_end(path: str) -> None:
    defects: list[Exception] = []

    def defect(error: Exception) -> HttpReply:
        defects.append(error)
        return HttpReply(500)

    with serving(defect=defect) as (_, _, http), closing(http.connect()) as connection:
        connection.sendall(get(path))
        received = b""
        while piece := connection.recv(1 << 16):
            received += piece
        assert received.endswith(b"7\r\nevent 2\r\n")
    assert [str(error) for error in defects] == ["mine"] * (path == "/events/late")


def test_a_defect_is_reported_and_ends_nothing() -> None:
    errors: list[str] = []

    def defect(error: Exception) -> HttpReply:
        errors.append(str(error))
        return HttpReply(500, b"failed")

    with serving(defect=defect) as (_, _, http), closing(http.connect()) as connection:
        connection.sendall(get("/wrong") + get("/two"))
        with connection.makefile("rb") as stream:
            replies = [read_reply(stream) for _ in range(2)]
    assert [(reply.status, reply.body) for reply in replies] == [(500, b"failed"), (200, b"/two")]
    assert errors == ["mine"]


def test_who_goes_is_noticed_and_what_waits_behind_is_dropped() -> None:
    with serving() as (app, _, http):
        with closing(http.connect()) as connection:
            connection.sendall(get("/held") + get("/two"))
            assert app.arrived.acquire(timeout=SOON)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert app.gone.wait(SOON)
        assert http.get("/other").body == b"/other"
        assert "/two" not in app.begun


def test_the_end_of_a_clients_bytes_is_noticed_where_it_means_that_it_has_left() -> None:
    for cancels in (True, False):
        with serving(cancel_on_disconnect=cancels) as (app, _, http), closing(http.connect()) as connection:
            connection.sendall(get("/held") + get("/two"))
            assert app.arrived.acquire(timeout=SOON)
            connection.shutdown(socket.SHUT_WR)
            for _ in range(2):
                assert http.get("/other").body == b"/other"
            assert app.gone.is_set() is cancels
            app.go_on.set()
            with connection.makefile("rb") as stream:
                assert read_reply(stream).body == b"/held"
                assert stream.read().endswith(b"/two") is not cancels
            assert app.begun.count("/two") == (not cancels)


def test_a_client_that_leaves_before_its_request_begins() -> None:
    """The end of its bytes comes with them, before the application has said what is to happen then."""
    with serving(cancel_on_disconnect=True) as (app, _, http), closing(http.connect()) as connection:
        connection.sendall(get("/held"))
        connection.shutdown(socket.SHUT_WR)
        assert app.gone.wait(SOON)
        with connection.makefile("rb") as stream:
            assert read_reply(stream).body == b"/held"


def test_events_for_a_client_that_has_left_end_without_their_end() -> None:
    for cancels in (True, False):
        with serving(cancel_on_disconnect=cancels) as (app, _, http), closing(http.connect()) as connection:
            connection.sendall(get("/held/events"))
            assert app.arrived.acquire(timeout=SOON)
            connection.shutdown(socket.SHUT_WR)
            for _ in range(2):
                http.get("/other")
            app.go_on.set()
            with connection.makefile("rb") as stream:
                assert stream.read().endswith(b"0\r\n\r\n") is not cancels


@pytest.mark.parametrize("reads", [True, False])
def test_a_watch_sees_begin_and_end_whether_the_client_reads_or_not(reads: bool) -> None:
    events: list[str] = []
    over = threading.Event()

    async def app(request: Request) -> HttpReply:
        watch = WriteWatch(lambda: events.append("begin"), lambda: (events.append("end"), over.set())[0])
        return HttpReply(body=b"x", more=[bytes(16 << 20)], watch=watch)

    server = ConnectionServer(app, "test")
    http = RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}")
    with closing(http.connect()) as connection:
        connection.sendall(get("/"))
        if reads:
            with connection.makefile("rb") as stream:
                assert len(read_reply(stream).body) == (16 << 20) + 1
    assert over.wait(SOON)
    assert events == ["begin", "end"]
    server.stop(0)


# the end


def test_stop_lets_requests_under_way_end_and_takes_no_more() -> None:
    with serving() as (app, server, http), closing(http.connect()) as connection:
        connection.sendall(get("/held") + get("/two"))
        assert app.arrived.acquire(timeout=SOON)
        stopping = threading.Thread(target=server.stop, args=(SOON,))
        stopping.start()
        eventually(lambda: refuses(http))
        app.go_on.set()
        with connection.makefile("rb") as stream:
            reply = read_reply(stream)
            assert (reply.body, stream.read()) == (b"/held", b"")
        stopping.join(SOON)
        assert not stopping.is_alive()
    assert app.begun == ["/held"]


def test_stop_cuts_off_what_takes_longer_than_it_may() -> None:
    with serving() as (app, server, http), closing(http.connect()) as connection:
        connection.sendall(get("/held"))
        assert app.arrived.acquire(timeout=SOON)
        server.stop(0.01)
        with pytest.raises(ConnectionError), connection.makefile("rb") as stream:
            read_reply(stream)


def test_many_connections_come_and_go() -> None:
    with serving() as (_, server, http):
        assert in_threads(20, lambda number: [http.get(f"/{number}/{i}").body for i in range(20)]) == [
            [b"/%d/%d" % (number, i) for i in range(20)] for number in range(20)
        ]
        eventually(lambda: not server.connections)


def refuses(http: RawHTTP) -> bool:
    try:
        http.connect().close()
    except ConnectionError:
        return True
    return False


# -- the memory of requests

MB = 1 << 20


def post(path: str, size: int, *headers: str) -> bytes:
    return get(path, f"Content-Length: {size}", *headers, method="POST")


def test_a_body_that_is_too_large_is_refused_before_it_is_sent() -> None:
    with serving(memory=RequestMemory(MB)) as (app, _, http):
        for headers in ((), ("Expect: 100-continue",)):
            with closing(http.connect()) as connection, connection.makefile("rb") as stream:
                connection.sendall(post("/a", 10**12, *headers))
                reply = read_reply(stream)
                assert (reply.status, reply.kind) == (413, "application/json")
                assert reply.error.startswith(f"The request has {10**12} bytes, more than the limit of {MB}; '--max-m")
        assert app.begun == []
        assert http.get("/b").body == b"/b"


def test_the_rest_of_a_body_that_is_too_large_is_dropped_and_the_next_request_is_answered() -> None:
    with serving(memory=RequestMemory(MB)) as (_, server, http):
        with closing(http.connect()) as connection, connection.makefile("rb") as stream:
            for _ in range(3):
                connection.sendall(post("/a", 8 * MB) + bytes(8 * MB) + get("/b"))
                assert read_reply(stream).status == 413
                assert read_reply(stream).body == b"/b"
        server.memory.take(server.memory.total, server.memory.total)


def test_a_body_in_chunks_is_refused_when_it_has_become_too_large() -> None:
    with serving(memory=RequestMemory(MB)) as (app, server, http):
        with closing(http.connect()) as connection, connection.makefile("rb") as stream:
            connection.sendall(get("/a", "Transfer-Encoding: chunked", method="POST"))
            reply = None
            chunk = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
            for _ in range(64):
                connection.sendall(chunk)
            reply = read_reply(stream)  # while the client still sends
            assert reply.status == 413 and "bytes, more than the limit" in reply.error
            connection.sendall(b"0\r\n\r\n" + get("/b"))
            assert read_reply(stream).body == b"/b"
        assert app.begun == ["/b"]
        server.memory.take(server.memory.total, server.memory.total)


def test_one_that_is_too_large_behind_another_is_refused_in_its_turn() -> None:
    with serving(memory=RequestMemory(MB)) as (app, _, http):
        with closing(http.connect()) as connection, connection.makefile("rb") as stream:
            connection.sendall(get("/held") + post("/a", 2 * MB) + bytes(2 * MB) + get("/b"))
            assert app.arrived.acquire(timeout=SOON)
            app.go_on.set()
            assert [read_reply(stream).status for _ in range(3)] == [200, 413, 200]
        assert app.begun == ["/held", "/b"]


def test_all_bodies_together_take_no_more_than_twice_that() -> None:
    size = MB - 1000
    with serving(memory=RequestMemory(MB)) as (_, server, http):
        holding = [http.connect() for _ in range(2)]
        for connection in holding:
            connection.sendall(post("/a", size) + bytes(size - 1))

        def status() -> tuple[int, str]:
            with closing(http.connect()) as connection, connection.makefile("rb") as stream:
                connection.sendall(post("/b", size) + bytes(size))
                reply = read_reply(stream)
                return reply.status, reply.body.decode()

        eventually(lambda: status()[0] == 503)
        assert "bytes that they may take together" in status()[1]
        assert http.get("/c").body == b"/c"  # a small one passes
        for connection in holding:
            connection.close()
        eventually(lambda: status() == (200, "/b"))
        eventually(lambda: not server.connections)
        server.memory.take(server.memory.total, server.memory.total)
