"""Requests written as programs, each run as a person would, against tritonlab and against Triton."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http

from tests.models import streams
from tests.serving import NO_PLUGINS, environment
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Arrival, Exchange
from tritonlab.exchanges.snippets import Address, copy_as, failure_test

from .clients import Client
from .raw_http import RawHTTP

ECHO = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]
    def answer(self, request):
        outputs = [pb_utils.Tensor("OUT" + t.name()[2:], t.as_numpy()) for t in request.inputs()]
        fields = {"id": request.request_id(), "parameters": json.loads(request.parameters() or "{}"),
                "correlation": request.correlation_id(), "timeout": request.timeout()}
        outputs.append(pb_utils.Tensor("SAID", np.array([json.dumps(fields, sort_keys=True)], dtype=object)))
        return pb_utils.InferenceResponse(outputs)
"""
REPEAT = streams("np.array([n])", over="x")
TYPES = ["FP32", "INT64", "BOOL", "STRING", "FP16"]
ECHO_CONFIG = 'backend: "python" input [{}] output [{}, {{ name: "SAID" data_type: TYPE_STRING dims: [1] }}]'.format(
    ", ".join(f'{{ name: "IN_{t}" data_type: TYPE_{t} dims: [-1] optional: true }}' for t in TYPES),
    ", ".join(f'{{ name: "OUT_{t}" data_type: TYPE_{t} dims: [-1] }}' for t in TYPES),
)
REPEAT_CONFIG = """
backend: "python" model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: [-1] }
output { name: "OUT" data_type: TYPE_INT32 dims: [1] }
"""
MODELS = {
    "echo": {"config.pbtxt": ECHO_CONFIG, "1/model.py": ECHO},
    "repeat": {"config.pbtxt": REPEAT_CONFIG, "1/model.py": REPEAT},
}
#: A few of each datatype, and more than are written one by one.
VALUES: dict[str, Any] = {
    "FP32": np.array([0.1, -1e-30, 3e38], np.float32),
    "INT64": np.array([1, -(2**62)]),
    "BOOL": np.array([True, False]),
    "STRING": np.array(["it's “quoted”", "", "a\\n\n$HOME"], dtype=object),
    "FP16": np.array([0.5, 65504], np.float16),
}
CASES: dict[str, Any] = {name: {f"IN_{name}": value} for name, value in VALUES.items()}
CASES["many"] = {"IN_FP32": np.linspace(0, 1, 500, dtype=np.float32)}
CASES["bytes"] = {"IN_STRING": np.array([b"\xff\x00\xfe"] * 100, dtype=object)}
CASES["odd floats"] = {"IN_FP32": np.array([np.nan, np.inf, -np.inf], np.float32)}
CASES["empty"] = {"IN_FP32": np.zeros(0, np.float32)}


@pytest.fixture
def address(http: RawHTTP, grpc_address: str) -> Address:
    return Address(http.address, grpc_address)


def make_request(inputs: Mapping[str, Any], model: str = "echo", **more: Any) -> InferenceRequest:
    return InferenceRequest(model, {name: Tensor.from_numpy(value) for name, value in inputs.items()}, **more)


def config_of(client: Client, model: str) -> Mapping[str, Any]:
    found = client.config(model)
    assert isinstance(found, dict)
    return found


def run(*command: str, cwd: Path, **environment: str) -> str:
    found = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def program(kind: str, request: InferenceRequest, client: Client, address: Address, folder: Path) -> str:
    """Run the program of a request, and return what it prints."""
    snippet = copy_as(kind, Exchange(request), config_of(client, request.model_name), address)
    path = snippet.save(folder)
    return run("bash" if path.suffix == ".sh" else sys.executable, str(path), cwd=folder)


@pytest.mark.parametrize("kind", ["tritonclient HTTP", "tritonclient gRPC"])
def test_a_program_of_tritonclient_prints_the_answer(
    kind: str, client: Client, address: Address, tmp_path: Path
) -> None:
    # the values are written in the same way for both
    for name in CASES if kind.endswith("HTTP") else ["many", "bytes", "FP16"]:
        (tmp_path / name).mkdir()
        text = program(kind, make_request(CASES[name]), client, address, tmp_path / name)
        ((key, value),) = CASES[name].items()
        assert f"OUT{key[2:]}\n" in text
        if value.size < 10:
            expected = np.array([v.encode() if isinstance(v, str) else v for v in value], dtype=value.dtype)
            assert f"OUT{key[2:]}\n{expected}\n" in text


@pytest.mark.parametrize("name", list(CASES))
def test_curl_prints_the_answer_or_saves_it(name: str, client: Client, address: Address, tmp_path: Path) -> None:
    ((key, value),) = CASES[name].items()
    output = "OUT" + key[2:]
    # the echo has an output of each datatype; JSON has not
    request = make_request(CASES[name], requested_outputs=[output])
    if name in ("odd floats", "bytes"):
        return  # JSON has no form of the answer, on either side
    text = program("curl", request, client, address, tmp_path)
    if name == "FP16":
        head = (tmp_path / "echo.head").read_text().lower()
        length = int(head.split("inference-header-content-length:")[1].split()[0])
        body = (tmp_path / "echo.answer").read_bytes()
        assert json.loads(body[:length])["outputs"][0]["name"] == output
        assert np.frombuffer(body[length:], np.float16).tolist() == value.tolist()
        return
    (found,) = json.loads(text)["outputs"]
    assert found["name"] == output
    if value.dtype == np.float32:
        assert np.array_equal(np.float32(found["data"]), value)
    else:
        assert found["data"] == value.tolist()


