"""Messages turned into requests, and responses into messages: protobuf reads what is written, and a bad message,
whatever is wrong with it, gives Triton's error and nothing else.
"""

from __future__ import annotations

import errno
import mmap
import re
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2, service_pb2

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.request_rules import RequestRules
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InternalError, InvalidArgumentError, TritonError, UnavailableError
from tritonlab.frontends.grpc import infer_request_reader
from tritonlab.frontends.grpc.infer_request_reader import InferRequestReader, checked_version
from tritonlab.frontends.grpc.infer_response_writer import (
    InferResponseWriter,
    OutputsWanted,
    failed,
    refused,
    stream_error,
    varint,
)
from tritonlab.frontends.grpc.message_parser import parse
from tritonlab.frontends.shared.infer_exchange import InferExchange, OutputPlan
from tritonlab.frontends.shared.request_memory import RequestMemory
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager
from tritonlab.server.inference_server import InferenceServer
from tritonlab.server.models.model_lifecycle import ModelVersion

Request = service_pb2.ModelInferRequest
Response = service_pb2.ModelInferResponse
StreamResponse = service_pb2.ModelStreamInferResponse
EXAMPLES = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))

writer = InferResponseWriter(InferExchange(cast(InferenceServer, None), SharedMemoryManager()))
reader = InferRequestReader(SharedMemoryManager())


def read(message: Any) -> InferenceRequest:
    return reader.read(message, message.raw_input_contents, -1)[0]


# -- responses


def response(**fields: Any) -> InferenceResponse:
    return InferenceResponse(**{"model_name": "m", "model_version": 3, "request_id": "7", **fields})


def zeros(size: int) -> dict[str, Tensor]:
    """Return an output of so many bytes, which takes no memory until it is read."""
    return {"OUT": Tensor(DataType.UINT8, (size,), np.zeros(size, np.uint8))}


def test_a_response_beyond_grpcs_limit_is_refused_in_tritons_words() -> None:
    """The text and the sizes are those of 2.51, for a model of the same name and version."""
    fields = {"model_name": "zeros", "model_version": 1, "request_id": ""}
    text = "Response has byte size 2147483675 which exceeds gRPC's byte size limit 2147483647."
    for write in (writer.response, writer.stream_response):
        with pytest.raises(InvalidArgumentError) as raised:
            write(response(**fields, outputs=zeros(2147483638)))
        assert raised.value.message == text


def test_a_response_beyond_the_servers_limit_is_refused_before_it_is_written() -> None:
    small = InferResponseWriter(
        InferExchange(cast(InferenceServer, None), SharedMemoryManager()), RequestMemory(2 << 20)
    )
    assert len(small.response(response(outputs=zeros((2 << 20) - 100)))) <= 2 << 20
    for write in (small.response, small.stream_response):
        with pytest.raises(
            InvalidArgumentError, match=r"The response has \d+ bytes, more than the limit of 2097152; '--"
        ):
            write(response(outputs=zeros(2 << 20)))


def test_a_response_for_which_there_is_no_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[int] = []

    def mapped(fd: int, size: int) -> Any:
        wanted.append(size)
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", mapped)
    text = "There is no memory for a response of 2097186 bytes: Cannot allocate memory."
    with pytest.raises(UnavailableError) as raised:
        writer.response(response(outputs=zeros(2 << 20)))
    assert raised.value.message == text and wanted == [2 * 2097186]
    writer.response(response(outputs=zeros(1000)))  # a small one is not looked at


def test_a_response_is_what_protobuf_reads() -> None:
    outputs = {
        "A": Tensor(DataType.FP32, (2, 2), np.arange(4, dtype=np.float32).reshape(2, 2)),
        "scalar": Tensor(DataType.INT8, (), np.array(-1, np.int8)),
        "none": Tensor(DataType.FP64, (0, 3), np.empty((0, 3))),
        "text": Tensor(DataType.BYTES, (1,), np.frombuffer(b"\1\0\0\0x", np.uint8)),
        "half": Tensor(DataType.FP16, (1,), np.array([1], np.float16)),
        "truth": Tensor(DataType.BOOL, (300,), np.ones(300, np.bool_)),
    }
    parameters = {"yes": True, "no": False, "int": -5, "big": 2**62, "text": "\u00fc", "float": 1.5}
    found = Response.FromString(writer.response(response(outputs=outputs, parameters=parameters)))
    assert (found.model_name, found.model_version, found.id) == ("m", "3", "7")
    assert [(o.name, o.datatype, tuple(o.shape)) for o in found.outputs] == [
        (name, tensor.datatype.name, tensor.shape) for name, tensor in outputs.items()
    ]
    assert list(found.raw_output_contents) == [tensor.data.tobytes() for tensor in outputs.values()]
    read = {k: getattr(p, p.WhichOneof("parameter_choice")) for k, p in found.parameters.items()}
    assert read == parameters
    assert [type(value) for value in read.values()] == [type(parameters[key]) for key in read]


