"""Load tests of a server that speaks KServe's protocol, and nothing of Triton's besides."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serving import SOON
from tritonlab.core.status import InternalError, UnsupportedError
from tritonlab.exchanges.remote.remote_server import RemoteModel, connect


class PlainServer(ThreadingHTTPServer):
    """A server that doubles X. While `hold` is set it does not answer; each `refuse` it answers with an error."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.free = threading.Event()
        self.free.set()
        self.came = threading.Semaphore(0)
        self.refuse = False
        self.connections = 0

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    """A handler that closes the connection after each answer, as HTTP/1.0 does."""

    disable_nagle_algorithm = True  # head and body of an answer are two packets
    server: PlainServer

    def do_GET(self) -> None:
        known: dict[str, Any] = {
            "/v2": {"name": "plain", "version": "1", "extensions": []},
            "/v2/health/live": {},
            "/v2/models/m": {
                "name": "m",
                "inputs": [{"name": "X", "datatype": "FP32", "shape": [-1, 2]}],
                "outputs": [],
            },
        }
        self._answer(known.get(self.path, {"error": "no such path"}), 200 if self.path in known else 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.came.release()
        assert self.server.free.wait(SOON)
        if self.server.refuse:
            self._answer({"error": "not today"}, 400)
            return
        (tensor,) = body["inputs"]
        values = [2 * value for value in tensor["data"]]
        self._answer({"model_name": "m", "outputs": [{**tensor, "data": values}]}, 200)

    def _answer(self, document: dict[str, Any], status: int) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a test that was stopped
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def plain() -> Iterator[PlainServer]:
    server = PlainServer()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.free.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def model(plain: PlainServer) -> RemoteModel:
    return connect(plain.address).model("m")


def test_what_the_server_does_not_tell_is_left_empty(model: RemoteModel, tmp_path: Path) -> None:
    result = model.load_test(concurrency=2, batch=3, seconds=0.2, warmup=0)
    (row,) = result.rows
    assert row.requests > 0 and row.errors == {}
    assert row.inferences_per_s == pytest.approx(3 * row.requests_per_s)  # the first -1 is the batch
    assert row.client_send_us > 0 and row.server is None and row.network_us is None
    head, line = result.to_csv(tmp_path / "load.csv").read_text().splitlines()
    facts = dict(zip(head.split(","), line.split(","), strict=True))
    assert facts["Server Queue"] == facts["Server Compute Infer"] == "" and int(facts["p99 latency"]) > 0
    assert "queue" not in result.text()


@pytest.mark.parametrize("load", [{"concurrency": 2}, {"request_rate": 100}])
def test_a_stop_does_not_wait_for_a_server_that_hangs(plain: PlainServer, model: RemoteModel, load: Any) -> None:
    plain.free.clear()
    test = model.load_test(**load, wait=False)
    assert plain.came.acquire(timeout=SOON) and plain.came.acquire(timeout=SOON)
    test.stop()
    assert test.wait(SOON).stopped == "stopped"
    assert test.finished


def test_errors_have_the_text_of_the_server(plain: PlainServer, model: RemoteModel) -> None:
    plain.refuse = True
    (row,) = model.load_test(concurrency=2, window=0.05, warmup=0).rows
    assert list(row.errors) == ["not today"]
    assert row.failed > 0 and row.latency is None


def test_a_function_of_inputs_that_raises_ends_the_test_with_its_error(model: RemoteModel) -> None:
    for load in ({"concurrency": 2}, {"request_rate": 100}):
        with pytest.raises(ZeroDivisionError):
            model.load_test(inputs=lambda number: {"X": [[1 / 0]]}, **load)


def test_inputs_of_a_function_are_sent_as_they_are(model: RemoteModel) -> None:
    result = model.load_test(arrivals=[0, 0.01, 0.02], inputs=lambda number: {"X": np.full((1, 2), number, np.float32)})
    assert result.rows[0].requests == 3 and result.rows[0].errors == {}


def test_a_load_test_over_http_needs_no_grpc(plain: PlainServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)  # an import of it fails
    for name in ("tools.measure.load_testing.grpc_calls", "exchanges.remote.grpc_link"):
        monkeypatch.delitem(sys.modules, f"tritonlab.{name}", raising=False)
    (row,) = connect(plain.address).model("m").load_test(arrivals=[0]).rows
    assert (row.requests, row.errors) == (1, {})


def test_tokens_are_not_counted_over_http(model: RemoteModel) -> None:
    with pytest.raises(UnsupportedError, match="connect to the server's gRPC port"):
        model.load_test(arrivals=[0], output_tokens=lambda outputs: 1)


@pytest.mark.parametrize("load", [{"concurrency": 2}, {"arrivals": [0, 0.01]}])
def test_a_request_that_cannot_be_written_ends_the_test_with_its_error(model: RemoteModel, load: Any) -> None:
    with pytest.raises(InternalError, match="the server takes JSON only"):
        model.load_test(inputs={"X": np.full((1, 2), np.nan, np.float32)}, **load)


def test_a_client_keeps_its_connection(plain: PlainServer, model: RemoteModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Handler, "protocol_version", "HTTP/1.1")
    assert model.metadata()["name"] == "m"
    plain.connections = 0
    (row,) = model.load_test(concurrency=2, seconds=0.2, warmup=0).rows
    # two of clients, and those of metadata, configuration and statistics
    assert row.errors == {} and plain.connections < 20 < row.requests


def test_a_connection_that_the_server_closed_while_it_was_idle_is_opened_again(
    model: RemoteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Handler, "protocol_version", "HTTP/1.1")
    monkeypatch.setattr(_Handler, "timeout", 0.05)  # seconds that it keeps an idle connection
    (row,) = model.load_test(arrivals=[0, 0.4, 0.41]).rows
    assert (row.errors, row.requests) == ({}, 3)
