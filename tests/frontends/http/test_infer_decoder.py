from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.rules import rule
from tritonlab.core.config.model_config import from_json
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import Code, InvalidArgumentError, TritonError
from tritonlab.frontends.http.infer_decoder import InferDecoder, raw_request
from tritonlab.frontends.http.infer_encoder import BINARY, JSON, RequestedOutputs
from tritonlab.frontends.shared.infer_exchange import OutputPlan
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

DECODER = InferDecoder(SharedMemoryManager(allowed=True), 1 << 20)
IN = {"name": "IN", "shape": [2], "datatype": "FP32", "data": [1, 2]}


def decode(document: Any, blobs: bytes = b"") -> tuple[InferenceRequest, RequestedOutputs]:
    body = json.dumps(document).encode()
    return DECODER.decode(body + blobs, len(body), "m", -1)


def refused(document: Any, blobs: bytes = b"") -> tuple[Code, str]:
    with pytest.raises(TritonError) as raised:
        decode(document, blobs)
    return raised.value.code, raised.value.message


def with_input(**changes: Any) -> dict[str, Any]:
    return {"inputs": [{name: value for name, value in {**IN, **changes}.items() if value is not None}]}


def with_output(**parameters: Any) -> dict[str, Any]:
    return {"inputs": [IN], "outputs": [{"name": "OUT", "parameters": parameters}]}


@rule("6.3.1", "6.4.1")
def test_a_request_has_what_its_document_says() -> None:
    parameters = {"sequence_id": 7, "sequence_start": True, "priority": 1, "timeout": 5, "own": "x", "f": 1.5}
    request, outputs = decode({"id": "r", "parameters": parameters, "inputs": [IN]})
    assert (request.model_name, request.model_version, request.request_id) == ("m", -1, "r")
    assert (request.correlation_id, request.flags, request.priority, request.timeout) == (7, 1, 1, 5)
    assert request.parameters == {"own": "x", "f": 1.5}
    tensor = request.inputs["IN"]
    assert (tensor.datatype, tensor.shape, tensor.numpy().tolist()) == (DataType.FP32, (2,), [1, 2])
    assert (request.requested_outputs, outputs.default, outputs.by_name) == ((), JSON, {})


@rule("6.5.1", "6.5.4")
def test_binary_data_follows_in_the_order_of_the_inputs() -> None:
    inputs = [
        {"name": "A", "shape": [2], "datatype": "INT16", "parameters": {"binary_data_size": 4}},
        {"name": "S", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 5}},
        {"name": "E", "shape": [0], "datatype": "FP64", "parameters": {"binary_data_size": 0}},
        {"name": "H", "shape": [1], "datatype": "BF16", "parameters": {"binary_data_size": 2}},
    ]
    request, _ = decode({"inputs": inputs}, b"\1\0\2\0" + b"\1\0\0\0x" + b"\x80\x3f")
    arrays = {name: tensor.data for name, tensor in request.inputs.items()}
    assert (arrays["A"].dtype, arrays["A"].tolist()) == (np.int16, [1, 2])
    assert arrays["S"].tobytes() == b"\1\0\0\0x"
    assert (arrays["E"].dtype, arrays["E"].size) == (np.float64, 0)
    assert arrays["H"].tolist() == [0x3F80]


def test_binary_inputs_are_views_of_the_body() -> None:
    head = json.dumps(with_input(data=None, parameters={"binary_data_size": 8})).encode()
    body = bytearray(head + bytes(8))
    request, _ = DECODER.decode(body, len(head), "m", -1)
    body[len(head) :] = np.float32([3, 4]).tobytes()
    assert request.inputs["IN"].numpy().tolist() == [3, 4]


