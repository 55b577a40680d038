"""The endpoint on a socket: bad bytes, bad clients, many clients; after each, the next request is answered."""

from __future__ import annotations

import gc
import json
import logging
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from typing import Any

import psutil
import pytest

from tests.conformance.raw_http import JSON_SIZE, RawHTTP, read_reply
from tests.conformance.rules import rule
from tests.models import IDENTITY, executes
from tests.serving import Lab, config, eventually
from tritonlab.core.status import InvalidArgumentError, UnavailableError
from tritonlab.frontends.http.connection import HttpConnection
from tritonlab.frontends.http.connection_server import ConnectionServer
from tritonlab.frontends.http.http_app import HTTPOptions
from tritonlab.frontends.http.http_server import HTTPServer, metrics_app
from tritonlab.frontends.http.request_parser import RequestParser
from tritonlab.frontends.shared.access import AccessRules
from tritonlab.frontends.shared.request_memory import too_much_unread
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

#: Sends `count` responses of `size` bytes: its input.
FLOOD = executes(
    "for request in requests:\n"
    "    count, size = request.inputs()[0].as_numpy().tolist()\n"
    "    sender = request.get_response_sender()\n"
    '    text = np.array([b"x" * size], dtype=object)\n'
    "    for _ in range(count):\n"
    "        if request.is_cancelled():\n"
    "            break\n"
    '        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", text)]))\n'
    "    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)"
)
DECOUPLED = "model_transaction_policy { decoupled: true }"


@pytest.fixture(scope="module")
def http(lab: Lab) -> Iterator[RawHTTP]:
    lab.load("identity", IDENTITY, config("IN FP32 -1", "OUT FP32 -1"))
    lab.load("flood", FLOOD, config("IN INT32 2", "OUT STRING 1", DECOUPLED))
    server = HTTPServer(lab.server.core, SharedMemoryManager(), HTTPOptions())
    yield RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}")
    server.stop()


def document(count: int, binary: bool = False) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": "IN", "shape": [count], "datatype": "FP32"}
    if binary:
        return {"inputs": [{**entry, "parameters": {"binary_data_size": 4 * count}}]}
    return {"inputs": [{**entry, "data": list(range(count))}]}


def answers(http: RawHTTP) -> bool:
    return bool(http.infer("identity", document(3)).document["outputs"][0]["data"] == [0, 1, 2])


def post(body: bytes, *headers: str, path: str = "/v2/models/identity/infer") -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode() + body


# bad bytes


@pytest.mark.parametrize(
    "data",
    [
        b"GARBAGE\r\n\r\n",
        b"\0" * 100,
        b"\x16\x03\x01\x02\0\x01",  # a TLS hello
        post(b"{}", "Content-Length: abc"),
        post(b"{}", "Content-Length: -5"),
        post(b"{}", "Content-Length: 2", "Transfer-Encoding: chunked"),
        post(b"zz\r\n", "Transfer-Encoding: chunked"),
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ],
    ids=["garbage", "nul", "tls", "no number", "negative", "two lengths", "no chunk", "long path"],
)
def test_what_is_no_http_ends_the_connection_only(http: RawHTTP, data: bytes) -> None:
    with closing(http.connect()) as connection:
        connection.sendall(data)
        with connection.makefile("rb") as stream:
            assert read_reply(stream).status in (400, 404)
    assert answers(http)


@pytest.mark.parametrize("sent", [b"", b"{", b'{"inputs":['])
def test_a_body_that_ends_too_early_is_nobodys_request(http: RawHTTP, sent: bytes) -> None:
    for length in (500, 2**20, 2**25):
        with closing(http.connect()) as connection:
            connection.sendall(post(sent, f"Content-Length: {length}"))
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""
    assert answers(http)


@rule("6.3.5")
@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\nX"])
def test_a_head_without_end_costs_no_memory(http: RawHTTP, start: bytes) -> None:
    used = psutil.Process().memory_info().rss
    with closing(http.connect()) as connection:
        with suppress(ConnectionError):
            connection.sendall(start)
            for _ in range(100):
                connection.sendall(b"x" * (1 << 20))
            pytest.fail("it is read")
        with suppress(ConnectionError), connection.makefile("rb") as stream:  # or its end is lost with the connection
            assert read_reply(stream).status == 400
    assert psutil.Process().memory_info().rss - used < 20 << 20


