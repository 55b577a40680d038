"""Traces (rule 5.14.4): the entries of the trace file, one file per trace, from the real server and from ours."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models import executes, streams
from tritonlab.core.observe.trace_settings import TraceSetting
from tritonlab.frontends.http.http_server import HTTPOptions, HTTPServer
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager
from tritonlab.record.triton_trace import read_trace
from tritonlab.tools.capture import trace_capture
from tritonlab.tools.capture.capture_file import CapturedRequest

from .clients import Client, Files, Raw
from .lab_client import LabClient
from .models import ECHO, RETURNS, config, model
from .observed import serving, trace_settings
from .raw_http import RawHTTP
from .real_client import RealClient
from .rules import rule

IO = ("IN INT32 -1", "IN INT32 -1")
BATCHED = "max_batch_size: 8 instance_group { kind: KIND_CPU }"

#: Asks `add` with the trace of its request, then without.
CALLER = executes("""
    for request in requests:
        for more in ({"trace": request.trace(), "request_id": "inner"}, {}):
            call = pb_utils.InferenceRequest(
                model_name="add", requested_output_names=["IN"], inputs=request.inputs(), **more
            )
            assert not call.exec().has_error()
    return [
        pb_utils.InferenceResponse([pb_utils.Tensor(t.name(), t.as_numpy()) for t in request.inputs()])
        for request in requests
    ]
""")

TWICE = streams("x + n", over="range(2)", reads="IN", writes="IN")

RAISES = executes('raise ValueError("no")')

REFUSES = executes('return [pb_utils.InferenceResponse(error=pb_utils.TritonError("no")) for _ in requests]')

ENSEMBLE = """
platform: "ensemble"
max_batch_size: 8
input { name: "IN" data_type: TYPE_INT32 dims: -1 }
output { name: "OUT" data_type: TYPE_INT32 dims: -1 }
ensemble_scheduling {
  step {
    model_name: "add" model_version: -1 input_map { key: "IN" value: "IN" } output_map { key: "IN" value: "MIDDLE" }
  }
  step {
    model_name: "queueing" model_version: -1
    input_map { key: "IN" value: "MIDDLE" } output_map { key: "IN" value: "OUT" }
  }
}
"""

TYPES = "S STRING -1 optional;F FP32 -1 optional;D FP64 -1 optional;B BOOL -1 optional;L INT64 -1 optional;Q BF16 -1"
TYPES += " optional"

MODELS: dict[str, Files] = {
    "add": model(ECHO, config(*IO, BATCHED)),
    "queueing": model(ECHO, config(*IO, BATCHED, "dynamic_batching {}")),
    "calls": model(CALLER, config(*IO, BATCHED)),
    "twice": model(TWICE, config(*IO, BATCHED, "model_transaction_policy { decoupled: true }")),
    "raises": model(RAISES, config(*IO, BATCHED)),
    "refuses": model(REFUSES, config(*IO, BATCHED)),
    "types": model(RETURNS, config(TYPES, TYPES, BATCHED)),
    "cached": model(ECHO, config(*IO, BATCHED, "response_cache { enable: true }")),
    "both": {"config.pbtxt": ENSEMBLE, "1/none": ""},
}


class Traced:
    """A server that traces every request into a file of its own, and the entries of the files."""

    def __init__(self, client: Client, file: Path) -> None:
        self.client = client
        self._file = file
        self._number = 0

    def next(self) -> list[dict[str, Any]]:
        """Return the entries of the next trace, ids counted from the client's request on, without times and without
        what a frontend adds."""
        entries = json.loads(self.file().read_text())
        first = min(entry["id"] for entry in entries) - 1
        return [plain for entry in entries if (plain := _without_times(entry, first)) is not None]

    def file(self) -> Path:
        """Wait until the next trace's file is written, and return it."""
        path = Path(f"{self._file}.{self._number}")
        self._number += 1
        end = time.monotonic() + 10
        while not (path.exists() and path.read_bytes().endswith(b"]")):
            assert time.monotonic() < end, f"no {path}"
            time.sleep(0.01)
        return path

    def none(self) -> bool:
        """Return whether the next trace is not there (yet)."""
        return not Path(f"{self._file}.{self._number}").exists()


