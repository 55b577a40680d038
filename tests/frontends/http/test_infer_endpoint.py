"""Answers that the event loop itself reads for its clients, and what that must not change."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.raw_http import RawHTTP, Reply, read_reply
from tests.models import executes
from tests.serving import Lab, Script, config, eventually, in_threads, instances
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.observe.instrument import Instrument
from tritonlab.frontends.http.http_app import HTTPOptions
from tritonlab.frontends.http.http_server import HTTPServer
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

#: Answers with what the first model answers that it calls.
CALLS = executes(
    "inputs = [request.inputs()[0] for request in requests]\n"
    'calls = [pb_utils.InferenceRequest(model_name="script", requested_output_names=["OUT"], inputs=[each])\n'
    "         for each in inputs]\n"
    "return [pb_utils.InferenceResponse([call.exec().output_tensors()[0]]) for call in calls]"
)
ECHO = "return [answer(OUT=np.float32([%d])) for _ in requests]"


class Answered(Instrument):
    """An instrument that records the thread on which each answer of a model came."""

    def __init__(self, model: str) -> None:
        self.threads: list[str] = []
        self._model = model

    def response_sent(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        if request.model_name == self._model:
            self.threads.append(threading.current_thread().name)


@pytest.fixture
def script(lab: Lab) -> Script:
    return lab.script()


@pytest.fixture
def server(lab: Lab, script: Script) -> Iterator[HTTPServer]:
    server = HTTPServer(lab.server.core, SharedMemoryManager(), HTTPOptions())
    yield server
    server.stop()


@pytest.fixture
def http(server: HTTPServer) -> RawHTTP:
    return RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}")


@pytest.fixture
def answered(lab: Lab) -> Iterator[Answered]:
    instrument = Answered("script")
    lab.server.core.instruments.add(instrument)
    yield instrument
    lab.server.core.instruments.remove(instrument)


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Path]:
    """Yield a file; requests of `waiting` end when it is gone."""
    file = tmp_path / "hold"
    file.touch()
    yield file
    file.unlink(missing_ok=True)


def waiting(hold: Path, value: int) -> str:
    return f"while os.path.exists({str(hold)!r}): time.sleep(0.005)\n" + ECHO % value


class Client:
    """A connection for several requests."""

    def __init__(self, http: RawHTTP) -> None:
        self._socket = http.connect()
        self._stream = self._socket.makefile("rb")

    def send(self, code: str, model: str = "script") -> None:
        entry = {"name": "CODE", "shape": [1], "datatype": "BYTES", "data": [code]}
        body = json.dumps({"inputs": [entry]}).encode()
        head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        self._socket.sendall(head.encode() + body)

    def read(self) -> Reply:
        return read_reply(self._stream)

    def infer(self, code: str, model: str = "script") -> Any:
        self.send(code, model)
        return data(self.read())

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def data(reply: Reply) -> list[float]:
    assert reply.status == 200, reply.body
    found: list[float] = reply.document["outputs"][0]["data"]
    return found


def test_answers_to_clients_of_the_network_come_on_the_event_loop(http: RawHTTP, answered: Answered) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(Client(http))) for _ in range(8)]
        for round_ in range(5):
            for number, client in enumerate(clients):
                client.send(ECHO % (8 * round_ + number))
            assert [data(client.read()) for client in clients] == [[8 * round_ + n] for n in range(8)]
    assert answered.threads == ["tritonlab http"] * 40


def test_callers_in_the_kernel_and_over_the_network_get_their_own_answers(http: RawHTTP, script: Script) -> None:
    def infer_fifty(number: int) -> list[float]:
        if number % 2:
            return [float(script(ECHO % (100 * number + n))["OUT"][0]) for n in range(50)]
        with closing(Client(http)) as client:
            return [client.infer(ECHO % (100 * number + n))[0] for n in range(50)]

    assert in_threads(6, infer_fifty) == [[100.0 * number + n for n in range(50)] for number in range(6)]


def test_a_slow_model_holds_up_nobody(http: RawHTTP, hold: Path) -> None:
    with closing(Client(http)) as slow, closing(Client(http)) as quick:
        quick.infer(ECHO % 1)
        slow.send(waiting(hold, 2))
        quick.send(ECHO % 3)
        assert http.request("GET", "/v2/health/live").status == 200
        hold.unlink()
        assert (data(slow.read()), data(quick.read())) == ([2], [3])


def test_what_a_model_asks_another_is_not_read_by_the_event_loop(http: RawHTTP, lab: Lab, answered: Answered) -> None:
    """The link reader polls for the messages of both models, for which the event loop has no time."""
    caller = lab.load("calls", CALLS, config("CODE STRING 1", "OUT FP32 -1"))
    with closing(Client(http)) as client:
        for number in range(3):
            assert client.infer(ECHO % number, "calls") == [number]
    assert answered.threads == ["tritonlab link reader"] * 3
    stub = instances(caller)[0].stub
    assert stub is not None and stub.link.reader is None
    lab.server.unload("calls")


def test_a_stub_that_dies_fails_its_request_and_the_next_one_is_answered(http: RawHTTP, script: Script) -> None:
    with closing(Client(http)) as client, closing(Client(http)) as other:
        assert other.infer(ECHO % 1) == [1]
        for _ in range(2):
            client.send("os.kill(os.getpid(), signal.SIGKILL)")
            reply = client.read()
            assert reply.status == 500 and "is not healthy" in reply.error
            eventually(script.model.ready)
            assert other.infer(ECHO % 2) == [2]


def test_a_stub_that_dies_between_two_requests(http: RawHTTP, script: Script) -> None:
    with closing(Client(http)) as client:
        assert client.infer(ECHO % 1) == [1]
        before = script.pid
        script.instance.stub.process.kill()  # type: ignore[union-attr]
        eventually(lambda: script.pid != before and script.model.ready())
        assert client.infer(ECHO % 2) == [2]


def test_a_server_that_stops_leaves_the_stub_to_the_link_reader(server: HTTPServer, script: Script, hold: Path) -> None:
    client = Client(RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}"))
    with closing(client):
        for number in range(3):
            assert client.infer(ECHO % number) == [number]
        client.send(waiting(hold, 3))
        stub = script.instance.stub
        assert stub is not None
        eventually(lambda: script.instance.inflight and stub.link.reader is not None)
        server.stop(0)  # cuts the request off
        assert stub.link.reader is None and script.instance.inflight
        hold.unlink()
        assert script(ECHO % 4)["OUT"].tolist() == [4]
        eventually(lambda: not script.instance.inflight)


def test_a_client_that_goes_gets_nothing_and_the_next_is_answered(http: RawHTTP, script: Script, hold: Path) -> None:
    with closing(Client(http)) as stays:
        with closing(Client(http)) as leaves:
            assert [leaves.infer(ECHO % n) for n in range(2)] == [[0], [1]]
            leaves.send(waiting(hold, 2))
            eventually(lambda: script.instance.inflight)
        stays.send(ECHO % 3)
        hold.unlink()
        assert data(stays.read()) == [3]
    eventually(lambda: not script.instance.inflight)


def test_a_connection_that_is_used_until_the_server_stops_is_closed_by_its_last_reply(
    server: HTTPServer, script: Script, hold: Path
) -> None:
    client = Client(RawHTTP("lab", f"127.0.0.1:{server.start('127.0.0.1', 0)}"))
    with closing(client):
        assert [client.infer(ECHO % number) for number in range(2)] == [[0], [1]]
        client.send(waiting(hold, 2))
        eventually(lambda: script.instance.inflight)
        stopping = threading.Thread(target=server.stop, args=(60,))
        stopping.start()
        eventually(lambda: server.stopping)
        hold.unlink()
        reply = client.read()
        assert data(reply) == [2] and reply.headers["connection"] == "close"
        stopping.join(60)
        assert not stopping.is_alive()
