"""The metrics port of both servers: which methods and paths it answers, and how."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from tritonlab.frontends.http.connection_server import ConnectionServer
from tritonlab.frontends.http.http_server import metrics_app

from .clients import Client
from .lab_client import LabClient
from .real_client import RealClient
from .rules import rule


@pytest.fixture
def place(side: Client) -> Iterator[str]:
    if isinstance(side, RealClient):
        yield side.server.metrics
        return
    assert isinstance(side, LabClient)
    server = ConnectionServer(metrics_app(side.server.core.metrics_text), "metrics")
    yield f"127.0.0.1:{server.start('127.0.0.1', 0)}"
    server.stop(1)


def request(place: str, method: str, path: str) -> tuple[int, str | None, str]:
    connection = http.client.HTTPConnection(place, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("content-type"), answer.read().decode()
    finally:
        connection.close()


@rule("5.13.5")
@pytest.mark.parametrize("path", ["/metrics", "/metrics/"])
def test_get_shows_the_metrics(place: str, path: str) -> None:
    status, kind, text = request(place, "GET", path)
    assert (status, kind) == (200, "text/plain; charset=utf-8")
    assert text.startswith("# HELP nv_")


@rule("5.13.5")
@pytest.mark.parametrize("path", ["/", "/metricsx"])
def test_another_path_shows_nothing(place: str, path: str) -> None:
    assert request(place, "GET", path) == (200, "text/plain; charset=utf-8", "")


@rule("5.13.5")
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/metrics", "/"])
def test_nothing_but_get(place: str, method: str, path: str) -> None:
    assert request(place, method, path) == (405, "text/plain", '{"error":"Method Not Allowed"}')


@rule("5.13.5")
def test_head_is_not_get(place: str) -> None:
    assert request(place, "HEAD", "/metrics") == (405, "text/plain", "")