@pytest.mark.parametrize("kind", ["tritonclient HTTP", "tritonclient gRPC", "curl"])
def test_every_field_of_a_request_is_sent(kind: str, client: Client, address: Address, tmp_path: Path) -> None:
    request = make_request(
        CASES["FP32"],
        request_id="it's mine",
        parameters={"flag": True, "number": 3, "text": 'a "b"'},
        requested_outputs=["SAID"],
        timeout=7_000_000,
        correlation_id=42,
        flags=3,
    )
    text = program(kind, request, client, address, tmp_path)
    if kind == "curl":
        (found,) = json.loads(text)["outputs"]
        document = json.loads(found["data"][0])
    else:
        assert "OUT_FP32" not in text
        document = json.loads(eval(text.split("SAID\n")[1].strip())[0])
    assert document["id"] == "it's mine" and document["correlation"] == 42 and document["timeout"] == 7_000_000
    assert document["parameters"] == {"flag": True, "number": 3, "text": 'a "b"'}


def test_a_decoupled_model_is_called_over_a_stream(client: Client, address: Address, tmp_path: Path) -> None:
    request = make_request({"IN": np.array([4, 2, 0], np.int32)}, "repeat")
    assert program("tritonclient gRPC", request, client, address, tmp_path) == "OUT\n[4]\nOUT\n[2]\nOUT\n[0]\n"
    for kind in ("tritonclient HTTP", "curl"):
        with pytest.raises(ValueError, match="use gRPC for a decoupled model"):
            copy_as(kind, Exchange(request), config_of(client, "repeat"))


def answered(**outputs: Any) -> Arrival:
    return Arrival(InferenceResponse(outputs={name: Tensor.from_numpy(value) for name, value in outputs.items()}))


@pytest.mark.parametrize("right", [True, False])
def test_a_test_holds_the_server_to_what_it_answered(
    right: bool, client: Client, address: Address, tmp_path: Path
) -> None:
    inputs = {f"IN_{name}": value for name, value in VALUES.items()}
    outputs = {f"OUT_{name}": value.copy() for name, value in VALUES.items()}
    outputs["OUT_FP32"][0] += 1e-9 if right else 1e-3
    wanted = [f"OUT_{name}" for name in VALUES]
    request = make_request(inputs, requested_outputs=wanted)
    written = copy_as("pytest", Exchange(request, (answered(**outputs),)), config_of(client, "echo"), address)
    written.save(tmp_path)
    request = make_request({"IN": np.array([4, 2], np.int32)}, "repeat")
    second = np.array([2 if right else 3], np.int32)
    streamed = (answered(OUT=np.array([4], np.int32)), answered(OUT=second), Arrival(InferenceResponse(empty=True)))
    copy_as("pytest", Exchange(request, streamed), config_of(client, "repeat"), address).save(tmp_path)
    with pytest.raises(FileExistsError):
        written.save(tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    found = subprocess.run(
        command, cwd=tmp_path, env=environment(NO_PLUGINS), capture_output=True, text=True, timeout=100
    )
    assert ("2 passed" if right else "2 failed") in found.stdout, found.stdout


def test_perf_analyzers_input_is_the_request(client: Client, address: Address) -> None:
    """perf_analyzer itself cannot be had here: a reader of its format, as documented, sends what it finds."""
    inputs = {f"IN_{name}": value for name, value in VALUES.items()}
    exchange = Exchange(make_request(inputs))
    document = json.loads(copy_as("perf_analyzer input", exchange, config_of(client, "echo")).text)
    (entry,) = document["data"]
    sent = []
    for name, tensor in entry.items():
        datatype = DataType.from_config_name("TYPE_" + name[3:])
        if "b64" in tensor:
            value = np.frombuffer(base64.b64decode(tensor["b64"]), datatype.numpy).reshape(tensor["shape"])
        else:
            value = np.array(tensor["content"], datatype.numpy).reshape(tensor["shape"])
        sent.append(tritonclient.http.InferInput(name, list(value.shape), datatype.name))
        sent[-1].set_data_from_numpy(value)
    with tritonclient.http.InferenceServerClient(address.http) as http:
        answer = http.infer("echo", sent)
    for name, value in VALUES.items():
        expected = [v.encode() for v in value] if name == "STRING" else value.tolist()
        assert answer.as_numpy(f"OUT_{name}").tolist() == expected


@pytest.mark.parametrize("fixed", [True, False])
def test_the_test_of_a_failure_fails_until_the_model_is_fixed(
    fixed: bool, client: Client, address: Address, tmp_path: Path
) -> None:
    inputs = {f"IN_{name}": value for name, value in VALUES.items()}
    batch = [make_request(inputs, request_id="one"), make_request({"IN_INT64": VALUES["INT64"]}, parameters={"p": 1})]
    more = {} if fixed else {"flags": 3, "correlation_id": "x" * 200}  # both servers refuse it
    request = make_request({"IN": np.array([4, 2], np.int32)}, "repeat", **more)
    failure_test(batch, config_of(client, "echo"), "ValueError: 'x'", address).save(tmp_path)
    failure_test([request], config_of(client, "repeat"), "KeyError: 1", address).save(tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    found = subprocess.run(
        command, cwd=tmp_path, env=environment(NO_PLUGINS), capture_output=True, text=True, timeout=100
    )
    assert ("3 passed" if fixed else "1 failed, 2 passed") in found.stdout, found.stdout
