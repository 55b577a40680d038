"""The reading of copies, of which some were lost."""

from __future__ import annotations

import socket

import pytest

from tritonlab.tools.capture.tap.capture_process import TappedConnection
from tritonlab.tools.capture.tap.copied_bytes import CopyReader, CopySender, Record, RecordKind

from .sinks import KeptRequests, sink_of
from .test_forwarder import Scene as Forwarding
from .test_forwarder import receive
from .test_frame_reader import DATA, HEADERS, PADDED, PREFACE, frame
from .test_tapped_http import answer, document, reply, request


class Scene:
    """A connection, to which a record comes each nanosecond."""

    def __init__(self) -> None:
        self.kept = KeptRequests()
        self.sink = sink_of(self.kept)
        self.connection = TappedConnection(self.sink, "server")
        self._at = 0

    def take(self, kind: RecordKind, data: bytes = b"") -> None:
        self._at += 1
        self.connection.take(Record(kind, 1, self._at, 0, data))

    def infer(self, number: int) -> None:
        self.take(RecordKind.FROM_CLIENT, request(document(number)))
        self.take(RecordKind.FROM_SERVER, reply(answer(number * 10)))

    @property
    def numbers(self) -> list[int]:
        return [int(one.exchange.request.inputs["IN"].numpy()[0]) for one in self.kept.found]


@pytest.mark.parametrize("is_pipelined", [False, True])
def test_http_goes_on_after_a_loss(is_pipelined: bool, capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene()
    if is_pipelined:  # the next answer after the loss may belong to a request before it
        scene.take(RecordKind.FROM_CLIENT, request(document(7)) * 2)
        scene.take(RecordKind.FROM_SERVER, reply(answer(7)) * 2)
    scene.infer(1)
    scene.take(RecordKind.FROM_CLIENT, request(document(2)))
    scene.take(RecordKind.LOST)
    scene.infer(3)
    assert not scene.connection.is_idle
    scene.take(RecordKind.RESUMED, (100).to_bytes(8))
    scene.infer(4)
    assert scene.numbers == ([7, 7, 1] if is_pipelined else [1, 4])
    assert scene.connection.is_idle != is_pipelined
    assert is_pipelined or scene.connection.pieces == 102
    assert scene.kept.left_out == {"on a connection that could not be read": 1}
    assert "requests are lost: the capture was too slow" in capsys.readouterr().err


def test_more_pieces_than_fit_into_32_bits() -> None:
    """A connection of gRPC may be open for weeks."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender, reader = CopySender(ours, 1000), CopyReader(theirs)
        reader.tell_idle(1, 1 << 32)
        assert list(sender.read_idle()) == [(1, 1 << 32)]


def test_an_answer_that_began_before_is_not_taken_for_another() -> None:
    scene = Scene()
    scene.infer(1)
    scene.take(RecordKind.LOST)
    scene.take(RecordKind.RESUMED, bytes(4))
    scene.take(RecordKind.FROM_CLIENT, request(document(2)))
    scene.take(RecordKind.FROM_SERVER, b"the end of an event\n\n")
    scene.infer(3)
    assert scene.numbers == [1] and scene.connection.unread.startswith("HTTP")


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"\x16\x03\x01", "it is encrypted (TLS)"),
        (PREFACE + frame(DATA, PADDED, 1, b"\x09"), "a frame with more padding than bytes"),
    ],
)
def test_what_is_not_read(sent: bytes, why: str) -> None:
    scene = Scene()
    scene.take(RecordKind.FROM_SERVER, b"greeting")
    scene.take(RecordKind.FROM_CLIENT, sent[:1])
    scene.take(RecordKind.FROM_CLIENT, sent[1:])
    scene.infer(1)
    scene.take(RecordKind.CLOSED)
    assert scene.kept.found == [] and scene.sink.unread == {why: 1}


def test_calls_of_grpc_are_counted_after_a_loss() -> None:
    """The forwarder finds the last call in bytes that it does not copy."""
    calls = [frame(HEADERS, 0x04, number, b"\x82") + frame(DATA, 1, number, b"x" * 2000) for number in (1, 3, 5, 7)]
    forwarding = Forwarding(most_bytes=1000)
    try:
        client, server = forwarding.connect()
        with client, server:
            for sent in (PREFACE + calls[0], *calls[1:]):
                client.sendall(sent)
                receive(server, len(sent))
        closed = [each.data for each in forwarding.records() if each.kind == RecordKind.CLOSED]
    finally:
        forwarding.close()
    assert closed == [(7).to_bytes(4)]
    scene = Scene()
    scene.take(RecordKind.FROM_CLIENT, PREFACE + calls[0])
    scene.take(RecordKind.LOST)
    scene.take(RecordKind.CLOSED, closed[0])
    assert scene.kept.left_out == {"calls of gRPC, of any kind, after copies of their connection were lost": 3}
