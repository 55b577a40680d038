"""Clients that leave before they have their answer, with and without `cancel_on_disconnect`."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.conformance.raw_http import RawHTTP, read_reply
from tests.conformance.rules import rule
from tests.frontends.http.asgi_host import AsgiHost
from tests.serving import SCRIPTED_CONFIG, Lab, eventually
from tritonlab import Model
from tritonlab.frontends.http.asgi import AsgiApp
from tritonlab.frontends.http.http_app import HTTPApp, HTTPOptions
from tritonlab.frontends.http.http_server import HTTPServer
from tritonlab.frontends.shared.access import AccessRules
from tritonlab.frontends.shared.request_memory import RequestMemory
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

ENSEMBLE = """
platform: "ensemble"
input { name: "CODE" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }
ensemble_scheduling { step {
  model_name: "script" model_version: -1
  input_map { key: "CODE" value: "CODE" } output_map { key: "OUT" value: "OUT" }
} }
"""
CONFIGS = {
    "script": SCRIPTED_CONFIG,
    "other": SCRIPTED_CONFIG,
    "stream": SCRIPTED_CONFIG + "model_transaction_policy { decoupled: true }",
    "queue": SCRIPTED_CONFIG + "max_batch_size: 1 dynamic_batching {}",
    "sequence": SCRIPTED_CONFIG + "max_batch_size: 1 sequence_batching {}",
}

#: Marks that it runs, goes on until `go` is there or its client has left, and marks whether that has.
WATCH = """
def mark(path, value=""):
    with open(path + ".part", "w") as file:
        file.write(value)
    os.rename(path + ".part", path)

mark({started!r})
while not os.path.exists({go!r}) and not request.is_cancelled():
    time.sleep(0.002)
mark({ended!r}, str(request.is_cancelled()))
"""
ANSWER = "return [answer(OUT=np.float32([[1]] if self.args['model_name'] in ('queue', 'sequence') else [1]))]"
FINAL = "request.get_response_sender().send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)"
#: Waits in a BLS call until `go` is there.
CALL = """
inner = "open({started!r}, 'w').close()\\nwhile not os.path.exists({go!r}): time.sleep(0.002)\\n"
inner += "return [answer(OUT=np.float32([1]))]"
code = pb_utils.Tensor("CODE", np.array([inner.encode()], dtype=object))
pb_utils.InferenceRequest(model_name="other", requested_output_names=["OUT"], inputs=[code]).exec()
with open({ended!r} + ".part", "w") as file:
    file.write(str(request.is_cancelled()))
