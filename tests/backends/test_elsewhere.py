"""Models that are borrowed from a real server, and their recorded answers."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.backends.in_process import in_process
from tests.backends.onnx_models import write
from tests.conformance.reference import ReferenceServer, missing
from tests.conformance.rules import rule
from tests.serving import DECOUPLED, SOON, config, eventually
from tritonlab import Server
from tritonlab.core.status import ModelLoadError, NotFoundError, TritonError, UnavailableError
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints
from tritonlab.server.models.backends import SHIPPED

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

SAME = """
import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            inputs = {each.name(): each.as_numpy() for each in request.inputs()}
            number, text = inputs["NUMBER"], inputs["TEXT"]
            if number[0] < 0:
                error = pb_utils.TritonError("negative", pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse([], error))
                continue
            if number[0] > 1000:
                time.sleep(0.2)
            fields = f"{request.request_id()} {request.correlation_id()} {request.flags()} {request.parameters()}"
            outputs = [
                pb_utils.Tensor("DOUBLE", number * 2),
                pb_utils.Tensor("SHOUT", np.array([each.upper() for each in text], np.object_)),
                pb_utils.Tensor("SAID", np.array([fields], np.object_)),
            ]
            responses.append(pb_utils.InferenceResponse(outputs))
        return responses
"""
COUNT = """
import threading, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            thread = threading.Thread(target=self.count, args=(request, request.get_response_sender()))
            thread.daemon = True
            thread.start()

    def count(self, request, sender):
        number = int(request.inputs()[0].as_numpy()[0])
        for each in range(number):
            if sender.is_cancelled():
                open(%r, "w").close()
                break
            time.sleep(0.001 if number < 100 else 0.05)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("EACH", np.array([each], np.int32))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
#: A sequence adds up what it got.
SUM = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            sequence = request.correlation_id()
            start = request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
            number = pb_utils.get_input_tensor_by_name(request, "NUMBER").as_numpy()
            self.sums[sequence] = number + (0 if start else self.sums[sequence])
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SUM", self.sums[sequence])]))
        return responses
"""
#: Waits its turn on the server as long as its queue and the request allow.
QUEUED = """
import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        until = time.monotonic() + float(requests[0].inputs()[0].as_numpy()[0][0])
        while time.monotonic() < until:
            if requests[0].is_cancelled():
                open(%r, "w").close()
                break
            time.sleep(0.01)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("DONE", each.inputs()[0].as_numpy())]) for each in requests]
"""
QUEUE = """max_batch_size: 1 dynamic_batching { default_queue_policy { timeout_action: REJECT
  default_timeout_microseconds: 60000000 allow_timeout_override: true max_queue_size: 1 } }"""
#: Calls borrowed models: the stream of one, and the answer of another.
CALLER = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("TOTAL", self.total(each))]) for each in requests]

    def total(self, request):
        number = pb_utils.get_input_tensor_by_name(request, "N")
        call = pb_utils.InferenceRequest(model_name="count", inputs=[number], requested_output_names=["EACH"])
        parts = [each.output_tensors()[0].as_numpy()[0] for each in call.exec(decoupled=True) if each.output_tensors()]
        text = pb_utils.Tensor("TEXT", np.array([b"x"], object))
        inputs = [pb_utils.Tensor("NUMBER", np.array(parts, np.int32)), text]
        call = pb_utils.InferenceRequest(model_name="same", inputs=inputs, requested_output_names=["DOUBLE"])
        return np.array([call.exec().output_tensors()[0].as_numpy().sum()], np.int32)
"""
PIPELINE = """platform: "ensemble"
input { name: "NUMBER" data_type: TYPE_INT32 dims: -1 } input { name: "TEXT" data_type: TYPE_STRING dims: -1 }
output { name: "TWICE" data_type: TYPE_INT32 dims: -1 }
ensemble_scheduling { step [
  { model_name: "same" model_version: -1 input_map { key: "NUMBER" value: "NUMBER" }
    input_map { key: "TEXT" value: "TEXT" } output_map { key: "DOUBLE" value: "once" } },
  { model_name: "same" model_version: -1 input_map { key: "NUMBER" value: "once" }
    input_map { key: "TEXT" value: "TEXT" } output_map { key: "DOUBLE" value: "TWICE" } }
] }
"""
SEQUENCES = """sequence_batching { control_input { name: "START" control { kind: CONTROL_SEQUENCE_START
  int32_false_true: [ 0, 1 ] } } }"""