@rule("6.5.2")
def test_blobs_must_fit_what_the_document_says() -> None:
    binary = with_input(data=None, parameters={"binary_data_size": 8})
    additional = "unexpected size for input 'IN', expecting 3 additional bytes for model 'm'"
    assert refused(binary, bytes(5)) == (Code.INVALID_ARG, additional)
    unexpected = "unexpected additional input data for model 'm'"
    assert refused(binary, bytes(9)) == (Code.INVALID_ARG, unexpected)
    assert refused({"inputs": [IN]}, b"x") == (Code.INVALID_ARG, unexpected)


def test_bytes_that_are_no_whole_elements_are_kept_for_the_check_of_sizes() -> None:
    request, _ = decode(with_input(data=None, parameters={"binary_data_size": 7}), bytes(7))
    assert request.inputs["IN"].byte_size == 7


PARSE = "Unable to parse "
ONE_OF = (
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
    "'shared_memory_region' in 'parameters'. But"
)
NO_STRING = "attempt to access JSON non-string as string"
NO_UINT = "attempt to access JSON non-unsigned-integer as unsigned-integer"
NO_ARRAY = "attempt to access JSON non-array as array"
NO_BOOL = "attempt to access JSON non-boolean as boolean"


@rule("6.3.3", "6.4.1")
@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], PARSE + "'inputs': attempt to access non-existing object member 'inputs'"),
        ({"inputs": {}}, PARSE + f"'inputs': {NO_ARRAY}"),
        ({"id": 1}, PARSE + f"'id': {NO_STRING}"),
        ({"parameters": []}, "failed to get request params.: attempt to get members for non-object"),
        ({"parameters": {"sequence_id": -1}}, PARSE + f"'sequence_id': {NO_STRING}"),
        ({"parameters": {"sequence_end": 1}}, PARSE + f"'sequence_end': {NO_BOOL}"),
        ({"parameters": {"timeout": 1.5}}, PARSE + f"'timeout': {NO_UINT}"),
        ({"parameters": {"binary_data_output": 1}}, PARSE + f"'binary_data_output': {NO_BOOL}"),
        (with_input(name=None), PARSE + "'name': attempt to access non-existing object member 'name'"),
        (with_input(name=1), PARSE + f"'name': {NO_STRING}"),
        (with_input(datatype=1), PARSE + f"'datatype': {NO_STRING}"),
        (with_input(shape={}), PARSE + f"'shape': {NO_ARRAY}"),
        (with_input(shape=[-1]), PARSE + f"'shape': {NO_UINT}"),
        (with_input(data={}), PARSE + f"'data': {NO_ARRAY}"),
        (with_input(data=None, parameters={"binary_data_size": "8"}), PARSE + f"'binary_data_size': {NO_UINT}"),
        (with_output(binary_data=1), PARSE + f"'binary_data': {NO_BOOL}"),
        (with_output(classification=-1), f"Unable to set 'classification': {NO_UINT}"),
        ({"inputs": [IN], "outputs": {}}, PARSE + f"'outputs': {NO_ARRAY}"),
        ({"inputs": [IN], "outputs": [1]}, PARSE + "'name': attempt to access non-existing object member 'name'"),
    ],
)
def test_a_wrong_type_is_an_internal_error(document: Any, text: str) -> None:
    assert refused(document) == (Code.INTERNAL, text)


