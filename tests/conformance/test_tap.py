"""`tritonlab tap` in front of both servers: unchanged clients, and the capture of their requests."""

from __future__ import annotations

import asyncio
import json
import queue
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as shm

from tests.tap_process import TapProcess
from tritonlab.tools.capture.capture_file import Capture, CapturedRequest

from .models import ADD_SUB, ADD_SUB_CONFIG, CPU, ECHO, config, model
from .raw_http import RawHTTP

REPEAT = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for n in range(int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([n], np.float32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
MODELS = {
    "add_sub": model(ADD_SUB, ADD_SUB_CONFIG),
    "words": model(ECHO, config("IN STRING -1", "IN STRING -1")),
    "repeat": model(REPEAT, config("IN INT32 1", "OUT FP32 1", "model_transaction_policy { decoupled: true }", CPU)),
}
A, B = np.arange(4, dtype=np.float32), np.ones(4, dtype=np.float32)


class Tapped(NamedTuple):
    """A tap in front of one side's HTTP and gRPC."""

    process: TapProcess
    http: str
    grpc: str
    direct: str
    file: Path


@pytest.fixture(scope="module")
def tapped(http: RawHTTP, grpc_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tapped]:
    file = tmp_path_factory.mktemp("tap") / "day.arrow"
    with TapProcess([http.address, grpc_address], file) as process:
        through_http, through_grpc = process.addresses
        yield Tapped(process, through_http, through_grpc, http.address, file)


def inputs(library: Any, a: Any = A) -> list[Any]:
    made = [library.InferInput(name, [4], "FP32") for name in ("INPUT0", "INPUT1")]
    for tensor, array in zip(made, (a, B), strict=True):
        tensor.set_data_from_numpy(array)
    return made


def count(number: int) -> list[Any]:
    tensor = tritonclient.grpc.InferInput("IN", [1], "INT32")
    tensor.set_data_from_numpy(np.array([number], np.int32))
    return [tensor]


def exchange_bytes(address: str, sent: bytes) -> bytes:
    """Send bytes, end the sending side, and return all that comes."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(1 << 16), b""))


def over_http(tapped: Tapped) -> None:
    with tritonclient.http.InferenceServerClient(tapped.http) as client:
        assert client.is_server_live()  # whether it is ready, the models of other modules decide (rule 5.11.9)
        assert client.get_model_metadata("add_sub")["name"] == "add_sub"
        found = client.infer("add_sub", inputs(tritonclient.http), request_id="http")
        assert found.as_numpy("OUTPUT0").tolist() == (A + B).tolist()
        packed = client.infer(
            "add_sub",
            inputs(tritonclient.http),
            request_id="gzip",
            request_compression_algorithm="gzip",
            response_compression_algorithm="deflate",
        )
        assert packed.as_numpy("OUTPUT1").tolist() == (A - B).tolist()
        with pytest.raises(InferenceServerException, match="unknown model"):
            client.infer("missing", inputs(tritonclient.http), request_id="missing")
        region = shm.create_shared_memory_region("tapped", "/tapped", 16)
        try:
            shm.set_shared_memory_region(region, [A])
            client.register_system_shared_memory("tapped", "/tapped", 16)
            a, b = inputs(tritonclient.http)
            a.set_shared_memory("tapped", 16)
            assert client.infer("add_sub", [a, b], request_id="region").as_numpy("OUTPUT0").tolist() == (A + B).tolist()
            client.unregister_system_shared_memory()
        finally:
            shm.destroy_shared_memory_region(region)

    async def run() -> Any:
        async with tritonclient.http.aio.InferenceServerClient(tapped.http) as client:
            return await client.infer("add_sub", inputs(tritonclient.http), request_id="http aio")

    assert asyncio.run(run()).as_numpy("OUTPUT0").tolist() == (A + B).tolist()
    url = f"http://{tapped.http}/v2/models/words"
    done = subprocess.run(
        ["curl", "-sS", "-H", "Transfer-Encoding: chunked", "-d", '{"IN": ["curl"], "x": 1}', f"{url}/generate"],
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert json.loads(done.stdout)["IN"] == "curl"
    streamed = subprocess.run(
        ["curl", "-sSN", "-d", '{"IN": 3}', f"http://{tapped.http}/v2/models/repeat/generate_stream"],
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert streamed.stdout.count(b"data:") == 3


def over_grpc(tapped: Tapped) -> None:
    with tritonclient.grpc.InferenceServerClient(tapped.grpc) as client:
        assert client.is_server_live() and client.get_server_metadata().name
        found = client.infer(
            "add_sub", inputs(tritonclient.grpc), request_id="grpc", priority=1, parameters={"who": "me"}
        )
        assert found.as_numpy("OUTPUT0").tolist() == (A + B).tolist()
        client.infer("add_sub", inputs(tritonclient.grpc), request_id="grpc gzip", compression_algorithm="gzip")
        with pytest.raises(InferenceServerException, match="2 inputs"):
            client.infer("add_sub", inputs(tritonclient.grpc)[:1], request_id="grpc error")
        answers: queue.Queue[Any] = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        for number in (2, 1, 0):
            client.async_stream_infer(
                "repeat", count(number), request_id=f"stream {number}", enable_empty_final_response=True
            )
        for number in range(2):
            client.async_stream_infer("add_sub", inputs(tritonclient.grpc, A + number))
        for _ in range(3 + 3 + 2):
            assert answers.get(timeout=30)[1] is None
        client.stop_stream()

    async def run() -> Any:
        async with tritonclient.grpc.aio.InferenceServerClient(tapped.grpc) as client:
            return await client.infer("add_sub", inputs(tritonclient.grpc), request_id="grpc aio")

    assert asyncio.run(run()).as_numpy("OUTPUT0").tolist() == (A + B).tolist()


def test_clients_and_their_capture(tapped: Tapped) -> None:
    body = json.dumps(
        {"inputs": [{"name": "IN", "datatype": "BYTES", "shape": [1], "data": ["raw"]}], "id": "pipelined"}
    ).encode()
    sent = b"POST /v2/models/words/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    assert exchange_bytes(tapped.http, sent) == exchange_bytes(tapped.direct, sent)
    over_http(tapped)
    over_grpc(tapped)
    report = tapped.process.stop()
    capture = Capture(tapped.file)
    found = {one.exchange.request.request_id: one for one in capture}
    assert capture.left_out == {}, report
    for name in ("http", "gzip", "http aio", "grpc", "grpc gzip", "grpc aio"):
        is_added(found[name])
    assert found["http"].protocol == "http" and found["grpc"].protocol == "grpc"
    assert found["grpc"].exchange.request.priority == 1
    assert found["grpc"].exchange.request.parameters == {"who": "me"}
    assert found["pipelined"].exchange.request.inputs["IN"].numpy().tolist() == [b"raw"]
    assert found["missing"].exchange.error_text.startswith("Request for unknown model: 'missing'")
    assert found["grpc error"].exchange.failed and not found["grpc error"].exchange.outputs
    hidden = found["region"]
    assert hidden.exchange.unsent.startswith("input 'INPUT0' was in the client's shared memory")
    assert set(hidden.withheld) == {"input.INPUT0"} and hidden.exchange.outputs["OUTPUT0"].numpy().tolist() == [
        1,
        2,
        3,
        4,
    ]
    for number in (2, 1, 0):
        exchange = found[f"stream {number}"].exchange
        assert [one["OUT"].tolist() for one in exchange.answers()] == [[n] for n in range(number)]
        assert exchange.answered and not exchange.unanswered
    unnamed = [one for one in capture if not one.exchange.request.request_id]
    generated = [one.exchange for one in unnamed if one.exchange.model in ("words", "repeat")]
    assert [one.request.inputs["IN"].numpy().tolist() for one in generated] == [[b"curl"], [3]]
    assert [[answer["OUT"].tolist() for answer in generated[1].answers()]] == [[[0], [1], [2]]]
    assert generated[0].request.parameters == {"x": 1}
    streamed = [one.exchange for one in unnamed if one.exchange.model == "add_sub"]
    assert [one.request.inputs["INPUT0"].numpy()[0] for one in streamed] == [0, 1]
    assert all(one.unanswered.startswith("several requests") or one.answered for one in streamed)
    assert all(one.exchange.total_ns > 0 for one in capture if one.exchange.arrivals)


def is_added(captured: CapturedRequest) -> None:
    exchange = captured.exchange
    assert exchange.request.inputs["INPUT0"].numpy().tolist() == A.tolist()
    assert exchange.outputs["OUTPUT0"].numpy().tolist() == (A + B).tolist()
    assert exchange.answered and exchange.error is None and not exchange.unsent