class Borrowed:
    """A real server, and one of ours that borrows its models."""

    def __init__(self, place: Path) -> None:
        self.place = place
        models, self.models, self.cancelled = place / "models", place / "project" / "models", place / "cancelled"
        tensors = ("NUMBER INT32 -1; TEXT STRING -1", "DOUBLE INT32 -1; SHOUT STRING -1; SAID STRING 1")
        write(models, "same", {"model.py": SAME}, config(*tensors, count=2))
        count = config("N INT32 1", "EACH INT32 1", DECOUPLED)
        write(models, "count", {"model.py": COUNT % str(self.cancelled)}, count)
        sums = config("NUMBER INT32 1", "SUM INT32 1", "max_batch_size: 2", SEQUENCES)
        write(models, "sums", {"model.py": SUM}, sums)
        write(
            models, "queued", {"model.py": QUEUED % str(self.cancelled)}, config("SECONDS FP32 1", "DONE FP32 1", QUEUE)
        )
        for name in ("same", "count", "sums", "queued"):
            write(self.models, name, {}, 'backend: "tensorrtllm"')
        write(self.models, "caller", {"model.py": CALLER}, config("N INT32 1", "TOTAL INT32 1"))
        write(self.models, "pipeline", {}, PIPELINE)
        (place / "scratch").mkdir()
        self.real = ReferenceServer(models, place / "scratch", ["--model-control-mode=none"])

    def choice(self, **more: Any) -> dict[str, Any]:
        return {"use": "borrow", "server": self.real.grpc, "directory": str(self.place / "taken"), **more}

    def server(self, **more: Any) -> Server:
        choices = {"tensorrtllm": self.choice(**more)}
        return Server(self.models, model_control_mode="explicit", startup_models=["*"], backends=choices)


@pytest.fixture(scope="module")
def borrowed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Borrowed]:
    borrowed = Borrowed(tmp_path_factory.mktemp("borrowed"))
    yield borrowed
    borrowed.real.stop()


@pytest.fixture(scope="module")
def server(borrowed: Borrowed) -> Iterator[Server]:
    with borrowed.server(record=True, timeout=20) as server:
        yield server


def text(*words: str) -> Any:
    return np.array([word.encode() for word in words], np.object_)


def numbers(*values: int) -> Any:
    return np.array(values, np.int32)


