"""gRPC as a tap sees it, and the requests that it makes of it."""

from __future__ import annotations

import gzip
import struct
from typing import Any

import hpack
import pytest

from tritonlab.core.config.service_messages import messages
from tritonlab.core.status import Code
from tritonlab.frontends.shared.request_memory import RequestMemory
from tritonlab.tools.capture.tap import tapped_grpc
from tritonlab.tools.capture.tap.frame_reader import PREFACE
from tritonlab.tools.capture.tap.request_reading import NO_ROOM, TOO_LARGE
from tritonlab.tools.capture.tap.tapped_grpc import TappedGrpc

from .sinks import KeptRequests, sink_of
from .test_frame_reader import DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, frame

STREAM = "ModelStreamInfer"


def packed(message: Any, encoding: str = "") -> bytes:
    data = message.SerializeToString()
    data = gzip.compress(data) if encoding else data
    return struct.pack(">BI", bool(encoding), len(data)) + data


def question(number: int, ident: str = "", model: str = "m", **parameters: bool) -> Any:
    message = messages.ModelInferRequest(model_name=model, id=ident)
    message.inputs.add(name="IN", datatype="INT32", shape=[1])
    message.raw_input_contents.append(struct.pack("<i", number))
    for key, value in parameters.items():
        message.parameters[key].bool_param = value
    return message


def reply(number: int, ident: str = "", model: str = "m", final: bool | None = None) -> Any:
    message = messages.ModelInferResponse(model_name=model, model_version="1", id=ident)
    message.outputs.add(name="OUT", datatype="INT32", shape=[1])
    message.raw_output_contents.append(struct.pack("<i", number))
    if final is not None:
        message.parameters["triton_final_response"].bool_param = final
    return message


def streamed(response: Any, error: str = "") -> Any:
    return messages.ModelStreamInferResponse(infer_response=response, error_message=error)