@rule("6.3.3", "6.3.5", "6.6.3")
@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"inputs": [{}]}, f"{ONE_OF} no field is set"),
        (with_input(parameters={"binary_data_size": 8}), f"{ONE_OF} set 'data' 'binary_data_size'"),
        (with_input(parameters={"shared_memory_region": "r"}), f"{ONE_OF} set 'data' 'shared_memory_region'"),
        (with_input(datatype="STRING"), "invalid datatype for input IN"),
        (
            with_input(shape=[2**63]),
            "invalid shape for input 'IN': shape [9223372036854775808] contains one or more invalid dimensions",
        ),
        (
            with_input(shape=[2**40, 2**40]),
            "invalid shape for input 'IN': shape [1099511627776,1099511627776] causes total element count to exceed "
            "maximum size of 9223372036854775807",
        ),
        (with_input(shape=[4, 2**60]), "byte size overflow for input 'IN'"),
        ({"inputs": [IN, IN]}, "[request id: <id_unknown>] input 'IN' already exists in request"),
        ({"inputs": [IN], "outputs": [{"name": "O"}, {"name": "O"}]}, "output 'O' already exists in request"),
        (
            {"parameters": {"triton_x": 1}},
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
        ),
        (
            {"parameters": {"a": None}},
            "parameter 'a' has invalid type. It should be either 'int', 'bool', or 'string'.",
        ),
        (
            with_output(shared_memory_region="r", classification=1),
            "Output can't set both 'shared_memory_region' and 'classification'",
        ),
        (
            with_output(shared_memory_region="r", binary_data=True),
            "Output can't set both 'shared_memory_region' and 'binary_data'",
        ),
    ],
)
def test_what_makes_no_sense_is_an_invalid_argument(document: Any, text: str) -> None:
    assert refused(document) == (Code.INVALID_ARG, text)


@rule("6.3.5")
def test_a_document_may_not_be_larger_than_the_limit_but_its_blobs_may() -> None:
    small = InferDecoder(SharedMemoryManager(), 200)
    head = json.dumps(with_input(shape=[250], data=None, parameters={"binary_data_size": 1000})).encode()
    small.decode(head + bytes(1000), len(head), "m", -1)
    raw = from_json({"name": "m", "input": [{"name": "IN", "data_type": "TYPE_INT8", "dims": [-1]}]})
    for body, json_size in ((head + b" " * 200, len(head) + 200), (bytes(201), 0)):
        with pytest.raises(TritonError) as raised:
            small.decode(body, json_size, "m", -1, config=raw)
        assert raised.value.message == (
            f"Request JSON size of {len(body)} bytes exceeds the maximum allowed value of 200 bytes. "
            "Use --http-max-input-size to increase the limit."
        )


@rule("6.5.3")
def test_a_body_without_json_is_the_only_input() -> None:
    config = from_json({"name": "m", "input": [{"name": "IN", "data_type": "TYPE_INT8", "dims": [-1]}]})
    request, outputs = DECODER.decode(b"\1\2", 0, "m", 3, config=config)
    assert (request.model_version, request.inputs["IN"].numpy().tolist()) == (3, [1, 2])
    assert outputs.default is BINARY and not outputs.by_name


@rule("6.3.3")
def test_a_number_beyond_a_double_is_no_number() -> None:
    documents = (with_input(shape=[1], data=["#"]), {"parameters": {"a": "#"}, "inputs": []}, with_input(name="#"))
    for number, document in itertools.product(("1e999", "-1e999", "9" * 400), documents):
        body = json.dumps(document).replace('"#"', number).encode()
        with pytest.raises(TritonError, match=r"Number too big to be stored in double\. at \d+$"):
            DECODER.decode(body, len(body), "m", -1)


@rule("6.5.1", "6.6.1")
def test_each_output_says_how_it_is_sent() -> None:
    names = {"J": {}, "B": {"binary_data": True}, "C": {"classification": 3, "binary_data": True}}
    outputs = [{"name": name, "parameters": parameters} for name, parameters in names.items()]
    request, found = decode({"inputs": [IN], "outputs": outputs, "parameters": {"binary_data_output": True}})
    assert request.requested_outputs == ("J", "B", "C")
    assert request.parameters is None
    assert found == RequestedOutputs(BINARY, {"J": JSON, "B": BINARY, "C": OutputPlan(binary=True, classes=3)})


