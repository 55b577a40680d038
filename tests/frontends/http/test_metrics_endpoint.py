from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator

import pytest

from tests.conformance.rules import rule
from tests.serving import eventually
from tritonlab.frontends.http.connection_server import ConnectionServer
from tritonlab.frontends.http.metrics_endpoint import metrics_app


@pytest.fixture
def port() -> Iterator[int]:
    server = ConnectionServer(metrics_app(lambda: "nv_one 1\n"), "metrics")
    yield server.start("127.0.0.1", 0)
    server.stop(1)


def fetch(port: int, method: str, path: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
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
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics")
    connection.getresponse().read()  # the connection stays open
    server.stop(10)
    server.stop(10)
    connection.close()
    eventually(lambda: threading.active_count() <= before)
    with pytest.raises(ConnectionRefusedError):
        fetch(port, "GET", "/metrics")