class Scene:
    """A connection; each frame comes a nanosecond after the one before."""

    def __init__(self) -> None:
        self.kept = KeptRequests()
        self.connection = TappedGrpc(sink_of(self.kept), "server")
        self._encoders = hpack.Encoder(), hpack.Encoder()
        self._at = 0
        self.connection.from_client(PREFACE, 0)

    def client(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self._at += 1
        self.connection.from_client(frame(kind, flags, stream, payload), self._at)

    def server(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self._at += 1
        self.connection.from_server(frame(kind, flags, stream, payload), self._at)

    def call(self, stream: int, method: str = "ModelInfer", **more: str) -> None:
        headers = {":path": f"/inference.GRPCInferenceService/{method}", **more}
        self.client(HEADERS, END_HEADERS, stream, self._encoders[0].encode(list(headers.items())))

    def send(self, stream: int, message: Any, encoding: str = "") -> None:
        self.client(DATA, 0, stream, packed(message, encoding))

    def answer(self, stream: int, message: Any) -> None:
        self.server(DATA, 0, stream, packed(message))

    def end(self, stream: int, status: int = 0, text: str = "") -> None:
        headers = [("grpc-status", str(status)), ("grpc-message", text)]
        self.server(HEADERS, END_HEADERS | END_STREAM, stream, self._encoders[1].encode(headers))

    @property
    def found(self) -> list[Any]:
        return [one.exchange for one in self.kept.found]


def inputs(exchange: Any) -> list[int]:
    found: list[int] = exchange.request.inputs["IN"].numpy().tolist()
    return found


def outputs(exchange: Any) -> list[int]:
    return [number for answer in exchange.answers() for number in answer["OUT"].tolist()]


def test_calls_side_by_side() -> None:
    scene = Scene()
    scene.call(1)
    scene.call(3, **{"grpc-encoding": "gzip"})
    scene.call(5, "ServerLive")
    scene.send(3, question(3, "three"), "gzip")
    scene.send(1, question(1))
    assert not scene.connection.is_idle and scene.connection.open_count == 2
    scene.answer(1, reply(10))
    scene.answer(3, reply(30))
    for stream in (3, 5, 1):
        scene.end(stream)
    assert scene.connection.is_idle
    assert [(inputs(each), outputs(each)) for each in scene.found] == [([3], [30]), ([1], [10])]
    assert all(each.answered for each in scene.found) and scene.found[0].request.request_id == "three"
    assert scene.kept.found[0].protocol == "grpc" and scene.found[1].total_ns == 1


def test_errors_and_cancellation() -> None:
    scene = Scene()
    for stream in (1, 3, 5, 7):
        scene.call(stream)
        scene.send(stream, question(stream))
    scene.end(1, 5, "no%20such")
    scene.client(RST_STREAM, 0, 3, struct.pack(">I", 8))
    scene.server(RST_STREAM, 0, 5, struct.pack(">I", 2))
    scene.connection.close(99, "server")
    first, second, third, fourth = scene.found
    assert first.error.code is Code.NOT_FOUND and first.error_text == "no such" and not first.unanswered
    assert second.cancelled and second.unanswered == "the client cancelled the call"
    assert third.failed and third.unanswered == "the server reset the call with HTTP/2 code 2"
    assert fourth.unanswered == "the server closed the connection"


def test_a_stream_by_ids() -> None:
    scene = Scene()
    scene.call(1, STREAM)
    scene.send(1, question(1, "a", triton_enable_empty_final_response=True))
    scene.send(1, question(2, "b"))
    scene.send(1, question(3, "c"))
    scene.answer(1, streamed(reply(10, "a", final=False)))
    scene.answer(1, streamed(reply(20, "b", final=True)))
    scene.answer(1, streamed(reply(11, "a", final=False)))
    assert [inputs(each) for each in scene.found] == [[2]]
    empty = messages.ModelInferResponse(model_name="m", id="a")
    empty.parameters["triton_final_response"].bool_param = True
    scene.answer(1, streamed(empty))
    scene.answer(1, streamed(messages.ModelInferResponse(id="c"), "refused"))
    scene.send(1, question(4, "d"))
    scene.answer(1, streamed(reply(40, "d", final=False)))
    scene.end(1)
    assert [(inputs(each), outputs(each)) for each in scene.found] == [
        *(([2], [20]), ([1], [10, 11]), ([3], [])),
        ([4], [40]),
    ]
    assert [each.answered for each in scene.found] == [True, True, False, True]
    assert scene.found[2].error_text == "refused" and not any(each.unanswered for each in scene.found)


def test_a_stream_without_ids() -> None:
    scene = Scene()
    scene.call(1, STREAM)
    for number in (1, 2):  # one at a time
        scene.send(1, question(number))
        scene.answer(1, streamed(reply(number * 10, final=True)))
    assert [(inputs(each), outputs(each)) for each in scene.found] == [([1], [10]), ([2], [20])]
    scene.send(1, question(3))
    scene.send(1, question(4))
    scene.send(1, question(5, model="other"))
    scene.answer(1, streamed(reply(40, final=True)))
    scene.answer(1, streamed(reply(50, model="other", final=True)))
    scene.answer(1, streamed(reply(30, final=True)))
    later = scene.found[2:]
    assert [(inputs(each), outputs(each), bool(each.unanswered)) for each in later] == [
        *(([3], [], True), ([5], [50], False), ([4], [], True)),
    ]


def test_a_model_without_a_response_and_a_stream_that_fails() -> None:
    scene = Scene()
    scene.call(1, STREAM)
    scene.send(1, question(1, "a"))
    scene.end(1)
    scene.call(3, STREAM)
    scene.send(3, question(2, "b"))
    scene.answer(3, streamed(reply(20, "b", final=False)))
    scene.end(3, 13, "crashed")
    none, failed = scene.found
    assert none.answered and not none.answers() and not none.unanswered
    assert failed.error.code is Code.INTERNAL and outputs(failed) == [20]


def test_requests_that_cannot_be_read() -> None:
    scene = Scene()
    scene.call(1, **{"grpc-encoding": "snappy"})
    scene.client(DATA, 0, 1, struct.pack(">BI", 1, 3) + b"xyz")
    scene.answer(1, reply(5))
    scene.end(1)
    (one,) = scene.found
    assert "compressed with 'snappy'" in one.unsent and outputs(one) == [5]


@pytest.mark.parametrize("is_stream", [True, False])
def test_shared_memory_of_a_client(is_stream: bool) -> None:
    scene = Scene()
    message = question(1, "a")
    del message.raw_input_contents[:]
    for tensor in (message.inputs[0], message.outputs.add(name="OUT")):
        tensor.parameters["shared_memory_region"].string_param = "r"
        tensor.parameters["shared_memory_byte_size"].int64_param = 4
    answer = reply(1, "a", final=True)
    answer.raw_output_contents[0] = b""
    scene.call(1, STREAM if is_stream else "ModelInfer")
    scene.send(1, message)
    scene.answer(1, streamed(answer) if is_stream else answer)
    scene.end(1)
    (one,) = scene.kept.found
    assert one.exchange.unsent.startswith("input 'IN' was in the client's shared memory")
    assert set(one.withheld) == {"input.IN", "output.0.OUT"} and one.exchange.answered


def test_a_stream_without_an_end_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapped_grpc, "MOST_MESSAGE", 4000)
    scene = Scene()
    scene.call(1, STREAM)
    scene.send(1, question(1, "endless"))
    scene.send(1, question(2, "short"))
    for number in range(100):
        scene.answer(1, streamed(reply(number, "endless")))
    scene.answer(1, streamed(reply(7, "short", final=True)))
    scene.end(1)
    assert [inputs(each) for each in scene.found] == [[2]] and scene.kept.left_out == {TOO_LARGE: 1}


def test_requests_that_a_server_does_not_answer_take_no_more_memory_than_allowed() -> None:
    scene = Scene()
    scene.connection.memory = RequestMemory(1 << 20)
    scene.call(1, STREAM)

    def send(ident: str) -> None:
        large = question(0, ident)
        large.raw_input_contents[0] = bytes(600_000)
        scene.send(1, large)

    for ident in "abcde":
        send(ident)
    assert scene.connection.open_count == 3 and scene.kept.left_out == {NO_ROOM: 2}
    for ident in "ab":
        scene.answer(1, streamed(reply(7, ident, final=True)))
    send("f")
    for ident in "fdc":
        scene.answer(1, streamed(reply(7, ident, final=True)))
    assert [each.request.request_id for each in scene.found] == ["a", "b", "f", "c"]


def test_a_parameter_of_an_answer_without_a_value_is_left_out() -> None:
    scene = Scene()
    scene.call(1)
    scene.send(1, question(1))
    response = reply(10)
    response.parameters["nothing"].SetInParent()
    response.parameters["one"].int64_param = 1
    scene.answer(1, response)
    scene.end(1)
    (found,) = scene.found
    assert outputs(found) == [10] and found.responses[0].parameters == {"one": 1}
