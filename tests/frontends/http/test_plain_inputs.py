"""Requests that are not parsed again, seen through the decoder: they mean the same as when they were parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.rules import rule
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import TritonError
from tritonlab.frontends.http import infer_decoder
from tritonlab.frontends.http.infer_decoder import InferDecoder
from tritonlab.frontends.http.infer_encoder import BINARY, JSON
from tritonlab.frontends.http.plain_inputs import MAX_TEXT, MAX_TEXTS, plain_data
from tritonlab.frontends.shared.infer_exchange import OutputPlan
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

DECODER = InferDecoder(SharedMemoryManager(allowed=True), 1 << 20)
IN = {"name": "IN", "shape": [2], "datatype": "FP32", "data": [1, 2]}
PLAIN = {"name": "A", "shape": [2], "datatype": "INT16", "parameters": {"binary_data_size": 4}}
TEXT = {"name": "S", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 5}}


def decode(document: Any, blobs: bytes = b"") -> InferenceRequest:
    body = json.dumps(document).encode()
    return DECODER.decode(body + blobs, len(body), "m", -1)[0]


NUMBERS: list[list[Any]] = [
    [1, 2],
    [0, -1],
    [1.5, 2],
    [1, 2.25],
    [0.1, -0.0],
    [127, -128],
    [128, -129],
    [255, 256],
    [2**31 - 1, -(2**31)],
    [2**53 + 1, 2**63 - 1],
    [2**64 - 1, 0],
    [2**64, -(2**63) - 1],
    [16777217, 1 + 2**-24],
    [3.4e38, -3.4028235e38],
    [1e39, -1e39],
    [1e308, -1.7e308],
    [float("inf"), 1],
    [1, float("nan")],
    [float("nan"), 1],
    [10**400, 1],
    [True, 1],
    [1, None],
    ["1", 2],
    [[1], [2]],
    [[1, 2]],
    [1],
    [1, 2, 3],
    [],
]
DATATYPES = [*(datatype.name for datatype in DataType), "FP33", "fp32"]


def outcome(entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch, whole: bool) -> Any:
    """Return what the decoder makes of a request with this input, or its error."""
    with monkeypatch.context() as patch:
        if not whole:
            patch.setattr(infer_decoder, "plain_data", lambda entry: None)
        try:
            tensor = decode({"inputs": [entry]}).inputs[entry["name"]]
        except TritonError as error:
            return error.code, error.message
        return tensor.datatype, tensor.shape, tensor.data.dtype, tensor.data.tobytes()


@rule("6.3.3")
@pytest.mark.parametrize("datatype", DATATYPES)
def test_numbers_that_are_read_as_a_whole_mean_what_they_mean_one_by_one(
    datatype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for numbers in NUMBERS:
        for shape in ([2], [1, 2], [2, 1, 1], [0], [], [-2], [2.0], [True, 2], [1, 1]):
            entry = {"name": "IN", "shape": shape, "datatype": datatype, "data": numbers}
            whole, one_by_one = (outcome(entry, monkeypatch, whole) for whole in (True, False))
            assert whole == one_by_one, (numbers, shape)


def test_which_numbers_are_read_as_a_whole() -> None:
    for datatype in ("FP32", "FP64", "INT8", "INT32", "INT64", "UINT8", "UINT64"):
        found = plain_data({**IN, "shape": [1, 2], "datatype": datatype})
        assert found is not None and (found[0], found[1].numpy().tolist()) == ("IN", [[1, 2]])
    for changes in (
        {"name": "I\0N"},
        {"name": 1},
        {"datatype": "BOOL"},
        {"datatype": "BYTES"},
        {"parameters": {}},
        {"shape": [3]},
        {"data": [1, 2.0], "datatype": "INT32"},
        {"data": [1, 300], "datatype": "UINT8"},
    ):
        assert plain_data({**IN, **changes}) is None, changes
    assert plain_data([]) is None


@pytest.mark.parametrize("twice", [IN, {**IN, "data": [[1], [2]]}])
def test_a_name_that_comes_twice(twice: dict[str, Any]) -> None:
    with pytest.raises(TritonError, match="input 'IN' already exists in request"):
        decode({"inputs": [IN, twice]})


@rule("6.5.1")
def test_a_text_that_came_before_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    document = {
        "inputs": [PLAIN, TEXT],
        "outputs": [{"name": "O", "parameters": {"classification": 2}}, {"name": "P"}],
        "parameters": {"binary_data_output": True},
    }
    decoder = InferDecoder(SharedMemoryManager(), 1 << 20)
    text = json.dumps(document).encode()
    first = decoder.decode(text + b"\1\0\2\0" + b"\1\0\0\0x", len(text), "m", -1)
    monkeypatch.setattr(infer_decoder, "parse", lambda text: pytest.fail("it is parsed"))
    second = decoder.decode(bytearray(text + b"\3\0\4\0" + b"\1\0\0\0y"), len(text), "n", 3)
    assert second[0] is not first[0]
    for (request, outputs), values, string, name, version in (
        (first, [1, 2], b"x", "m", -1),
        (second, [3, 4], b"y", "n", 3),
    ):
        assert (request.model_name, request.model_version) == (name, version)
        assert request.inputs["A"].numpy().tolist() == values
        assert request.inputs["S"].numpy().tolist() == [string]
        assert request.requested_outputs == ("O", "P")
        assert (outputs.default, outputs.by_name) == (BINARY, {"O": OutputPlan(classes=2), "P": JSON})


@rule("6.5.1")
@pytest.mark.parametrize("size", [0, 3, 5, 8])
def test_other_binary_data_behind_a_text_that_came_before(size: int) -> None:
    assert decode({"inputs": [PLAIN]}, bytes(4)).inputs["A"].shape == (2,)
    with pytest.raises(TritonError, match="additional"):
        decode({"inputs": [PLAIN]}, bytes(size))


@pytest.mark.parametrize(
    "document",
    [
        {"id": "r", "inputs": [PLAIN]},
        {"parameters": {"sequence_id": 7}, "inputs": [PLAIN]},
        {"inputs": [PLAIN, IN]},
        {"inputs": [{**PLAIN, "shape": [0], "parameters": {"binary_data_size": 0}}]},
        {"inputs": [PLAIN], "x": "x" * MAX_TEXT},
    ],
    ids=["id", "parameters", "data", "empty", "long"],
)
def test_a_text_that_says_more_is_parsed_each_time(document: Any) -> None:
    decoder = InferDecoder(SharedMemoryManager(), 1 << 20)
    text = json.dumps(document).encode()
    blobs = bytes(sum(entry.get("parameters", {}).get("binary_data_size", 0) for entry in document["inputs"]))
    found = [decoder.decode(text + blobs, len(text), "m", -1)[0] for _ in range(2)]
    assert not decoder._known
    assert found[0].request_id == found[1].request_id == document.get("id", "")
    assert found[0].correlation_id == found[1].correlation_id
    assert list(found[0].inputs) == list(found[1].inputs)


def test_a_region_is_looked_up_each_time() -> None:
    place = {"shared_memory_region": "gone", "shared_memory_byte_size": 4}
    for _ in range(2):
        with pytest.raises(TritonError, match="gone"):
            decode({"inputs": [PLAIN], "outputs": [{"name": "O", "parameters": place}]}, bytes(4))


def test_so_many_texts_are_known() -> None:
    decoder = InferDecoder(SharedMemoryManager(), 1 << 20)
    for count in range(1, 200):
        text = json.dumps({"inputs": [{**PLAIN, "name": f"A{count}"}]}).encode()
        decoder.decode(text + bytes(4), len(text), "m", -1)
        assert len(decoder._known) <= MAX_TEXTS
