from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.rules import rule
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import Code, TritonError
from tritonlab.frontends.http.generate_endpoint import decode_request, encode_response


def metadata(**inputs: tuple[str, list[int]]) -> dict[str, Any]:
    return {"inputs": [{"name": n, "datatype": kind, "shape": dims} for n, (kind, dims) in inputs.items()]}


TEXT = metadata(S=("BYTES", [-1]), A=("FP32", [-1, 2]))


def decode(document: Any, model: dict[str, Any] = TEXT) -> InferenceRequest:
    return decode_request(json.dumps(document).encode(), "m", 3, model)


@rule("6.8.1", "6.8.2")
def test_keys_are_inputs_or_parameters() -> None:
    document = {"id": "q", "S": "hi", "sequence_id": 3, "timeout": 1.5, "triton_x": True}
    request = decode({**document, "parameters": {"p": "v", "A": [1, 2, 3, 4]}})
    assert (request.model_version, request.request_id, request.correlation_id) == (3, "q", 0)
    assert request.parameters == {"id": "q", "sequence_id": 3, "timeout": 1.5, "triton_x": True, "p": "v"}
    assert request.inputs["S"].to_bytes_array().tolist() == [b"hi"]
    assert request.inputs["A"].numpy().tolist() == [[1, 2], [3, 4]]


@rule("6.8.1")
@pytest.mark.parametrize(
    ("dims", "count", "shape"),
    [
        ([-1], 3, (3,)),
        ([-1], 0, (0,)),
        ([4], 4, (4,)),
        ([-1, 4], 8, (2, 4)),
        ([-1, -1], 4, (1, 4)),
        ([-1, 2, -1], 6, (1, 2, 3)),
    ],
)
def test_elements_are_spread_over_the_dimensions(dims: list[int], count: int, shape: tuple[int, ...]) -> None:
    request = decode({"X": [1] * count}, metadata(X=("INT32", dims)))
    assert request.inputs["X"].shape == shape


def test_an_empty_body_is_an_empty_object() -> None:
    """Since 2026-04 (rule 6.8.4)."""
    assert decode_request(b"", "m", -1, TEXT).inputs == {}


@rule("6.8.4")
@pytest.mark.parametrize(
    ("document", "code", "text"),
    [
        ([], Code.INTERNAL, "attempt to get members for non-object"),
        ({"A": 1}, Code.INVALID_ARG, "The schema can not convert input 'A' to tensor with proper shape"),
        ({"A": [[1, 2], 3]}, Code.INTERNAL, "Unable to parse 'data': Shape does not match true shape of 'data' field"),
        (
            {"S": 1},
            Code.INTERNAL,
            "Unable to parse JSON bytes array: attempt to access JSON non-string as string",
        ),
        ({"id": 1}, Code.INTERNAL, "Unable to parse 'id': attempt to access JSON non-string as string"),
        (
            {"x": [1]},
            Code.INVALID_ARG,
            "parameter 'x' has invalid type. It should be either 'int', 'bool', or 'string'.",
        ),
        (
            {"parameters": 1},
            Code.INTERNAL,
            "Expected JSON object for keyword: 'parameters': attempt to access JSON non-object as object",
        ),
        (
            {"parameters": {"b": None}},
            Code.INVALID_ARG,
            "Converting keyword: 'parameters': parameter 'b' has invalid type. It should be either 'int', 'bool', or "
            "'string'.",
        ),
    ],
)
def test_what_is_refused(document: Any, code: Code, text: str) -> None:
    with pytest.raises(TritonError) as raised:
        decode(document)
    assert (raised.value.code, raised.value.message) == (code, text)


@rule("6.8.4")
def test_an_input_may_not_be_called_parameters() -> None:
    with pytest.raises(TritonError, match=r"^Keyword 'parameters' for nested schema also given as input tensor name$"):
        decode({"parameters": {}}, metadata(parameters=("FP32", [1])))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["S", "A", "id", "parameters", "x"]), inner, max_size=4)
        ),
    )
)
def test_any_document_is_decoded_or_refused(document: Any) -> None:
    try:
        decode(document)
    except TritonError as error:
        assert error.message


@rule("6.8.3")
def test_a_response_is_one_object_by_name_with_single_elements_unwrapped() -> None:
    response = InferenceResponse("m", 2, "q")
    for name, array in {
        "ONE": np.float32([[1.5]]),
        "MANY": np.int8([[1, 2]]),
        "text": np.array([b"\xffhi"], dtype=object),
        "NONE": np.float32([]),
        "TEXTS": np.array([["a", "b"]], dtype=object),
        "YES": np.array([True]),
    }.items():
        response.outputs[name] = Tensor.from_numpy(array)
    response.parameters = {"p": 1, "id": "not this"}
    assert encode_response(response) == (
        b'{"MANY":[1,2],"NONE":[],"ONE":1.5,"TEXTS":["a","b"],"YES":true,'
        b'"id":"q","model_name":"m","model_version":"2","p":1,"text":"\xffhi"}'
    )
