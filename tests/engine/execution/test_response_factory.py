from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.copies import Copies
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.observe.instrument import Instruments
from tritonlab.core.status import ModelError, NotFoundError
from tritonlab.engine.execution.response_factory import build_response, error_of, failure_of
from tritonlab.ipc.link.block_reader import COPY_BELOW, BlockReader
from tritonlab.ipc.link.link_reader import LinkReader
from tritonlab.stub._pb_stub.wire.message_bodies import Failure, ResponseError, TensorHeader
from tritonlab.stub._pb_stub.wire.serialization import WireError
from tritonlab.stub._pb_stub.wire.tensor_block import pack_tensors
from tritonlab.testing import FakeStub, MockClock

FP32, BYTES, BF16 = 11, 13, 14
COPIES = Copies(Instruments(), MockClock())


@pytest.fixture
def stub() -> Iterator[FakeStub]:
    reader = LinkReader()
    stub = FakeStub(reader, size=8 << 20)
    yield stub
    stub.close()
    reader.close()


def read(stub: FakeStub, *wires: Any) -> tuple[list[Any], int]:
    """Return the tensors of one block, and its offset."""
    block, headers = pack_tensors(stub.region, wires)
    assert block is not None
    reader = BlockReader(stub.link, block)
    tensors = list(reader.tensors(headers).values())
    reader.finish()
    return tensors, block


def test_small_tensors_are_copied_and_their_block_goes_back_at_once(stub: FakeStub) -> None:
    data = np.arange(COPY_BELOW // 4 - 1, dtype=np.float32)
    (tensor,), block = read(stub, ("A", FP32, [data.size], data))
    assert stub.link.freed == [block]
    stub.region.write(block, np.zeros_like(data))
    assert (tensor.numpy() == data).all()


def test_large_ones_are_views_that_hold_it(stub: FakeStub) -> None:
    data = np.arange(COPY_BELOW // 4, dtype=np.float32)
    (tensor,), block = read(stub, ("A", FP32, [2, data.size // 2], data))
    assert stub.link.freed == []
    assert tensor.shape == (2, data.size // 2)
    part = tensor.numpy()[1, 3:5]
    stub.region.write(block, data + 1)
    assert part.tolist() == (data[data.size // 2 :] + 1)[3:5].tolist()
    del tensor
    gc.collect()
    assert stub.link.freed == []
    del part
    gc.collect()
    assert stub.link.freed == [block]


def test_one_large_tensor_holds_the_block_for_all(stub: FakeStub) -> None:
    large, small = np.ones(COPY_BELOW, np.float32), np.zeros(1, np.float32)
    tensors, block = read(stub, ("S", FP32, [1], small), ("L", FP32, [large.size], large))
    assert stub.link.freed == []
    del tensors
    gc.collect()
    assert stub.link.freed == [block]


def test_datatypes(stub: FakeStub) -> None:
    text = b"\2\0\0\0ab\0\0\0\0"
    bits = np.array([0x3F80, 0x4000], np.uint16)
    (words, halves, nothing), _ = read(stub, ("T", BYTES, [2], text), ("H", BF16, [2], bits), ("N", FP32, [0, 3], b""))
    assert (words.datatype, words.numpy().tolist()) == (DataType.BYTES, [b"ab", b""])
    assert (halves.datatype, halves.data.tolist()) == (DataType.BF16, bits.tolist())
    assert nothing.numpy().shape == (0, 3)


def test_without_a_block_there_is_nothing_to_give_back(stub: FakeStub) -> None:
    reader = BlockReader(stub.link, None)
    tensor = reader.tensors([TensorHeader("E", FP32, [0], 0, 0, 0, 0)])["E"]
    reader.finish()
    assert tensor.shape == (0,)
    assert stub.link.freed == []


@pytest.mark.parametrize(
    "header",
    [
        ["A", FP32, [4], 0, 0, 0, 8],  # more elements than bytes
        ["A", FP32, [-2], 0, 0, 0, 8],
        ["A", FP32, ["2"], 0, 0, 0, 8],
        ["A", BYTES, [-1], 0, 0, 0, 8],
        ["A", BYTES, ["x"], 0, 0, 0, 8],
        ["A", 99, [2], 0, 0, 0, 8],
        ["A", FP32, [2], 0, 0, 1 << 40, 8],
        ["A", FP32, [2], 2, 0, 0, 8],
        "A",
    ],
)
def test_headers_of_no_honest_stub(stub: FakeStub, header: Any) -> None:
    with pytest.raises((WireError, TypeError, ValueError)):
        BlockReader(stub.link, 0).tensors([header])


def test_a_response_is_that_of_its_request(stub: FakeStub) -> None:
    request = InferenceRequest("m", {}, request_id="r")
    block, headers = pack_tensors(stub.region, [("OUT", FP32, [1], np.ones(1, np.float32))])
    reader = BlockReader(stub.link, block)
    response = build_response(request, reader, [headers, None, '{"a":1}'], 3, final=False, copies=COPIES)
    assert (response.model_name, response.model_version, response.request_id) == ("m", 3, "r")
    assert (response.parameters, response.final, response.error) == ({"a": 1}, False, None)
    assert response.outputs["OUT"].numpy() == [1]
    failed = build_response(request, reader, [headers, [2, "not there"], ""], 3, final=True, copies=COPIES)
    assert isinstance(failed.error, NotFoundError)
    assert (failed.error.message, failed.outputs, failed.final) == ("not there", {}, True)


EXCEPTION = {"type": "ValueError", "text": "x", "frames": [["model.py", 3, "execute"]], "cause": None}


def test_errors_by_their_code_or_with_their_exception() -> None:
    assert isinstance(error_of(ResponseError(2, "x")), NotFoundError)
    error = error_of(ResponseError(None, "text", EXCEPTION))
    assert isinstance(error, ModelError)
    assert error.exception is not None
    assert error.exception.frames[0].line == 3
    assert isinstance(error_of(ResponseError(None, "text")), ModelError)
    failure = failure_of(Failure("all", 1, EXCEPTION), ("line",))
    assert (failure.message, failure.log) == ("all", ("line",))
    assert failure_of(Failure("all")).exception is None


@pytest.mark.parametrize("code", [99, "x", -1])
def test_errors_of_no_honest_stub(code: Any) -> None:
    with pytest.raises(ValueError):
        error_of(ResponseError(code, "y"))