def _without_times(entry: dict[str, Any], first: int) -> dict[str, Any] | None:
    plain = {**entry, "id": entry["id"] - first}
    if "parent_id" in entry:
        plain["parent_id"] = entry["parent_id"] - first
    if "timestamps" in entry:
        ((moment),) = entry["timestamps"]
        assert moment["ns"] > 0
        if moment["name"].startswith(("HTTP_", "GRPC_", "INFER_RESPONSE")):
            return None
        plain["timestamps"] = moment["name"]
    return plain


LEVELS = ("TIMESTAMPS", "TENSORS")
CACHE = "local,size=1048576"


@pytest.fixture(scope="module", params=["real", "lab"])
def program(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def traced(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    scratch = tmp_path_factory.mktemp("traced")
    file = scratch / "trace.json"
    options = ["rate=1", f"triton,file={file}", "triton,log-frequency=1", *(f"level={level}" for level in LEVELS)]
    arguments = [f"--trace-config={option}" for option in options] + [f"--cache-config={CACHE}"]
    setting = TraceSetting(LEVELS, 1, log_frequency=1, file=str(file))
    with serving(program, scratch, MODELS, arguments, trace_setting=setting, cache_config=CACHE) as client:
        yield Traced(client, file)


def numbers(*values: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"IN": np.array([values], np.int32)}


def moments(ident: int, *names: str) -> list[dict[str, Any]]:
    return [{"id": ident, "timestamps": name} for name in names]


COMPUTE = ("COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END")


def tensor(ident: int, activity: str, data: str, shape: str = "1,2", name: str = "IN", dtype: str = "INT32") -> Any:
    described = {"name": name, "data": data, "shape": shape, "dtype": dtype}
    return {"id": ident, "activity": activity, "tensor": described}


def whole(ident: int, name: str, answered: list[str], **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": ident, "model_name": name, "model_version": 1, **more},
        *moments(ident, "REQUEST_START", "QUEUE_START"),
        tensor(ident, "TENSOR_QUEUE_INPUT", "1,2"),
        *(tensor(ident, "TENSOR_BACKEND_OUTPUT", data) for data in answered),
        *moments(ident, *COMPUTE),
    ]


@rule("5.14.4")
@pytest.mark.parametrize(
    ("name", "answered"),
    [("add", ["1,2"]), ("queueing", ["1,2"]), ("twice", ["1,2", "2,3"]), ("raises", []), ("refuses", [])],
)
def test_a_request(traced: Traced, name: str, answered: list[str]) -> None:
    traced.client.stream(name, numbers(1, 2))
    assert traced.next() == whole(1, name, answered)


@pytest.fixture(scope="module")
def traced_http(traced: Traced) -> Iterator[RawHTTP]:
    """Return the HTTP endpoint of the traced server."""
    client = traced.client
    if isinstance(client, RealClient):
        yield RawHTTP("real", client.server.http)
        return
    assert isinstance(client, LabClient)
    frontend = HTTPServer(client.server.core, SharedMemoryManager(), HTTPOptions())
    yield RawHTTP("lab", f"127.0.0.1:{frontend.start('127.0.0.1', 0)}")
    frontend.stop()


@rule("5.14.4")
@pytest.mark.parametrize(
    ("name", "path", "responses"),
    [
        *(("add", path, 1) for path in ("infer", "generate", "generate_stream")),
        *(("raises", path, 1) for path in ("generate", "generate_stream")),
        *(("refuses", path, 1) for path in ("generate", "generate_stream")),
        ("twice", "generate_stream", 2),
    ],
)
def test_generate_is_traced_over_http_as_infer(
    traced: Traced, traced_http: RawHTTP, name: str, path: str, responses: int
) -> None:
    inputs = [{"name": "IN", "datatype": "INT32", "shape": [1, 2], "data": [1, 2]}]
    traced_http.post(f"/v2/models/{name}/{path}", {"inputs": inputs} if path == "infer" else {"IN": [1, 2]})
    entries = json.loads(traced.file().read_text())
    found = [entry["timestamps"][0]["name"] for entry in entries if "timestamps" in entry]
    sent = ["HTTP_SEND_START", "HTTP_SEND_END", "INFER_RESPONSE_COMPLETE"] * responses
    if name == "twice" and traced.client.side == "real":
        sent.append("INFER_RESPONSE_COMPLETE")  # of the last response, which is empty
    over_http = [moment for moment in found if moment.startswith(("HTTP_", "INFER_"))]
    assert over_http[:2] == ["HTTP_RECV_START", "HTTP_RECV_END"]
    assert sorted(over_http[2:]) == sorted(sent)


@rule("5.14.4")
def test_a_request_that_the_cache_answers(traced: Traced) -> None:
    traced.client.infer("cached", numbers(1, 2))
    # what Triton stores it writes twice; it may write the next trace first, so that is not sent before
    assert traced.next() == whole(1, "cached", ["1,2"] * (2 if traced.client.side == "real" else 1))
    compute = moments(1, *COMPUTE[:-1])
    traced.client.infer("cached", numbers(1, 2))
    assert traced.next() == [entry for entry in whole(1, "cached", ["1,2"]) if entry not in compute]


@rule("5.14.4", "1.11.1")
def test_what_a_model_requests_with_its_trace_is_part_of_it(traced: Traced) -> None:
    traced.client.infer("calls", numbers(1, 2))
    inner = whole(2, "add", ["1,2"], request_id="inner", parent_id=1)
    assert traced.next() == [*inner, *whole(1, "calls", ["1,2"])]


@rule("5.14.4")
def test_the_steps_of_an_ensemble_are_part_of_it(traced: Traced) -> None:
    traced.client.infer("both", numbers(1, 2))
    begin = [*moments(1, "REQUEST_START", "QUEUE_START"), tensor(1, "TENSOR_QUEUE_INPUT", "1,2")]
    assert traced.next() == [
        *whole(3, "queueing", ["1,2"], parent_id=1),
        *whole(2, "add", ["1,2"], parent_id=1),
        {"id": 1, "model_name": "both", "model_version": 1},
        *begin,
        tensor(1, "TENSOR_BACKEND_OUTPUT", "1,2", name="OUT"),
        *moments(1, "REQUEST_END"),
    ]


@rule("5.14.4")
def test_a_refused_request_leaves_no_trace_but_takes_a_number(traced: Traced) -> None:
    wrong = {"IN": np.array([[1.5]], np.float32)}
    assert traced.client.infer("add", wrong).code == "INVALID_ARG"
    assert traced.none()
    traced.client.infer("add", numbers(1, 2))
    assert traced.next() == whole(1, "add", ["1,2"])


@rule("5.14.4")
def test_values_of_tensors(traced: Traced) -> None:
    sent = {
        "S": np.array([["a,b", "ü", ""]], np.object_),
        "F": np.array([[1.5, 1 / 3, 1e20, 100000, 1234567]], np.float32),
        "D": np.array([[1 / 3, 1e-9, 5]], np.float64),
        "B": np.array([[True, False]]),
        "L": np.array([[-5, 1 << 40]], np.int64),
    }
    traced.client.infer("types", sent)
    tensors = {
        e["tensor"]["name"]: e["tensor"]["data"] for e in traced.next() if e.get("activity") == "TENSOR_QUEUE_INPUT"
    }
    assert tensors == {
        "S": '"a,b","ü",""',
        "F": "1.5,0.333333,1e+20,100000,1.23457e+06",
        "D": "0.333333,1e-09,5",
        "B": "1,0",
        "L": "-5,1099511627776",
    }


@rule("5.14.4", "5.14.1")
@pytest.mark.parametrize(("level", "kind"), [("TENSORS", "activity"), ("TIMESTAMPS", "timestamps")])
def test_one_level_alone(traced: Traced, level: str, kind: str) -> None:
    trace_settings(traced.client, {"trace_level": [level]})
    traced.client.infer("add", numbers(1, 2))
    trace_settings(traced.client, {"trace_level": list(LEVELS)})
    expected = [entry for entry in whole(1, "add", ["1,2"]) if kind in entry]
    head = whole(1, "add", [])[:1] if level == "TIMESTAMPS" else []
    assert traced.next() == head + expected


@rule("5.14.1")
def test_every_second_request_until_the_count_has_run_out(traced: Traced) -> None:
    trace_settings(traced.client, {"trace_rate": "2", "trace_count": "2"})
    for number in range(6):
        traced.client.infer("add", numbers(number, number))
    trace_settings(traced.client, {"trace_rate": "1", "trace_count": "-1"})
    traced.client.infer("add", numbers(7, 7))
    inputs = [
        next(entry["tensor"]["data"] for entry in traced.next() if entry.get("activity") == "TENSOR_QUEUE_INPUT")
        for _ in range(3)
    ]
    assert sorted(inputs) == ["1,1", "3,3", "7,7"]  # Triton may write the next one first


@rule("5.14.4")
def test_a_trace_file_opens_as_a_recording(traced: Traced) -> None:
    traced.client.infer("add", numbers(1, 2))
    file = traced.file()
    record = read_trace(file).model("add")
    ends = [e["timestamps"][0] for e in json.loads(file.read_text()) if "timestamps" in e]
    times = {moment["name"]: moment["ns"] for moment in ends}
    assert record.batches.rows()[:, :2].tolist() == [[times["COMPUTE_START"], times["COMPUTE_END"]]]
    assert record.requests.rows()[:, 1:3].tolist() == [[times["REQUEST_START"], times["QUEUE_START"]]]
    assert record.words.lists()["shapes"] == [(("IN", (1, 2)),)]


@rule("5.14.4")
def test_a_trace_file_as_a_capture(traced: Traced) -> None:
    """All but floating-point numbers come back from Triton's as they were, from ours what Triton writes equally. Of
    BF16 it writes nothing."""
    odd = [b'say "yes"', b"back\\n", b'","', b"\xff"] if traced.client.side == "real" else []
    texts = [b"a,b", b"", *odd]
    sent = {"S": np.array([texts], np.object_), "L": np.array([[-(2**63)]], np.int64), "B": np.array([[True, False]])}
    half = Raw("BF16", [1, 1], b"\xc0\x3f")
    traced.client.infer("types", {**sent, "F": np.array([[1 / 3]], np.float32), "Q": half})
    (found,) = trace_capture.read_requests(traced.file())
    assert isinstance(found, CapturedRequest)
    for tensors in (found.exchange.request.inputs, found.exchange.outputs):
        assert {name: tensors[name].numpy().tolist() for name in sent} == {n: v.tolist() for n, v in sent.items()}
    assert {place: each.how for place, each in found.withheld.items()} == {
        **dict.fromkeys(("input.F", "output.0.F"), "inexact"),
        **dict.fromkeys(("input.Q", "output.0.Q"), "shape"),
    }
    assert found.exchange.total_ns > 0


@rule("5.14.4")
def test_a_trace_file_with_a_quote_in_a_text_opens_too(traced: Traced) -> None:
    """Triton's is not JSON then; ours is."""
    text = np.array([['say "yes"', "b", "c"]], np.object_)
    traced.client.infer("types", {"S": text})
    file = traced.file()
    if traced.client.side == "real":
        with pytest.warns(UserWarning, match="cannot be read"):
            recording = read_trace(file)
    else:
        recording = read_trace(file)
    assert recording.model("types").batches.total == 1
