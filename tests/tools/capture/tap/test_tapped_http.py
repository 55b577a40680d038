"""HTTP as a tap sees it, whole and in pieces, and the requests that it makes of it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence

import pytest

from tritonlab.core.status import Code
from tritonlab.tools.capture.tap import tapped_http
from tritonlab.tools.capture.tap.frame_reader import NotReadable
from tritonlab.tools.capture.tap.request_reading import TOO_LARGE
from tritonlab.tools.capture.tap.tapped_http import TappedHttp

from .sinks import KeptRequests, KnownModels, sink_of

INFER = "/v2/models/m/infer"


def request(body: bytes, path: str = INFER, *headers: str, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def reply(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def document(number: int, kind: str = "inputs", name: str = "IN", **more: object) -> bytes:
    entry = {"name": name, "datatype": "INT32", "shape": [1], "data": [number]}
    return json.dumps({kind: [entry], **more}).encode()


def answer(number: int) -> bytes:
    return document(number, "outputs", "OUT", model_name="m", model_version="2")


class Scene:
    """A connection, to which pieces of `size` bytes come, one each nanosecond."""

    def __init__(self, size: int = 1 << 20) -> None:
        self.kept = KeptRequests()
        self.connection = TappedHttp(sink_of(self.kept), "server")
        self.size = size
        self.at = 0

    def send(self, *texts: bytes) -> None:
        for piece in self._pieces(texts):
            self.connection.from_client(piece, self.at)

    def answer(self, *texts: bytes) -> None:
        for piece in self._pieces(texts):
            self.connection.from_server(piece, self.at)

    def _pieces(self, texts: Sequence[bytes]) -> Sequence[bytes]:
        self.at += 1
        return [text[start : start + self.size] for text in texts for start in range(0, len(text), self.size)]

    @property
    def pairs(self) -> list[tuple[list[int], list[int]]]:
        """Return input and output of each request."""
        found = [one.exchange for one in self.kept.found]
        return [(each.request.inputs["IN"].numpy().tolist(), each.outputs["OUT"].numpy().tolist()) for each in found]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_pipelined_requests_and_chunks(size: int) -> None:
    scene = Scene(size)
    chunked = (
        b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (document(2)[:9], document(2)[9:])) + b"0\r\n\r\n"
    )
    head = b"POST %b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % INFER.encode()
    scene.send(request(document(1, id="first")), request(b"", "/v2", method="GET"), head + chunked)
    assert not scene.connection.is_idle and scene.connection.open_count == 2
    scene.answer(reply(answer(10)), reply(b"{}"), reply(answer(20)))
    assert scene.pairs == [([1], [10]), ([2], [20])]
    assert scene.connection.is_idle
    first = scene.kept.found[0]
    assert (first.at_ns, first.protocol, first.exchange.request.request_id) == (1, "http", "first")
    assert first.exchange.total_ns == 1 and first.exchange.responses[0].model_version == 2


def test_a_head_has_no_body_and_100_is_no_answer() -> None:
    scene = Scene()
    scene.send(request(b"", "/v2/health/live", method="HEAD"))
    scene.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")
    scene.send(request(document(1), INFER, "Expect: 100-continue"))
    scene.answer(b"HTTP/1.1 100 Continue\r\n\r\n", reply(answer(5)))
    assert scene.pairs == [([1], [5])]


def test_binary_data_and_compression() -> None:
    scene = Scene()
    entry = {"name": "IN", "datatype": "INT32", "shape": [1], "parameters": {"binary_data_size": 4}}
    head = json.dumps({"inputs": [entry], "parameters": {"sequence_id": 7, "sequence_start": True}}).encode()
    body = head + b"\x09\0\0\0"
    size = f"Inference-Header-Content-Length: {len(head)}"
    scene.send(request(gzip.compress(body), INFER, "Content-Encoding: gzip", size))
    scene.answer(reply(gzip.compress(answer(3)), "Content-Encoding: gzip"))
    assert scene.pairs == [([9], [3])]
    assert scene.kept.found[0].exchange.request.correlation_id == 7


def test_errors_and_requests_that_are_wrong() -> None:
    scene = Scene()
    scene.send(request(document(1)), request(b"{"), request(b"x", INFER, "Content-Encoding: br"))
    for status in ("404 Not Found", "500 Internal", "501 Not"):
        scene.answer(reply(b'{"error":"why"}', status=status))
    first, second, third = (one.exchange for one in scene.kept.found)
    assert [each.error and (each.error.code, each.error.message) for each in (first, second, third)] == [
        (Code.NOT_FOUND, "why"),
        (Code.INTERNAL, "why"),
        (Code.UNSUPPORTED, "why"),
    ]
    assert not first.unsent and second.unsent.startswith("the request is not valid") and third.unsent
    assert first.total_ns > 0 and second.model == "m"


@pytest.mark.parametrize("side", ["client", "server", "tap"])
def test_the_end_of_a_connection(side: str) -> None:
    scene = Scene()
    scene.send(request(document(1)), request(document(2)), request(document(3))[:-1])
    scene.answer(reply(answer(1))[:-1])
    scene.connection.close(5, side)
    found = [one.exchange for one in scene.kept.found]
    assert [each.unanswered for each in found] == [f"the {side} closed the connection"] * 2
    assert [each.cancelled for each in found] == [side == "client"] * 2 and not any(each.arrivals for each in found)


def test_an_answer_until_the_end_of_the_connection() -> None:
    scene = Scene()
    scene.send(request(document(1)))
    scene.answer(b"HTTP/1.1 200 OK\r\n\r\n" + answer(4))
    scene.connection.end_server(3)
    assert scene.pairs == [([1], [4])]


def test_generate() -> None:
    scene = Scene()
    scene.send(request(b'{"IN": 5, "max": 3}', "/v2/models/m/versions/2/generate"))
    scene.answer(reply(b'{"OUT": 1.5, "model_name": "m", "model_version": "2", "why": "length"}'))
    (one,) = scene.kept.found
    assert one.exchange.request.inputs["IN"].numpy().tolist() == [5]
    assert one.exchange.request.parameters == {"max": 3} and one.exchange.request.model_version == 2
    assert one.exchange.outputs["OUT"].numpy().tolist() == [1.5] and one.exchange.answered
    assert one.exchange.responses[0].parameters == {"why": "length"}
    assert one.withheld["output.0.OUT"].how == "inexact"


def test_generate_stream_has_a_response_for_each_event() -> None:
    scene = Scene()
    scene.send(request(b'{"IN": 5}', "/v2/models/m/generate_stream"))
    event = b'data: {"OUT": %d}\n\n'
    scene.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n")
    for number in range(3):
        scene.answer(b"%x\r\n%b\r\n" % (len(event % number), event % number))
    scene.answer(b"0\r\n\r\n")
    (one,) = scene.kept.found
    assert [each["OUT"].tolist() for each in one.exchange.responses] == [[0], [1], [2]]
    assert [each.after_ns for each in one.exchange.arrivals] == [2, 3, 4] and one.exchange.answered


def test_a_stream_without_an_end_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapped_http, "MOST_MESSAGE", 1000)
    scene = Scene()
    scene.send(request(b'{"IN": 5}', "/v2/models/m/generate_stream"))
    scene.answer(b"HTTP/1.1 200 OK\r\n\r\n", *[b'data: {"OUT": 1}\n\n'] * 100)
    scene.connection.end_server(3)
    assert scene.kept.found == [] and scene.kept.left_out == {TOO_LARGE: 1}
    scene.connection.close(4, "server")


def test_outputs_without_names_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule for an output would not find it among the parameters."""
    monkeypatch.setattr(KnownModels, "metadata", lambda *_: None)
    scene = Scene()
    scene.send(request(b'{"IN": 5}', "/v2/models/m/generate"))
    scene.answer(reply(b'{"OUT": "secret"}'))
    (one,) = scene.kept.found
    assert one.exchange.unanswered.endswith("the server does not name the outputs of its model")
    assert not one.exchange.responses


@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"])
def test_bytes_that_are_not_http(sent: bytes) -> None:
    with pytest.raises(NotReadable):
        Scene().send(sent)
    scene = Scene()
    scene.send(request(document(1)))
    with pytest.raises(NotReadable):
        scene.answer(sent)
    with pytest.raises(NotReadable):
        Scene().answer(reply(b"{}"))


def test_shared_memory_of_a_client() -> None:
    scene = Scene()
    entry = {"name": "IN", "datatype": "INT32", "shape": [1]}
    entry["parameters"] = {"shared_memory_region": "r", "shared_memory_byte_size": 4}  # type: ignore[assignment]
    scene.send(request(json.dumps({"inputs": [entry]}).encode()))
    scene.answer(reply(b'{"model_name":"m","outputs":[{"name":"OUT","datatype":"FP32","shape":[2]}]}'))
    (one,) = scene.kept.found
    assert one.exchange.unsent == "input 'IN' was in the client's shared memory, which a proxy does not see"
    assert {place: (each.datatype, each.shape) for place, each in one.withheld.items()} == {
        "input.IN": ("INT32", (1,)),
        "output.0.OUT": ("FP32", (2,)),
    }
