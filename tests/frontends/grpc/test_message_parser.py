"""The parsing of messages: as protobuf does it, and as if none had come before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tritonlab.core.config.service_messages import messages
from tritonlab.core.status import TritonError
from tritonlab.frontends.grpc import message_parser
from tritonlab.frontends.grpc.infer_request_reader import InferRequestReader
from tritonlab.frontends.grpc.message_parser import MAX_HEADS, MessageParser, PlainHead, parse
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

Request = messages.ModelInferRequest
EXAMPLES = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))

reader = InferRequestReader(SharedMemoryManager())

# -- large messages are taken apart here, not by protobuf


def infer_request(**fields: Any) -> Any:
    found = Request(model_name="m", **fields)
    found.inputs.add(name="A", datatype="FP32", shape=[2])
    found.raw_input_contents.append(bytes(8))
    return found


@pytest.fixture(params=["small", "large"])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "large":
        monkeypatch.setattr(message_parser, "_LARGE", 0)


@pytest.mark.usefixtures("large")
def test_a_message_is_parsed_whole() -> None:
    message = infer_request(id="7", model_version="1")
    message.inputs.add(name="B", datatype="INT64", shape=[1]).contents.int64_contents.append(5)
    message.raw_input_contents.extend([b"", b"x" * 300])
    message.outputs.add(name="O").parameters["classification"].int64_param = 3
    message.parameters["double"].double_param = 1.5
    found, raw = parse(message.SerializeToString())
    assert [bytes(each) for each in raw] == [bytes(8), b"", b"x" * 300]
    del message.raw_input_contents[:], found.raw_input_contents[:]
    assert found == message


def test_large_data_is_not_copied() -> None:
    message = infer_request()
    message.raw_input_contents[0] = bytes(1 << 20)
    data = message.SerializeToString()
    view = parse(data)[1][0]
    assert isinstance(view, memoryview)
    assert view.obj is data


def test_many_fields_are_left_to_protobuf() -> None:
    """Read one by one, 4 million of them, 8 MB, hold up all calls for 9 s."""
    message = infer_request()
    message.raw_input_contents.extend([b""] * 100_000)
    data = message.SerializeToString()
    assert message_parser._without_raw(data) is None
    found, raw = parse(data)
    assert (found, len(raw)) == (message, 100_001)


#: Tags and lengths of the message's fields, right and wrong, among them groups and numbers that are too long.
PIECES = [
    b"\x3a\x02ab", b"\x3a\x00", b"\x0a\x01m", b"\x1a\x01\xff", b"\x2a\x03\x0a\x01A", b"\xba\x00\x01x",
    b"\x3a\x82\x00ab", b"\x3a", b"\x38\x01", b"\x3b", b"\x3c", b"\x3d\0\0\0\0", b"\x39" + bytes(8), b"\x3e",
    b"\x2a\x0c\x0a\x01A\x12\x04FP32\x1a\x01\x02", b"\x3a\x08abcdefgh",
    b"\x80" * 11, b"\x00", b"\x7f", b"\x82\x80\x80\x80\x80\x01\x00", b"\xc2\x3e\x01x",
]  # fmt: skip


@EXAMPLES
@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=8).map(b"".join))
def test_both_parsers_agree_on_any_bytes(data: bytes) -> None:
    def outcome(whole: bool) -> Any:
        limit, message_parser._LARGE = message_parser._LARGE, 1 << 30 if whole else 0
        try:
            message, raw = parse(data)
        except DecodeError:
            return None
        finally:
            message_parser._LARGE = limit
        contents = [bytes(each) for each in raw]
        del message.raw_input_contents[:]
        return message, contents

    assert outcome(whole=False) == outcome(whole=True)


# -- what a message says beside its tensors is remembered


def content(parser: MessageParser, data: bytes) -> Any:
    """Return all that a message holds, or the text of the fault in it."""
    try:
        request, plans, empty_final = reader.read(*parser.parse(data), -1)
    except DecodeError:
        return "not a message"
    except TritonError as error:
        return error.message
    inputs = {name: (each.datatype, each.shape, each.data.tobytes()) for name, each in request.inputs.items()}
    options = (request.request_id, request.correlation_id, request.priority, request.timeout, request.parameters)
    return request.model_name, inputs, list(request.requested_outputs), options, plans, empty_final


def plain_message(size: int = 8) -> Any:
    message = infer_request(model_version="3")
    message.inputs.add(name="S", datatype="BYTES", shape=[1])
    message.outputs.add(name="O")
    message.raw_input_contents.append(bytes(size))
    return message


@pytest.mark.parametrize("size", [0, 8, 0x7F, 0x80, 1 << 20])
def test_a_head_that_came_before_is_not_parsed_again(size: int) -> None:
    parser = MessageParser()
    first = content(parser, plain_message(100).SerializeToString())
    data = plain_message(size).SerializeToString()
    head, tensors = parser.parse(data)
    assert isinstance(head, PlainHead) and (head.model_name, head.model_version, head.id) == ("m", "3", "")
    assert isinstance(tensors, dict) and tensors["S"].data.tobytes() == bytes(size)
    assert np.shares_memory(tensors["S"].data, np.frombuffer(data, np.uint8)) or not size
    assert content(parser, data) == content(MessageParser(), data) != first


def test_what_is_not_plain_is_parsed_each_time() -> None:
    changes: list[Callable[[Any], object]] = [
        lambda message: message.MergeFrom(Request(id="7")),
        lambda message: message.MergeFrom(Request(model_name="m" * 128)),
        lambda message: setattr(message.parameters["own"], "int64_param", 1),
        lambda message: setattr(message.inputs[0].parameters["own"], "int64_param", 1),
        lambda message: setattr(message.outputs[0].parameters["classification"], "int64_param", 1),
        lambda message: message.inputs[1].contents.bytes_contents.append(b"x"),
        lambda message: setattr(message.inputs[1], "name", "A"),
    ]
    for change in changes:
        message = plain_message()
        change(message)
        parser = MessageParser()
        found = [parser.parse(message.SerializeToString())[0] for _ in range(2)]
        assert found == [message, message]


def test_other_bytes_behind_a_known_head_are_parsed_whole() -> None:
    parser = MessageParser()
    parser.parse(plain_message().SerializeToString())
    for raw in ([bytes(8)], [bytes(8)] * 3, [bytes(7), bytes(8)], []):
        message = plain_message()
        del message.raw_input_contents[:]
        message.raw_input_contents.extend(raw)
        data = message.SerializeToString()
        assert content(parser, data) == content(MessageParser(), data)
    whole = plain_message(300).SerializeToString()
    for data in (whole[:-1], whole + b"\x12\x014", whole + b"\x3a\x05x", whole[: -len(bytes(300)) - 1]):
        assert content(parser, data) == content(MessageParser(), data)


def test_only_so_many_heads_are_remembered() -> None:
    parser = MessageParser()
    for number in range(3 * MAX_HEADS):
        message = plain_message()
        message.model_name = f"m{number}"
        parser.parse(message.SerializeToString())
    assert 0 < len(parser._heads) <= MAX_HEADS


@EXAMPLES
@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=8).map(b"".join))
def test_any_bytes_mean_the_same_when_they_come_again(data: bytes) -> None:
    parser = MessageParser()
    assert content(parser, data) == content(parser, data) == content(MessageParser(), data)


#: What may follow a head that ends with inputs: tensors, lengths beyond the data, and fields out of order.
TAILS = [
    b"\x3a\x08abcdefgh", b"\x3a\x00", b"\x3a\x03abc", b"\x3a\x88\x00abcdefgh",
    b"\x3a" + b"\xff" * 9 + b"\x01", b"\x3a" + b"\xff" * 9 + b"\x7f",
    b"\x12\x011", b"\x1a\x017", b"\x32\x03\x0a\x01O", b"\x0a\x01n", b"\x48\x01",
    b"\x2a\x0c\x0a\x01B\x12\x04FP32\x1a\x01\x02", b"\x2a\x0d\x0a\x01S\x12\x05BYTES\x1a\x01\x01",
]  # fmt: skip


@EXAMPLES
@given(*[st.lists(st.sampled_from(TAILS), max_size=4).map(b"".join)] * 2, st.booleans())
def test_what_followed_a_head_the_last_time_means_nothing(before: bytes, now: bytes, text: bool) -> None:
    message = infer_request()
    if text:
        message.inputs.add(name="T", datatype="BYTES", shape=[1])
    del message.raw_input_contents[:]
    head = message.SerializeToString()
    parser = MessageParser()
    content(parser, head + before)
    assert content(parser, head + now) == content(MessageParser(), head + now)