os.rename({ended!r} + ".part", {ended!r})
"""
FLAGS = {"sequence_id": 5, "sequence_start": True, "sequence_end": True}


class Place:
    """The files by which a test and a model follow each other."""

    def __init__(self, directory: Path) -> None:
        self.started, self.go, self.ended = (directory / name for name in ("started", "go", "ended"))

    def script(self, text: str, end: str = ANSWER) -> str:
        paths = {"started": str(self.started), "go": str(self.go), "ended": str(self.ended)}
        return text.format(**paths) + end


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.go.touch()  # a test that fails leaves no model busy


@pytest.fixture(scope="module")
def models(lab: Lab) -> dict[str, Model]:
    loaded = {name: lab.script(name, text).model for name, text in CONFIGS.items()}
    lab.write("ensemble", "", ENSEMBLE)
    (lab.repository / "ensemble" / "1" / "model.py").unlink()
    return {**loaded, "ensemble": lab.server.load("ensemble")}


@pytest.fixture(params=[True, False], ids=["cancels", "as Triton"])
def cancels(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def http(lab: Lab, models: dict[str, Model], cancels: bool) -> Iterator[RawHTTP]:
    server = HTTPServer(lab.server.core, SharedMemoryManager(), HTTPOptions(cancel_on_disconnect=cancels))
    yield RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}")
    server.stop()


def body(code: str, model: str, action: str) -> bytes:
    if action != "infer":
        return json.dumps({"CODE": code}).encode()
    shape = [1, 1] if model in ("queue", "sequence") else [1]
    entry = {"name": "CODE", "shape": shape, "datatype": "BYTES", "data": [code]}
    return json.dumps({"inputs": [entry], **({"parameters": FLAGS} if model == "sequence" else {})}).encode()


def request(code: str, model: str = "script", action: str = "infer", size: int = 0) -> bytes:
    """Return the bytes of a request, with a body of `size` bytes at least."""
    data = body(code, model, action).ljust(size)
    lines = [f"POST /v2/models/{model}/{action} HTTP/1.1", "Host: localhost", f"Content-Length: {len(data)}", "", ""]
    return "\r\n".join(lines).encode() + data


def leave(connection: socket.socket, http: RawHTTP) -> None:
    """Close a connection; the server has seen it then, as it answers two requests that come later."""
    connection.close()
    for _ in range(2):
        assert http.get("/v2/health/live").status == 200


def seen(place: Place) -> str:
    eventually(place.ended.exists)
    return place.ended.read_text()


def check(place: Place, cancels: bool, *, goes: bool = False) -> None:
    """Check whether the model, which executes, sees that its client has left. `goes`: it only looks after `go`."""
    if goes or not cancels:
        assert not place.ended.exists()
        place.go.touch()
    assert seen(place) == str(cancels)


@rule("6.15.10", "3.10.1")
@pytest.mark.parametrize(
    ("model", "action"),
    [("script", "infer"), ("script", "generate"), ("ensemble", "infer"), ("sequence", "infer")],
)
def test_a_model_sees_that_its_client_has_left(
    http: RawHTTP, place: Place, cancels: bool, model: str, action: str
) -> None:
    connection = http.connect()
    connection.sendall(request(place.script(WATCH), model, action))
    eventually(place.started.exists)
    leave(connection, http)
    check(place, cancels)


@rule("6.15.10")
def test_a_stream_ends_when_its_client_leaves(http: RawHTTP, place: Place, cancels: bool) -> None:
    connection = http.connect()
    connection.sendall(request(place.script(WATCH, FINAL), "stream", "generate_stream"))
    eventually(place.started.exists)
    leave(connection, http)
    check(place, cancels)


@rule("6.15.10")
@pytest.mark.parametrize("resets", [False, True])
def test_behind_a_head_that_came_before(http: RawHTTP, place: Place, cancels: bool, resets: bool) -> None:
    connection = http.connect()
    with connection.makefile("rb") as stream:
        for _ in range(2):
            connection.sendall(request(ANSWER, size=2000))
            assert read_reply(stream).status == 200
    connection.sendall(request(place.script(WATCH), size=2000))
    eventually(place.started.exists)
    if resets:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    leave(connection, http)
    check(place, cancels)


@rule("6.15.10")
@pytest.mark.parametrize("action", ["infer", "generate", "generate_stream"])
def test_large_requests(http: RawHTTP, place: Place, cancels: bool, action: str) -> None:
    model, end = ("stream", FINAL) if action == "generate_stream" else ("script", ANSWER)
    connection = http.connect()
    connection.sendall(request(place.script(WATCH, end) + " " * 50_000, model, action))
    eventually(place.started.exists)
    leave(connection, http)
    check(place, cancels)


@rule("6.15.10")
def test_a_model_that_waits_for_another_sees_it_afterwards(http: RawHTTP, place: Place, cancels: bool) -> None:
    connection = http.connect()
    connection.sendall(request(place.script(CALL)))
    eventually(place.started.exists)
    leave(connection, http)
    check(place, cancels, goes=True)


@rule("6.15.10", "3.10.2")
@pytest.mark.parametrize("model", ["queue", "sequence"])
def test_a_request_in_a_queue_is_dropped(
    http: RawHTTP, lab: Lab, place: Place, cancels: bool, tmp_path: Path, model: str
) -> None:
    (tmp_path / "second").mkdir()
    second = Place(tmp_path / "second")
    with closing(http.connect()) as first, first.makefile("rb") as stream:
        first.sendall(request(place.script(WATCH), model))
        eventually(place.started.exists)
        leaving = http.connect()
        leaving.sendall(request(second.script(WATCH), model))
        eventually(lambda: "pending" in [each["state"] for each in lab.server.requests()])
        second.go.touch()
        leave(leaving, http)
        place.go.touch()
        assert read_reply(stream).status == 200
        first.sendall(request(ANSWER, model))  # its turn is after the second one's
        assert read_reply(stream).status == 200
    assert second.ended.exists() is not cancels


@rule("6.15.10")
def test_requests_behind_the_one_under_way_are_dropped(
    http: RawHTTP, place: Place, cancels: bool, tmp_path: Path
) -> None:
    (tmp_path / "second").mkdir()
    second = Place(tmp_path / "second")
    second.go.touch()
    connection = http.connect()
    connection.sendall(request(place.script(WATCH)) + request(second.script(WATCH)))
    eventually(place.started.exists)
    leave(connection, http)
    check(place, cancels)
    if not cancels:
        eventually(second.ended.exists)
    assert http.post("/v2/models/script/infer", body(ANSWER, "script", "infer")).status == 200
    assert second.ended.exists() is not cancels


@rule("6.15.10")
@pytest.mark.parametrize("action", ["infer", "generate"])
def test_a_client_that_has_only_shut_down_its_side_gets_what_is_answered(
    http: RawHTTP, place: Place, cancels: bool, action: str
) -> None:
    with closing(http.connect()) as connection, connection.makefile("rb") as stream:
        answer = "return [answer(OUT=np.float32([request.is_cancelled()]))]"
        connection.sendall(request(place.script(WATCH, answer), "script", action))
        eventually(place.started.exists)
        connection.shutdown(socket.SHUT_WR)
        assert http.get("/v2/health/live").status == 200
        check(place, cancels)
        reply = read_reply(stream)
        assert (reply.status, stream.read()) == (200, b"")
        found = reply.document["OUT"] if action == "generate" else reply.document["outputs"][0]["data"][0]
        assert found == float(cancels)
    with closing(http.connect()) as connection, connection.makefile("rb") as stream:
        connection.sendall(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert read_reply(stream).status == 200


@rule("6.15.10")
def test_idle_connections_and_answered_requests_are_left_alone(http: RawHTTP, place: Place) -> None:
    place.go.touch()
    with ExitStack() as stack:
        connections = [stack.enter_context(closing(http.connect())) for _ in range(3)]
        for number, connection in enumerate([*connections, *connections]):
            place.ended.unlink(missing_ok=True)
            with connection.makefile("rb") as stream:
                connection.sendall(request(place.script(WATCH)))
                assert read_reply(stream).status == 200, number
            assert seen(place) == "False"


@rule("6.15.10")
@pytest.mark.parametrize(
    ("model", "action"), [("script", "infer"), ("script", "generate"), ("stream", "generate_stream")]
)
def test_behind_a_host_that_speaks_asgi(
    lab: Lab, models: dict[str, Model], place: Place, cancels: bool, model: str, action: str
) -> None:
    app = HTTPApp(lab.server.core, SharedMemoryManager(), HTTPOptions(cancel_on_disconnect=cancels))
    host = AsgiHost(AsgiApp(app, AccessRules(), RequestMemory(1 << 20)))
    code = place.script(WATCH, FINAL if model == "stream" else ANSWER)

    async def run() -> None:
        gone = asyncio.Event()
        answer = asyncio.ensure_future(
            host.request("POST", f"/v2/models/{model}/{action}", body(code, model, action), gone=gone)
        )
        while not place.started.exists():
            await asyncio.sleep(0.002)
        gone.set()
        for _ in range(5):
            await asyncio.sleep(0)
        if not (cancels or action == "generate_stream"):
            place.go.touch()
        await answer

    asyncio.run(run())
    app.close()
    # a stream is cancelled by ASGI's disconnect whatever the option
    assert seen(place) == str(cancels or action == "generate_stream")
