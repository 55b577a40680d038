from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InvalidArgumentError, TritonError, UnsupportedError
from tritonlab.dynamo import wire


def sent(kind: str, shape: list[int], values: list[Any], **more: Any) -> dict[str, Any]:
    tensor = {"metadata": {"name": "IN", "shape": shape, "data_type": kind, **more}, "data": {"values": values}}
    return {"model": "m", "tensors": [tensor]}


@pytest.mark.parametrize("datatype", [each for each in DataType if each is not DataType.INVALID])
def test_every_datatype_goes_there_and_comes_back(datatype: DataType) -> None:
    if datatype is DataType.BYTES:
        tensor = Tensor.from_numpy(np.array([[b"\xff\x00", b""]], dtype=object))
    elif datatype is DataType.BF16:
        tensor = Tensor(datatype, (1, 2), np.array([[0x3FC0, 0x7FC0]], np.uint16))
    else:
        tensor = Tensor.from_numpy(np.array([[1, 0]], datatype.numpy))
    written = wire.write_response(InferenceResponse("m", 1), {"IN": tensor})["tensors"][0]
    read = wire.read_request({"tensors": [written]}, "m").inputs["IN"]
    assert (read.datatype, read.shape, read.data.tobytes()) == (datatype, (1, 2), tensor.data.tobytes())


def test_numbers_that_are_none_and_not_finite_survive() -> None:
    values = [float("nan"), float("inf"), -float("inf"), 5e-324]
    read = wire.read_request(sent("Float64", [4], values), "m").inputs["IN"].numpy()
    assert np.array_equal(read, np.array(values), equal_nan=True)


def test_what_a_request_has_besides_its_tensors() -> None:
    parameters = {
        "p": {"string": "q"}, "n": {"int64": 5}, "sequence_id": {"uint64": 7}, "sequence_start": {"bool": True},
        "sequence_end": {"bool": True}, "priority": {"uint64": 2}, "timeout": {"int64": 1000},
        "triton_enable_empty_final_response": {"bool": True},
    }  # fmt: skip
    outputs = [{"name": "OUT", "parameters": {"classification": {"int64": 2}}}, {"name": "TEXT"}]
    document = {**sent("Int32", [1], [1]), "id": "a", "parameters": parameters, "outputs": outputs}
    request = wire.read_request(document, "m")
    assert (request.request_id, request.correlation_id, request.flags, request.priority, request.timeout) == (
        "a", 7, 3, 2, 1000,
    )  # fmt: skip
    assert request.parameters == {"p": "q", "n": 5} and list(request.requested_outputs) == ["OUT", "TEXT"]
    assert wire.read_classes(document) == {"OUT": 2}


@pytest.mark.parametrize(
    ("document", "error", "text"),
    [
        ({}, InvalidArgumentError, "takes tensors, and the request has none"),
        (sent("Int32", [2], [1]), InvalidArgumentError, r"input 'IN' of shape \[2\]"),
        (sent("Uint8", [1], [256]), InvalidArgumentError, "input 'IN'"),
        (sent("Float8", [1], [1]), InvalidArgumentError, "datatype 'Float8'"),
        (
            sent("Int32", [1], [], parameters={"shared_memory_region": {"string": "r"}}),
            UnsupportedError,
            "cannot use shared memory",
        ),
    ],
)
def test_a_request_that_cannot_be_read(document: Any, error: type[TritonError], text: str) -> None:
    with pytest.raises(error, match=text):
        wire.read_request(document, "m")


@pytest.mark.parametrize("name", ["priority", "timeout"])
@pytest.mark.parametrize("value", [{"string": "high"}, {"int64": -1}, {"double": float("nan")}])
def test_a_parameter_that_is_no_number(name: str, value: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=f"parameter '{name}' must be a number, 0 or more"):
        wire.read_request({**sent("Int32", [1], [1]), "parameters": {name: value}}, "m")


@pytest.mark.parametrize("count", [{"int64": 0}, {"string": "2"}])
def test_a_count_of_classes_that_is_not_one(count: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="classification of output 'OUT' must be above 0"):
        wire.read_classes({"outputs": [{"name": "OUT", "parameters": {"classification": count}}]})


def test_parameters_of_a_response() -> None:
    response = InferenceResponse("m", 1, "id", parameters={"b": True, "n": -1, "u": 2**63, "d": 0.5, "s": "x"})
    assert wire.write_response(response, {}) == {
        "id": "id", "model": "m", "tensors": [],
        "parameters": {"b": {"bool": True}, "n": {"int64": -1}, "u": {"uint64": 2**63}, "d": {"double": 0.5},
                       "s": {"string": "x"}},
    }  # fmt: skip