@pytest.mark.parametrize("final", [True, False])
def test_a_streamed_response_says_whether_it_is_the_last(final: bool) -> None:
    large = np.zeros(100_000, np.float32)
    outputs = {"A": Tensor(DataType.FP32, large.shape, large)}
    found = StreamResponse.FromString(writer.stream_response(response(outputs=outputs, final=final)))
    assert not found.error_message
    inner = found.infer_response
    assert inner.parameters["triton_final_response"].bool_param is final
    assert inner.raw_output_contents[0] == large.tobytes()
    assert inner.SerializeToString() == Response.FromString(inner.SerializeToString()).SerializeToString()


def test_an_empty_final_response_has_no_version() -> None:
    found = StreamResponse.FromString(writer.stream_response(response(empty=True))).infer_response
    assert (found.model_name, found.model_version, found.id) == ("m", "", "7")


def test_errors_of_a_stream() -> None:
    found = StreamResponse.FromString(stream_error("bad \u00fc", refused("q")))
    assert (found.error_message, found.infer_response) == ("bad \u00fc", Response(id="q"))
    found = StreamResponse.FromString(stream_error("bad", failed("m", "1x", "", True)))
    assert (found.infer_response.model_name, found.infer_response.model_version) == ("m", "1x")
    assert found.infer_response.parameters["triton_final_response"].bool_param
    assert StreamResponse.FromString(stream_error("bad", refused(""))).HasField("infer_response")


def test_an_output_too_large_for_its_region() -> None:
    outputs = {"A": Tensor(DataType.FP32, (2,), np.zeros(2, np.float32))}
    wanted = OutputsWanted({"A": OutputPlan("r", 0, 4)}, cast(ModelVersion, None), InferenceRequest("m", {}))
    with pytest.raises(InternalError, match=re.escape("for output 'A' (4 bytes) should be at least 8 bytes to hold")):
        writer.response(response(outputs=outputs), wanted)


@given(st.integers(-(2**63), 2**64 - 1))
def test_numbers_are_written_as_protobuf_does(number: int) -> None:
    message = service_pb2.InferParameter.FromString(b"\x10" + varint(number))
    assert message.int64_param & 0xFFFFFFFFFFFFFFFF == number & 0xFFFFFFFFFFFFFFFF


@EXAMPLES
@given(
    name=st.text(max_size=200),
    id=st.text(max_size=200),
    shape=st.lists(st.integers(0, 4), max_size=4),
    parameters=st.dictionaries(
        st.text(max_size=20),
        st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=150) | st.floats(allow_nan=False),
        max_size=4,
    ),
)
def test_any_response_is_what_protobuf_reads(name: str, id: str, shape: list[int], parameters: dict[str, Any]) -> None:
    data = np.arange(np.prod(shape, dtype=int), dtype=np.int64)
    outputs = {name: Tensor(DataType.INT64, tuple(shape), data)}
    sent = response(model_name=name, request_id=id, outputs=outputs, parameters=parameters)
    found = Response.FromString(writer.response(sent))
    assert (found.model_name, found.id, found.outputs[0].name) == (name, id, name)
    assert list(found.outputs[0].shape) == shape
    assert found.raw_output_contents[0] == data.tobytes()
    assert {k: getattr(p, p.WhichOneof("parameter_choice")) for k, p in found.parameters.items()} == parameters
    streamed = StreamResponse.FromString(writer.stream_response(sent)).infer_response
    del streamed.parameters["triton_final_response"]
    found.parameters.pop("triton_final_response", None)
    assert streamed == found


# -- requests


def infer_request(**fields: Any) -> Any:
    found = Request(model_name="m", **fields)
    found.inputs.add(name="A", datatype="FP32", shape=[2])
    found.raw_input_contents.append(bytes(8))
    return found


def test_the_fields_of_a_request() -> None:
    message = infer_request(id="7")
    for key, kind, value in (
        ("sequence_id", "int64_param", -1),
        ("sequence_start", "bool_param", True),
        ("sequence_end", "bool_param", True),
        ("priority", "uint64_param", 3),
        ("timeout", "int64_param", -1),
        ("own", "double_param", 1.5),
        ("triton_enable_empty_final_response", "bool_param", True),
    ):
        setattr(message.parameters[key], kind, value)
    message.outputs.add(name="B")
    request, plans, empty_final = reader.read(message, message.raw_input_contents, 5)
    assert (request.model_name, request.model_version, request.request_id) == ("m", 5, "7")
    assert (request.correlation_id, request.flags) == (2**64 - 1, SEQUENCE_START | SEQUENCE_END)
    assert (request.priority, request.timeout) == (3, 2**64 - 1)
    assert (request.parameters, request.requested_outputs) == ({"own": 1.5}, ["B"])
    assert (plans, empty_final) == (None, True)
    assert request.inputs["A"].numpy().tolist() == [0, 0]


@pytest.mark.parametrize(("text", "number"), [("", -1), ("1", 1), ("0", 0), ("-0", 0)])
def test_versions(text: str, number: int) -> None:
    assert checked_version(text) == number