_TEXT = st.sampled_from(["name", "shape", "datatype", "data", "parameters", "binary_data_size", "classification", "id"])
_LEAF = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from([2**63, 2**64, 2**70, 1.5, float("inf")]),
    st.sampled_from(["FP32", "BYTES", "IN", "BF16", ""]),
)
_VALUE = st.recursive(_LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=4))
_ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "name": st.just("IN") | _VALUE,
        "datatype": st.sampled_from([d.name for d in DataType]) | _VALUE,
        "shape": st.lists(st.integers(0, 3), max_size=3) | _VALUE,
        "data": st.lists(_LEAF, max_size=3) | _VALUE,
        "parameters": st.dictionaries(st.sampled_from(["binary_data_size", "shared_memory_region", "x"]), _VALUE),
    },
)
_DOCUMENT = st.fixed_dictionaries(
    {"inputs": st.lists(_ENTRY, max_size=3) | _VALUE},
    optional={"id": _VALUE, "parameters": st.dictionaries(_TEXT, _LEAF) | _VALUE, "outputs": st.lists(_ENTRY) | _VALUE},
)


@given(_DOCUMENT, st.binary(max_size=20), st.integers(-3, 3))
def test_any_document_is_decoded_or_refused(document: Any, blobs: bytes, lie: int) -> None:
    body = json.dumps(document).encode()
    size = min(max(len(body) + lie, 1), len(body) + len(blobs))
    try:
        request, _ = DECODER.decode(body + blobs, size, "m", -1)
    except TritonError as error:
        assert error.message
    else:
        assert all(tensor.data.flags.c_contiguous for tensor in request.inputs.values())


@given(st.binary(min_size=1, max_size=60))
def test_any_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(TritonError):
        DECODER.decode(body, len(body), "m", -1)


def config(*inputs: tuple[str, list[int]], batch: int = 0) -> Any:
    tensors = [{"name": f"IN{n}", "data_type": kind, "dims": dims} for n, (kind, dims) in enumerate(inputs)]
    return from_json({"name": "m", "max_batch_size": batch, "input": tensors})


@rule("6.5.3")
@pytest.mark.parametrize(
    ("wanted", "batch", "size", "shape"),
    [
        (("TYPE_FP32", [-1]), 0, 8, (2,)),
        (("TYPE_FP32", [-1]), 0, 0, (0,)),
        (("TYPE_FP32", [2, -1]), 4, 24, (1, 2, 3)),
        (("TYPE_INT8", [3]), 0, 3, (3,)),
    ],
)
def test_the_shape_is_what_the_body_fills(wanted: Any, batch: int, size: int, shape: tuple[int, ...]) -> None:
    request = raw_request(bytes(size), "m", -1, config(wanted, batch=batch))
    assert (request.inputs["IN0"].shape, request.inputs["IN0"].byte_size) == (shape, size)


@rule("6.5.3")
def test_the_body_is_one_string() -> None:
    tensor = raw_request(b"hello", "m", -1, config(("TYPE_STRING", [1]))).inputs["IN0"]
    assert tensor.to_bytes_array().tolist() == [b"hello"]


@rule("6.5.3")
@pytest.mark.parametrize(
    ("wanted", "size", "text"),
    [
        ([("TYPE_FP32", [4])], 12, "input byte size mismatch for input 'raw_input' for model 'm'. Expected 16, got 12"),
        ([("TYPE_FP32", [-1])], 7, "input byte size mismatch for input 'raw_input' for model 'm'. Expected 4, got 7"),
        (
            [("TYPE_FP32", [-1, -1])],
            8,
            "The shape of the raw input 'IN0' can not be deduced because there are more than one variable-sized "
            "dimension",
        ),
        ([("TYPE_STRING", [-1])], 8, "For BYTE datatype raw input 'IN0', the model must have input shape [1]"),
        (
            [("TYPE_FP32", [1]), ("TYPE_FP32", [1])],
            4,
            "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'm' model configuration",
        ),
    ],
)
def test_what_cannot_be_deduced(wanted: Any, size: int, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        raw_request(bytes(size), "m", -1, config(*wanted))
    assert raised.value.message == f"[request id: <id_unknown>] {text}"
