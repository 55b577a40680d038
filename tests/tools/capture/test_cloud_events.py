from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritonlab
from tests.tools.capture.captures import all_bytes
from tritonlab.tools.capture.capture_file import Capture
from tritonlab.tools.capture.cloud_events import IN_SHARED_MEMORY, NO_ANSWER, NO_REQUEST, NOT_V2, UNREADABLE_ANSWER

TYPE = "org.kubeflow.serving.inference."
REQUEST = {
    "id": "r",
    "parameters": {"sequence_id": 7, "sequence_start": True, "user": "ann"},
    "inputs": [{"name": "A", "datatype": "FP32", "shape": [2], "data": [0.1, 3]}],
}
RESPONSE = {
    "model_name": "m",
    "model_version": "3",
    "id": "r",
    "outputs": [{"name": "B", "datatype": "BYTES", "shape": [2], "data": ["ü", ""]}],
}
BLOB = np.array([1.5, -2], np.float16).tobytes() + b"\x02\0\0\0\xff\xfe"
BINARY = (
    json.dumps(
        {
            "inputs": [
                {"name": "H", "datatype": "FP16", "shape": [2], "parameters": {"binary_data_size": 4}},
                {"name": "T", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 6}},
            ]
        }
    ).encode()
    + BLOB
)
BINARY_ANSWER = (
    json.dumps(
        {
            "model_name": "m",
            "outputs": [{"name": "H", "datatype": "FP16", "shape": [2], "parameters": {"binary_data_size": 4}}],
        }
    ).encode()
    + BLOB[:4]
)


def structured(ident: str, kind: str, body: Any, second: str = "32.5") -> str:
    data = {"data_base64": base64.b64encode(body).decode()} if isinstance(body, bytes) else {"data": body}
    attributes = {"specversion": "1.0", "source": "http://localhost:9081/", "inferenceservicename": "service"}
    moment = f"2020-11-25T08:45:{second}Z"
    return json.dumps({**attributes, "id": ident, "type": TYPE + kind, "time": moment, **data})