def test_headers_behind_a_body_are_skipped(http: RawHTTP, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[bytes] = []
    take = RequestParser.on_message_complete

    def on_message_complete(self: RequestParser) -> None:
        names.extend(self._names)
        take(self)

    monkeypatch.setattr(RequestParser, "on_message_complete", on_message_complete)
    body = json.dumps(document(1)).encode()
    reply = http.send(post(b"%x\r\n%b\r\n0\r\nX: y\r\nZ: x\r\n\r\n" % (len(body), body), "Transfer-Encoding: chunked"))
    assert reply.document["outputs"][0]["data"] == [0]
    assert b"Host" in names and not {b"X", b"Z"} & {*names}


def test_a_lying_length_costs_no_memory(http: RawHTTP) -> None:
    before = psutil.Process().memory_info().rss
    with ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(closing(http.connect()))
            connection.sendall(post(b"{", f"Content-Length: {2**40}"))
        for shape in ([2**40], [2**31, 2**31], [2**62, 1]):
            entry = {"name": "IN", "shape": shape, "datatype": "FP32", "data": [1]}
            assert http.infer("identity", {"inputs": [entry]}).status in (400, 500)
        assert answers(http)
    assert psutil.Process().memory_info().rss - before < 50 << 20


@rule("6.3.5")
def test_a_deep_document_is_refused(http: RawHTTP) -> None:
    for body in (b"[" * 5_000_000, b'{"a":' * 1_000_000, b'{"inputs":' + b"[" * 1000 + b"]" * 1000 + b"}"):
        for path in ("infer", "generate"):
            reply = http.post(f"/v2/models/identity/{path}", body)
            assert (reply.status, reply.error) == (400, "JSON nesting depth exceeds maximum allowed limit (100)")
    assert answers(http)


@rule("6.3.5")
def test_a_document_that_is_too_large_is_refused(http: RawHTTP) -> None:
    for size, text in ((None, "Request JSON size"), ("0", "Request JSON size")):
        headers = {} if size is None else {JSON_SIZE.replace("-", "_"): size}
        reply = http.post("/v2/models/identity/infer", bytes((64 << 20) + 4), **headers)
        assert reply.status == 400 and reply.error.startswith(text)
    assert answers(http)


def test_a_request_that_fails_is_not_kept_until_the_collector_runs(http: RawHTTP, lab: Lab) -> None:
    lab.load(
        "fails",
        IDENTITY.replace("return [", "raise ValueError('no')\n        return ["),
        config("IN FP32 -1", "OUT FP32 -1"),
    )
    head = json.dumps(document(4 << 20, binary=True)).encode()
    body = head + bytes(16 << 20)
    gc.collect()
    gc.disable()
    try:
        before = psutil.Process().memory_info().rss
        for _ in range(10):
            assert http.post("/v2/models/fails/infer", body, **{JSON_SIZE: str(len(head))}).status == 500
        assert psutil.Process().memory_info().rss - before < 100 << 20
    finally:
        gc.enable()


# bodies in pieces


def test_a_body_in_chunks_and_one_that_trickles_in(http: RawHTTP) -> None:
    body = json.dumps(document(3)).encode()
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(body[i : i + 7]), body[i : i + 7]) for i in range(0, len(body), 7))
    reply = http.send(post(chunks + b"0\r\n\r\n", "Transfer-Encoding: chunked"))
    assert reply.document["outputs"][0]["data"] == [0, 1, 2]
    with closing(http.connect()) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in post(body, f"Content-Length: {len(body)}"):
            connection.send(bytes((byte,)))
        with connection.makefile("rb") as stream:
            assert read_reply(stream).document["outputs"][0]["data"] == [0, 1, 2]


@rule("6.3.5")
def test_too_many_chunks_end_the_connection(http: RawHTTP) -> None:
    """The empty chunk at the end is not counted."""
    reply = http.send(post(b"1\r\n \r\n" * 65536 + b"0\r\n\r\n", "Transfer-Encoding: chunked"))
    assert "The document is empty. at 65536" in reply.error
    reply = http.send(post(b"1\r\n \r\n" * 65537 + b"0\r\n\r\n", "Transfer-Encoding: chunked"))
    text = "Chunked request body exceeds maximum of 65536 non-empty chunks. Send fewer or larger HTTP chunks."
    assert (reply.status, reply.error) == (400, text)
    assert answers(http)


def test_a_client_that_waits_for_100_continue(http: RawHTTP) -> None:
    body = json.dumps(document(1)).encode()
    with closing(http.connect()) as connection, connection.makefile("rb") as stream:
        connection.sendall(post(b"", f"Content-Length: {len(body)}", "Expect: 100-continue"))
        assert read_reply(stream).status == 100
        connection.sendall(body)
        assert read_reply(stream).status == 200


