"""The HTTP application behind a host that speaks ASGI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.models import write_plain
from tests.frontends.http.asgi_host import AsgiHost
from tests.serving import eventually
from tritonlab import Server
from tritonlab.frontends.http.asgi import AsgiApp
from tritonlab.frontends.http.http_app import HTTPApp, HTTPOptions
from tritonlab.frontends.shared.access import AccessRules
from tritonlab.frontends.shared.request_memory import RequestMemory
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

BODY = json.dumps({"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}).encode()
INFER = "/v2/models/double/infer"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = tmp_path_factory.mktemp("asgi") / "models"
    repository.mkdir()
    return write_plain(repository)


@pytest.fixture(scope="module")
def app(log: Path) -> Iterator[AsgiApp]:
    with Server(log.with_name("models"), warm=0) as server:
        http = HTTPApp(server.core, SharedMemoryManager(), HTTPOptions())
        yield AsgiApp(http, AccessRules(token="secret"), RequestMemory(1000))
        http.close()


AUTHORIZED = ((b"host", b"localhost"), (b"Authorization", b"Bearer secret"))


def test_a_body_may_come_in_pieces_and_below_a_root(app: AsgiApp) -> None:
    for pieces, root in ((1 << 30, ""), (7, "/triton")):
        answer = asyncio.run(AsgiHost(app, pieces).request("POST", INFER, BODY, AUTHORIZED, root=root))
        assert (answer.status, answer.json()["outputs"][0]["data"]) == (200, [2, 4])
        assert int(answer.headers[b"content-length"]) == len(answer.body)


def test_the_access_rules_are_applied(app: AsgiApp) -> None:
    answer = asyncio.run(AsgiHost(app).request("POST", INFER, BODY))
    assert answer.status == 401 and b"a token is required" in answer.body
    page = (*AUTHORIZED, (b"origin", b"https://evil.example"))
    assert asyncio.run(AsgiHost(app).request("POST", INFER, BODY, page)).status == 403


def test_a_body_that_takes_too_much_memory_is_refused(app: AsgiApp) -> None:
    for pieces in (1 << 30, 300):
        answer = asyncio.run(AsgiHost(app, pieces).request("POST", INFER, b"x" * 1200, AUTHORIZED))
        assert answer.status == 413 and "more than the limit of 1000" in answer.json()["error"]


def test_a_head_has_no_body(app: AsgiApp) -> None:
    answer = asyncio.run(AsgiHost(app).request("HEAD", "/v2/nothing", b"", AUTHORIZED))
    assert (answer.status, answer.body) == (404, b"")


def test_a_client_that_goes_ends_its_stream(app: AsgiApp, log: Path) -> None:
    path = "/v2/models/stream/generate_stream"
    body = json.dumps({"IN": [100]}).encode()
    answer = asyncio.run(AsgiHost(app).request("POST", path, body, AUTHORIZED, gone_after=3))
    assert answer.body.startswith(b"data: ")
    eventually(lambda: log.read_text() != "")
    sent, _, count = log.read_text().split("\n")[0].partition(" of ")
    assert count == "100" and int(sent) < 50


def test_the_event_loop_of_the_host_reads_the_answers_while_it_is_up(app: AsgiApp) -> None:
    host = AsgiHost(app)
    (live,) = asyncio.run(host.live(("GET", "/v2/health/live", b"")))
    assert live.status == 200


def test_it_speaks_nothing_but_http(app: AsgiApp) -> None:
    with pytest.raises(NotImplementedError, match="'websocket' is not a protocol of Triton's"):
        asyncio.run(app({"type": "websocket"}, None, None))  # type: ignore[arg-type]