@pytest.mark.parametrize("text", ["-1", " -07"])
def test_negative_versions(text: str) -> None:
    wanted = f"invalid model version specified '{text}' , version should be an integral value > 0"
    with pytest.raises(InvalidArgumentError, match=f"^{re.escape(wanted)}$"):
        checked_version(text)


def forwarded(pattern: str, *metadata: tuple[str, str | bytes]) -> dict[str, Any] | None:
    forwarder = InferRequestReader(SharedMemoryManager(), re.compile(pattern).search)
    message = infer_request()
    message.parameters["own"].int64_param = 1
    return forwarder.read(message, message.raw_input_contents, -1, metadata)[0].parameters


def test_headers_become_parameters() -> None:
    found = forwarded("^my-", ("my-a", "1"), ("your-b", "2"), ("my-c-bin", b"\xff"))
    assert found == {"own": 1, "my-a": "1", "my-c-bin": "\xff"}
    with pytest.raises(InvalidArgumentError, match="Header 'priority' is reserved for Triton usage and cannot be"):
        forwarded(".*", ("priority", "1"))


@pytest.mark.parametrize(
    ("field", "datatype", "values"),
    [
        ("fp32_contents", DataType.FP32, np.arange(100_001, dtype=np.float32) / 4),
        ("int_contents", DataType.INT8, np.arange(-50_000, 50_000, dtype=np.int32)),
        ("bool_contents", DataType.BOOL, np.arange(70_000) % 3 == 0),
    ],
)
def test_many_elements_are_read_in_pieces_between_which_others_run(
    monkeypatch: pytest.MonkeyPatch, field: str, datatype: DataType, values: Any
) -> None:
    turns: list[None] = []
    monkeypatch.setattr(infer_request_reader, "pause_work", lambda: turns.append(None))
    message = Request(model_name="m")
    tensor = message.inputs.add(name="A", datatype=datatype.name, shape=[len(values)])
    getattr(tensor.contents, field).extend(values.tolist())
    found = read(message).inputs["A"].data
    assert np.array_equal(found, values.astype(datatype.numpy)) and found.dtype == datatype.numpy
    assert len(turns) == len(values) // (1 << 14)


@st.composite
def messages(draw: st.DrawFn) -> Any:
    """Draw a request for `rules` below that may be wrong in every way a message can be."""
    message = Request(model_name="m", id=draw(st.sampled_from(["", "7"])))
    word = st.sampled_from(["FP32", "BYTES", "INT8", "FP16", "", "fp32", "XX"])
    name = st.sampled_from(["A", "S", "X", ""])
    dims = st.lists(st.sampled_from([-(2**63), -2, -1, 0, 1, 2, 3, 2**40, 2**63 - 1]), max_size=3)
    for _ in range(draw(st.integers(0, 3))):
        tensor = message.inputs.add(name=draw(name), datatype=draw(word), shape=draw(dims))
        for field, values in (
            ("fp32_contents", st.floats(width=32)), ("bytes_contents", st.binary(max_size=5)),
            ("int_contents", st.integers(-(2**31), 2**31 - 1)), ("bool_contents", st.booleans()),
        ):  # fmt: skip
            if draw(st.integers(0, 4)) == 0:
                getattr(tensor.contents, field).extend(draw(st.lists(values, max_size=4)))
        if draw(st.integers(0, 6)) == 0:
            key = draw(st.sampled_from(["shared_memory_region", "shared_memory_offset", "shared_memory_byte_size"]))
            tensor.parameters[key].int64_param = draw(st.integers(-5, 5))
    message.raw_input_contents.extend(draw(st.lists(st.binary(max_size=16), max_size=3)))
    for _ in range(draw(st.integers(0, 2))):
        output = message.outputs.add(name=draw(name))
        if draw(st.booleans()):
            output.parameters["classification"].int64_param = draw(st.integers(-1, 2))
    for key in draw(st.lists(st.sampled_from(["sequence_id", "priority", "timeout", "triton_x", "own"]), max_size=2)):
        kind = draw(st.sampled_from(["int64_param", "bool_param", "string_param", "uint64_param", "double_param"]))
        setattr(message.parameters[key], kind, {"bool_param": True, "string_param": "x"}.get(kind, 1))
    return message


def rules() -> RequestRules:
    config = model_config_pb2.ModelConfig(name="m", backend="python")
    config.input.add(name="A", data_type="TYPE_FP32", dims=[-1], optional=True)
    config.input.add(name="S", data_type="TYPE_STRING", dims=[-1], optional=True)
    config.output.add(name="A", data_type="TYPE_FP32", dims=[-1])
    return RequestRules(config, model_name="m")


RULES = rules()


@EXAMPLES
@given(messages())
def test_a_bad_message_is_refused_and_a_good_one_means_what_it_says(message: Any) -> None:
    """No exception but a TritonError; what passes the rules has as many elements as its shape says."""
    parsed, raw = parse(message.SerializeToString())
    try:
        request = reader.read(parsed, raw, -1)[0]
        RULES.check(request)
    except TritonError as error:
        assert error.message
        return
    for tensor in request.inputs.values():
        assert tensor.numpy().shape == tensor.shape