def test_requests_sent_before_the_answers_are_answered_in_order(http: RawHTTP) -> None:
    bodies = [json.dumps(document(count)).encode() for count in range(1, 20)]
    with closing(http.connect()) as connection, connection.makefile("rb") as stream:
        connection.sendall(b"".join(post(body, f"Content-Length: {len(body)}") for body in bodies))
        counts = [len(read_reply(stream).document["outputs"][0]["data"]) for _ in bodies]
    assert counts == list(range(1, 20))


@rule("6.5.1")
def test_large_tensors_come_back_as_they_went(http: RawHTTP) -> None:
    count = 3 << 20
    data = struct.pack(f"<{count}f", *range(count))
    head = {**document(count, binary=True), "parameters": {"binary_data_output": True}}
    reply = http.infer("identity", head, data)
    assert reply.body[int(reply.headers[JSON_SIZE.lower()]) :] == data


# clients that are slow, gone, or many


def test_a_slow_reader_of_a_large_answer_gets_it_all(http: RawHTTP) -> None:
    count = 2 << 20
    head = {**document(count, binary=True), "parameters": {"binary_data_output": True}}
    text = json.dumps(head).encode()
    with closing(http.connect()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        length = f"Content-Length: {len(text) + 4 * count}"
        connection.sendall(post(text + bytes(4 * count), f"{JSON_SIZE}: {len(text)}", length))
        assert answers(http)  # meanwhile
        with connection.makefile("rb") as stream:
            assert len(read_reply(stream).body) > 4 * count


@pytest.fixture
def strict(lab: Lab, http: RawHTTP) -> Iterator[RawHTTP]:
    """Yield an endpoint that keeps 1 MB of responses for a client."""
    server = HTTPServer(lab.server.core, SharedMemoryManager(), HTTPOptions(max_unread_size=1 << 20))
    yield RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}")
    server.stop()


def test_one_response_may_be_larger_than_what_may_wait(strict: RawHTTP) -> None:
    sent = {"IN": [1, 3 << 20]}
    assert len(strict.post("/v2/models/flood/generate", sent).document["OUT"]) == 3 << 20
    events = strict.post("/v2/models/flood/generate_stream", sent).body
    assert len(json.loads(events.removeprefix(b"data: "))["OUT"]) == 3 << 20


def test_a_client_that_reads_no_events_loses_its_stream(strict: RawHTTP) -> None:
    http = strict
    body = json.dumps({"IN": [100_000, 100_000]}).encode()
    with closing(http.connect()) as connection:
        connection.sendall(post(body, f"Content-Length: {len(body)}", path="/v2/models/flood/generate_stream"))
        eventually(lambda: http.post("/v2/models/flood/generate", {"IN": [1, 3]}).document.get("OUT") == "xxx")
        received, end = 0, b""
        while piece := connection.recv(1 << 20):
            received += len(piece)
            end = (end + piece)[-500:]
    assert received < 100 << 20  # of 10 GB
    text = json.dumps({"error": too_much_unread(1 << 20)}, separators=(",", ":")).encode()
    assert end.endswith(b"data: %b\n\n\r\n" % text)


def test_a_connection_that_is_reset_is_forgotten(http: RawHTTP) -> None:
    def lost() -> list[HttpConnection]:
        gc.collect()
        return [each for each in gc.get_objects() if type(each) is HttpConnection and each._parser._parser is None]

    for _ in range(5):
        with closing(http.connect()) as connection:
            connection.sendall(f"GET /v2/health/live HTTP/1.1\r\nHost: {http.address}\r\n\r\n".encode())
            with connection.makefile("rb") as stream:
                assert read_reply(stream).status == 200
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    eventually(lambda: not lost())


def test_a_client_that_goes_before_all_its_requests_are_answered_is_no_defect(http: RawHTTP, lab: Lab) -> None:
    request = f"GET /v2/health/live HTTP/1.1\r\nHost: {http.address}\r\n\r\n".encode()
    for _ in range(30):
        with closing(http.connect()) as connection:
            connection.sendall(request * 100)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    for _ in range(30):  # what the server has of the others is through
        assert http.get("/v2/health/live").status == 200
    assert not [record.text for record in lab.server.logs() if "an HTTP request failed" in record.text]


def test_a_thousand_idle_connections(http: RawHTTP) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(closing(http.connect())) for _ in range(1000)]
        assert answers(http)
        for connection in idle[::100]:
            connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with connection.makefile("rb") as stream:
                assert read_reply(stream).status == 200
    assert answers(http)