def message(
    ident: str, kind: str, body: bytes, more: Mapping[str, str] | None = None, line: str = "POST / HTTP/1.1"
) -> bytes:
    headers = {
        "Host": "sink",
        "Ce-Specversion": "1.0",
        "Ce-Id": ident,
        "Ce-Type": TYPE + kind,
        "Ce-Time": "2020-11-25T08:45:32.947168928Z",
        "Ce-Inferenceservicename": "service",
        "Content-Type": "application/octet-stream",
        "Content-Length": str(len(body)),
        **(more or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{line}\r\n".encode() * bool(line) + head.encode() + b"\r\n" + body


def record(ident: str, kind: str, body: bytes) -> dict[str, Any]:
    """Return a record of KServe's store for blobs."""
    encoded = base64.b64encode(body).decode()
    return {"Bytes": encoded, "ReqType": TYPE + kind, "Id": ident, "InferenceService": "service", "Metadata": None}


def capture(tmp_path: Path, data: str | bytes, **rules: Any) -> tuple[Any, list[Any]]:
    (tmp_path / "events").write_bytes(data.encode() if isinstance(data, str) else data)
    report = tritonlab.capture_from(tmp_path / "events", tmp_path / "a", **rules)
    return report, list(Capture(tmp_path / "a"))


JSON, ANSWER = json.dumps(REQUEST).encode(), json.dumps(RESPONSE).encode()
FORMS: dict[str, Callable[[], str | bytes]] = {
    "lines": lambda: structured("1", "request", REQUEST) + "\n" + structured("1", "response", RESPONSE, "33.0") + "\n",
    "a list": lambda: f"[{structured('1', 'request', JSON)}, {structured('1', 'response', ANSWER)}]",
    "the answer first": lambda: structured("1", "response", ANSWER) + structured("1", "request", REQUEST),
    "messages": lambda: message("1", "request", JSON) + b"\r\n" + message("1", "response", ANSWER),
    "headers alone": lambda: message("1", "request", JSON, line="") + message("1", "response", ANSWER, line=""),
    "records": lambda: json.dumps([record("1", "request", JSON), record("1", "response", ANSWER)]),
    "a record each": lambda: json.dumps(record("1", "request", JSON)) + json.dumps(record("1", "response", ANSWER)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_request_and_its_answer(tmp_path: Path, form: str) -> None:
    report, (one,) = capture(tmp_path, FORMS[form]())
    exchange, request = one.exchange, one.exchange.request
    assert request.inputs["A"].numpy().tolist() == [np.float32(0.1), 3] and request.request_id == "r"
    assert (request.correlation_id, request.flags, request.parameters) == (7, 1, {"user": "ann"})
    assert exchange.outputs["B"].numpy().tolist() == ["ü".encode(), b""]
    assert (exchange.model, exchange.responses[0].model_version, one.at_ns, one.protocol) == ("m", 3, 0, "http")
    assert exchange.answered and not report.left_out
    facts = Capture(tmp_path / "a").facts
    assert facts["source"] == "events" and (facts["began"] > 1.6e9) == ("record" not in form)
    if form == "lines":
        assert exchange.total_ns == 500_000_000


def test_the_time_of_the_first_request_counts_if_an_event_before_it_gives_none(tmp_path: Path) -> None:
    _, (one,) = capture(
        tmp_path, structured("0", "request", {}) + structured("0", "response", RESPONSE) + FORMS["the answer first"]()
    )
    assert Capture(tmp_path / "a").facts["began"] > 1.6e9 and one.at_ns == 0


@pytest.mark.parametrize("named", [False, True])
def test_tensors_after_the_json(tmp_path: Path, named: bool) -> None:
    """KServe leaves out the header with the length of the JSON, unless the service names it."""
    length = json.dumps({"Inference-Header-Content-Length": [str(len(BINARY) - len(BLOB))]})
    more = {"Ce-Metadata": length if named else "{}"}
    data = message("1", "request", BINARY, more) + message("1", "response", BINARY_ANSWER)
    _, (one,) = capture(tmp_path, data)
    request = one.exchange.request
    assert request.inputs["H"].numpy().tolist() == [1.5, -2] and request.inputs["T"].numpy().tolist() == [b"\xff\xfe"]
    assert one.exchange.outputs["H"].numpy().tolist() == [1.5, -2]


def test_events_that_give_no_request_are_counted(tmp_path: Path) -> None:
    region = {"name": "A", "datatype": "FP32", "shape": [2], "parameters": {"shared_memory_region": "r"}}
    lines = [
        structured("1", "request", {"instances": [[1, 2]]}),
        structured("1", "response", {"predictions": [1]}),
        structured(
            "2",
            "request",
            {"inputs": [{**region, "parameters": {**region["parameters"], "shared_memory_byte_size": 8}}]},
        ),
        structured("3", "response", RESPONSE),
        structured("4", "request", REQUEST),
        structured("5", "request", REQUEST),
        structured("5", "response", "text"),
        structured("7", "request", REQUEST),
        structured("7", "response", b"[" * 100_000),
        json.dumps({"type": "org.other", "id": "6", "data": 1}),
    ]
    report, found = capture(tmp_path, "\n".join(lines))
    assert report.left_out == {NOT_V2: 1, IN_SHARED_MEMORY: 1, NO_REQUEST: 1}
    assert [each.exchange.unanswered for each in found] == [UNREADABLE_ANSWER, UNREADABLE_ANSWER, NO_ANSWER]
    assert found[0].exchange.model == "service"  # the events have no path


def test_a_length_that_is_no_number_is_the_fault_of_its_event(tmp_path: Path) -> None:
    more = {"Ce-Metadata": '{"Inference-Header-Content-Length": []}'}
    data = message("1", "request", BINARY, more) + message("2", "request", BINARY)
    report, found = capture(tmp_path, data)
    assert report.left_out == {NOT_V2: 1} and len(found) == 1


def test_rules_apply(tmp_path: Path) -> None:
    lines = [
        structured(f"{n}", kind, body)
        for n in range(9)
        for kind, body in (("request", REQUEST), ("response", RESPONSE))
    ]
    report, found = capture(tmp_path, "\n".join(lines), redact={"user": "drop", "A": "hash", "B": "drop"}, per_minute=4)
    assert len(found) == 4 and report.left_out == {"over the number per minute": 5}
    assert "ann" not in all_bytes(tmp_path / "a").decode("latin-1") and "ü".encode() not in all_bytes(tmp_path / "a")


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b"[1]", b'{"type": "x"}', b"POST / HTTP/1.1\r\n\r\n", b"\x89PNG", b'{"ReqType": 1}']
)
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"events (is not a file of CloudEvents|has no events)"):
        capture(tmp_path, data)
    assert not (tmp_path / "a").exists()