def answers(server: Server, name: str, inputs: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    responses = server.model(name).infer(inputs=inputs, **fields)
    return [{key: each.numpy().tolist() for key, each in response.outputs.items()} for response in responses]


@rule("2.17.2")
def test_config_and_metadata_are_the_servers(server: Server) -> None:
    config = server.model("same").config()
    assert [(each["name"], each["data_type"], each["dims"]) for each in config["input"]] == [
        ("NUMBER", "TYPE_INT32", [-1]),
        ("TEXT", "TYPE_STRING", [-1]),
    ]
    assert [each["name"] for each in config["output"]] == ["DOUBLE", "SHOUT", "SAID"]
    assert config["backend"] == "tensorrtllm"
    assert server.model("count").config()["model_transaction_policy"]["decoupled"]
    sums = server.model("sums").config()
    assert sums["max_batch_size"] == 2 and "sequence_batching" not in sums


@rule("2.17.2")
def test_requests_reach_the_server_with_all_they_say(server: Server) -> None:
    inputs = {"NUMBER": numbers(3, 4), "TEXT": text("a", "")}
    (found,) = answers(server, "same", inputs, request_id="r7", parameters={"s": "v", "i": 5, "b": True})
    assert (found["DOUBLE"], found["SHOUT"]) == ([6, 8], [b"A", b""])
    fields = found["SAID"][0].decode()
    assert fields.startswith("r7 0 0 {") and json.loads(fields.split(" ", 3)[3]) == {"s": "v", "i": 5, "b": True}
    with pytest.raises(TritonError, match=r"^negative$") as caught:
        answers(server, "same", {**inputs, "NUMBER": numbers(-1)})
    assert caught.value.code.name == "INVALID_ARG"


@rule("2.17.2")
def test_streams_and_requests_that_overlap(server: Server) -> None:
    assert [each["EACH"] for each in answers(server, "count", {"N": numbers(3)}) if each] == [[0], [1], [2]]
    slow, started = {"NUMBER": numbers(2000), "TEXT": text("a")}, time.perf_counter()
    threads = [threading.Thread(target=answers, args=(server, "same", slow)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.perf_counter() - started < 10  # 0.2 s each, at the same time, as far as the machine is free


@rule("2.17.2")
def test_sequences(server: Server) -> None:
    for sequence in (5, 6):
        assert add_up(server, sequence) == [[[sequence]], [[3 * sequence]], [[6 * sequence]]]


def add_up(server: Server, sequence: int, correlation_id: int = 0) -> list[Any]:
    """Return the sums of a sequence of three numbers, its multiples of 1, 2 and 3."""
    found = []
    for number, flags in ((1, 1), (2, 0), (3, 2)):
        inputs = {"NUMBER": np.array([[number * sequence]], np.int32)}
        found += answers(server, "sums", inputs, correlation_id=correlation_id or sequence, flags=flags)
    return [each["SUM"] for each in found]


@rule("2.17.2")
def test_a_cancelled_request_is_cancelled_there(server: Server, borrowed: Borrowed) -> None:
    responses = server.model("count").infer(inputs={"N": numbers(100_000)})
    next(responses)
    responses.cancel()
    eventually(borrowed.cancelled.exists)


@rule("2.17.2")
def test_bls_calls_and_ensembles_reach_the_server(server: Server) -> None:
    assert answers(server, "caller", {"N": numbers(4)}) == [{"TOTAL": [2 * (0 + 1 + 2 + 3)]}]
    inputs = {"NUMBER": numbers(3, 4), "TEXT": text("x")}
    assert answers(server, "pipeline", inputs) == [{"TWICE": [12, 16]}]


@rule("2.17.2")
def test_the_timeout_of_a_request_counts_in_the_servers_queue(server: Server) -> None:
    """A refusal of the server is an error with its own text: it is still there."""

    def infer(seconds: float, outcome: list[Any], **fields: Any) -> None:
        try:
            outcome.append(answers(server, "queued", {"SECONDS": np.array([[seconds]], np.float32)}, **fields))
        except TritonError as error:
            outcome.append(error)

    first: list[Any] = []
    second: list[Any] = []
    third: list[Any] = []
    slow = threading.Thread(target=infer, args=(1.5, first))
    slow.start()
    time.sleep(0.5)
    waiting = threading.Thread(target=infer, args=(0, second), kwargs={"timeout": 200_000})
    waiting.start()
    time.sleep(0.1)
    infer(0, third)  # the queue is full
    for thread in (slow, waiting):
        thread.join(SOON)
    assert first == [[{"DONE": [[1.5]]}]]
    (late,), (full,) = second, third
    assert (late.message, late.code.name) == ("Request timeout expired", "UNAVAILABLE")
    assert full.message.endswith("Exceeds maximum queue size") and full.code.name == "UNAVAILABLE"


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Any]:
    options = EndpointOptions(http=False, grpc_port=0, metrics=False)
    with (
        Endpoints(server.core, options) as endpoints,
        grpc.insecure_channel(endpoints.grpc) as channel,
    ):
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def message(model: str, name: str, array: Any) -> Any:
    request = service_pb2.ModelInferRequest(model_name=model, raw_input_contents=[array.tobytes()])
    datatype = {"int32": "INT32", "float32": "FP32"}[array.dtype.name]
    request.inputs.add(name=name, datatype=datatype, shape=array.shape)
    return request


@rule("2.17.2")
def test_the_deadline_of_a_client_ends_the_request_there(client: Any, borrowed: Borrowed) -> None:
    for call in (
        lambda: list(client.ModelStreamInfer(iter([message("count", "N", numbers(100_000))]), timeout=0.5)),
        lambda: client.ModelInfer(message("queued", "SECONDS", np.array([[60]], np.float32)), timeout=0.5),
    ):
        borrowed.cancelled.unlink(missing_ok=True)
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        eventually(borrowed.cancelled.exists)


def test_a_directory_without_files_borrows_the_whole_config(borrowed: Borrowed, tmp_path: Path) -> None:
    (tmp_path / "same" / "1").mkdir(parents=True)
    with Server(tmp_path, model_control_mode="explicit", backends={"same": borrowed.choice()}) as server:
        assert server.load("same")
        assert [each["name"] for each in server.model("same").config()["output"]] == ["DOUBLE", "SHOUT", "SAID"]
        assert answers(server, "same", {"NUMBER": numbers(7), "TEXT": text("x")})[0]["DOUBLE"] == [14]
    with Server(tmp_path, model_control_mode="explicit") as server, pytest.raises(ModelLoadError):
        server.load("same")  # the control


def test_a_config_that_contradicts_the_servers(borrowed: Borrowed, tmp_path: Path) -> None:
    write(tmp_path, "same", {}, config("NUMBER FP32 -1; TEXT STRING -1", "DOUBLE INT32 -1"))
    choices = {"same": borrowed.choice()}
    with (
        Server(tmp_path, model_control_mode="explicit", backends=choices) as server,
        pytest.raises(ModelLoadError) as caught,
    ):
        server.load("same")
    text = "config.pbtxt of 'same' has the input 'NUMBER' TYPE_FP32 [-1], and where it is borrowed from it is 'NUMBER'"
    assert text in str(caught.value)


@rule("2.17.2", "2.17.3")
def test_recorded_answers_carry_on_when_the_server_is_killed_under_load(borrowed: Borrowed) -> None:
    """Runs last: the server is gone then."""
    known, unknown = {"NUMBER": numbers(7), "TEXT": text("x")}, {"NUMBER": numbers(8), "TEXT": text("x")}
    with borrowed.server(record=True, otherwise="recorded", timeout=20) as server, borrowed.server() as bare:
        for each in (server, bare):
            answers(each, "same", known)
        answers(server, "count", {"N": numbers(3)})
        add_up(server, sequence=6)
        outcomes: list[Any] = []

        def load(borrowing: Server, inputs: dict[str, Any]) -> None:
            until = time.monotonic() + 2
            while time.monotonic() < until:
                try:
                    outcomes.append(answers(borrowing, "same", inputs)[0]["DOUBLE"])
                except TritonError as error:
                    outcomes.append(error)

        streams: list[list[Any]] = []

        def stream(borrowing: Server) -> None:
            parts: list[Any] = []
            try:
                for response in borrowing.model("count").infer(inputs={"N": numbers(100_000)}):
                    parts.append(response)
            except TritonError as error:
                parts.append(error)
            streams.append(parts)

        threads = [threading.Thread(target=load, args=(each, known)) for each in (server, server, bare, bare)]
        threads += [threading.Thread(target=stream, args=(each,)) for each in (server, bare)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        os.killpg(borrowed.real.pid, signal.SIGKILL)
        for thread in threads:
            thread.join(SOON)
        assert not any(thread.is_alive() for thread in threads)
        errors = [each for each in outcomes if isinstance(each, TritonError)]
        assert [14] in outcomes and errors
        head = f"the server {borrowed.real.grpc}, from which 'same' is borrowed, cannot be reached: "
        for error in errors:
            assert isinstance(error, UnavailableError) and error.message.startswith(head) and "\n" not in error.message
        # a stream that has begun cannot be answered by another one
        assert len(streams) == 2 and all(len(parts) > 1 for parts in streams)
        for parts in streams:
            assert isinstance(parts[-1], UnavailableError) and "\n" not in parts[-1].message
            assert parts[-1].message.startswith(head.replace("'same'", "'count'"))
        assert answers(server, "same", known)[0]["DOUBLE"] == [14]
        assert [each["EACH"] for each in answers(server, "count", {"N": numbers(3)})] == [[0], [1], [2]]
        with pytest.raises(NotFoundError) as caught:
            answers(server, "same", unknown)
        assert caught.value.message.startswith(head)
        assert "no answer of 'same' is recorded for this input; the nearest recorded input, " in caught.value.message
        assert caught.value.message.endswith("differs in NUMBER: 1 of 1 elements, by up to 1")
        # what was recorded is enough elsewhere, without the server
    with Server(
        borrowed.models, model_control_mode="explicit", backends={"tensorrtllm": f"recorded:{borrowed.place}/taken"}
    ) as train:
        for name in ("same", "count", "sums"):
            train.load(name)
        assert answers(train, "same", known)[0]["SHOUT"] == [b"X"]
        assert [each["EACH"] for each in answers(train, "count", {"N": numbers(3)})] == [[0], [1], [2]]
        assert add_up(train, sequence=6, correlation_id=99) == [[[6]], [[18]], [[36]]]
    with pytest.raises(ModelLoadError) as caught_load:
        borrowed.server(timeout=1)
    assert "cannot be reached: " in str(caught_load.value) or "has not answered for 1 s" in str(caught_load.value)


def test_recorded_answers_need_no_grpc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc", "tritonclient"):
        monkeypatch.setitem(sys.modules, name, None)  # an import of it fails
    choice = json.dumps({"use": "recorded", "directory": str(tmp_path / "recordings")})
    parameter = f"parameters {{ key: 'TRITONLAB_BACKEND' value: {{ string_value: '{choice}' }} }}"
    write(tmp_path, "m", {}, config("IN INT32 1", "OUT INT32 1", parameter))
    monkeypatch.syspath_prepend(SHIPPED / "elsewhere")
    in_process("elsewhere", tmp_path / "m", monkeypatch).finalize()