def test_many_clients_at_once(http: RawHTTP) -> None:
    results: list[bool] = []
    threads = [threading.Thread(target=lambda: results.append(answers(http))) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [True] * 40


# start and stop


def test_a_port_that_is_taken_is_refused_by_name(lab: Lab, http: RawHTTP) -> None:
    other = HTTPServer(lab.server.core, SharedMemoryManager(), HTTPOptions())
    with pytest.raises(UnavailableError, match=f"^Socket '{http.address}' already in use"):
        other.start("127.0.0.1", int(http.address.rpartition(":")[2]))
    other.stop()


def test_options_that_cannot_be_are_refused(lab: Lab) -> None:
    for options in (HTTPOptions(header_forward_pattern="("), HTTPOptions(restricted_api={"nothing": ("k", "v")})):
        with pytest.raises(InvalidArgumentError):
            HTTPServer(lab.server.core, SharedMemoryManager(), options)


@rule("6.10.1")
def test_shared_memory_is_off_unless_it_is_allowed(http: RawHTTP) -> None:
    text = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
    place = {"shared_memory_region": "r", "shared_memory_byte_size": 4}
    entry = {"name": "IN", "shape": [1], "datatype": "FP32", "parameters": place}
    for reply in (
        http.get("/v2/systemsharedmemory/status"),
        http.get("/v2/cudasharedmemory/region/r/status"),
        http.post("/v2/systemsharedmemory/region/r/register", {"key": "/k", "byte_size": 4}),
        http.post("/v2/systemsharedmemory/unregister"),
        http.infer("identity", {"inputs": [entry]}),
        http.infer("identity", {**document(1), "outputs": [{"name": "OUT", "parameters": place}]}),
    ):
        assert (reply.status, reply.error) == (501, text)


def test_a_stopped_server_listens_no_more(lab: Lab) -> None:
    server = HTTPServer(lab.server.core, SharedMemoryManager(), HTTPOptions())
    http = RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}")
    assert answers(http)
    with closing(http.connect()) as idle:
        server.stop()
        assert idle.recv(1) == b""
    with pytest.raises(OSError):
        http.get("/v2")


def test_a_client_without_the_token_is_refused_before_its_body_is_there(lab: Lab) -> None:
    server = HTTPServer(lab.server.core, SharedMemoryManager(), HTTPOptions(access=AccessRules(token="s3cret")))
    http = RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}")
    body = json.dumps(document(1)).encode()
    with closing(http.connect()) as connection, connection.makefile("rb") as stream:
        connection.sendall(post(b"", f"Content-Length: {len(body)}", "Expect: 100-continue"))
        assert read_reply(stream).status == 401
        connection.sendall(body)  # which belongs to it, and is nobody's
        connection.sendall(post(body, f"Content-Length: {len(body)}", "Authorization: Bearer s3cret"))
        assert read_reply(stream).document["outputs"][0]["data"] == [0]
    server.stop()


def test_a_defect_is_answered_without_a_traceback(lab: Lab, http: RawHTTP, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab.server.core, "server_metadata", lambda: 1 / 0)
    reply = http.get("/v2")
    assert (reply.status, reply.error) == (500, "unexpected error: ZeroDivisionError: division by zero")
    assert "an HTTP request failed at" in lab.server.logs()[-1].text


def test_nothing_is_logged_on_the_root_logger(http: RawHTTP, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert answers(http)
        http.get("/nowhere")
    assert caplog.records == []


@pytest.fixture
def port() -> Iterator[int]:
    server = ConnectionServer(metrics_app(lambda: "nv_one 1\n"), "metrics")
    yield server.start("127.0.0.1", 0)
    server.stop(1)


def fetch(port: int, method: str, path: str) -> tuple[int, str, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("content-type") or "", answer.read().decode()
    finally:
        connection.close()


@rule("5.13.5")
@pytest.mark.parametrize("path", ["/metrics", "/metrics/", "/metrics?name=x"])
def test_get_shows_the_metrics(port: int, path: str) -> None:
    assert fetch(port, "GET", path) == (200, "text/plain; charset=utf-8", "nv_one 1\n")


@rule("5.13.5")
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_but_get(port: int, method: str) -> None:
    assert fetch(port, method, "/metrics") == (405, "text/plain", '{"error":"Method Not Allowed"}')


@rule("5.13.5")
def test_another_path_shows_nothing(port: int) -> None:
    assert fetch(port, "GET", "/") == (200, "text/plain; charset=utf-8", "")


def test_the_server_ends_and_frees_its_port() -> None:
    before = threading.active_count()
    server = ConnectionServer(metrics_app(str), "metrics")
    port = server.start("127.0.0.1", 0)
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics")
    connection.getresponse().read()  # the connection stays open
    server.stop(10)
    server.stop(10)
    connection.close()
    eventually(lambda: threading.active_count() <= before)
    with pytest.raises(ConnectionRefusedError):
        fetch(port, "GET", "/metrics")
