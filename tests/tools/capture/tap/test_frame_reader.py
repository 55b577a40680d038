"""HTTP/2 frames and the messages of gRPC in them, whole and in pieces."""

from __future__ import annotations

import gzip
import struct

import hpack
import pytest

from tritonlab.frontends.shared.request_memory import RequestMemory
from tritonlab.tools.capture.tap.frame_reader import PREFACE, FrameReader, Headers, Message, MessageReader, NotReadable

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, CONTINUATION = 0, 1, 2, 3, 4, 5, 6, 9
END_STREAM, END_HEADERS, PADDED, WITH_PRIORITY = 1, 4, 8, 32


class Seen:
    """A reader, and the calls that it has made."""

    def __init__(self, has_preface: bool = False) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.reader = FrameReader(self.on_headers, self.on_data, self.on_reset, has_preface=has_preface)

    def on_headers(self, stream: int, headers: Headers, is_last: bool) -> None:
        self.calls.append(("headers", stream, headers, is_last))

    def on_data(self, stream: int, data: bytes, is_last: bool) -> None:
        self.calls.append(("data", stream, data, is_last))

    def on_reset(self, stream: int, code: int) -> None:
        self.calls.append(("reset", stream, code))


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def conversation() -> tuple[bytes, list[tuple[object, ...]]]:
    """Return bytes with frames of all kinds, and the calls that they make."""
    encoder = hpack.Encoder()
    first = encoder.encode([(":path", "/a"), ("x", "1" * 40)])
    again = encoder.encode([(":path", "/a"), ("x", "1" * 40)])
    sent = b"".join(
        (
            PREFACE,
            frame(SETTINGS, 0, 0, b""),
            frame(HEADERS, PADDED | WITH_PRIORITY, 1, b"\x02" + bytes(5) + first[:3] + bytes(2)),
            frame(CONTINUATION, 0, 1, first[3:5]),
            frame(CONTINUATION, END_HEADERS, 1, first[5:]),
            frame(PING, 0, 0, bytes(8)),
            frame(DATA, PADDED, 1, b"\x03abc" + bytes(3)),
            frame(PRIORITY, 0, 1, bytes(5)),
            frame(HEADERS, END_HEADERS, 3, again),
            frame(HEADERS, END_HEADERS | END_STREAM, 5, again),
            frame(DATA, END_STREAM, 1, b""),
            frame(RST_STREAM, 0, 3, struct.pack(">I", 8)),
        )
    )
    headers = {":path": "/a", "x": "1" * 40}
    return sent, [
        ("headers", 1, headers, False),
        ("data", 1, b"abc", False),
        ("headers", 3, headers, False),
        ("headers", 5, headers, True),
        ("data", 1, b"", True),
        ("reset", 3, 8),
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 10, 64, 10_000])
def test_frames_in_pieces(size: int) -> None:
    sent, calls = conversation()
    seen = Seen(has_preface=True)
    for start in range(0, len(sent), size):
        seen.reader.feed(sent[start : start + size])
    assert seen.calls == calls


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (frame(DATA, PADDED, 1, b"\x05abc"), "padding"),
        (frame(CONTINUATION, END_HEADERS, 1, b""), "continue"),
        (frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\x0f"), "headers"),
        (frame(HEADERS, END_HEADERS, 1, b"\x40\x85\xff\xff\xff\xff\xff"), "headers"),
    ],
)
def test_bytes_that_are_no_frames(sent: bytes, why: str) -> None:
    with pytest.raises(NotReadable, match=why):
        Seen().reader.feed(sent)


def test_a_table_that_the_encoder_resizes() -> None:
    encoder = hpack.Encoder()
    encoder.header_table_size = 1 << 16
    seen = Seen()
    seen.reader.feed(frame(HEADERS, END_HEADERS, 1, encoder.encode([("a", "b")])))
    assert seen.calls == [("headers", 1, {"a": "b"}, False)]


@pytest.mark.parametrize("size", [1, 3, 5, 6, 1000])
def test_messages_in_pieces(size: int) -> None:
    packed = gzip.compress(b"squeezed")
    sent = b"".join(struct.pack(">BI", flag, len(data)) + data for flag, data in ((0, b"plain"), (0, b""), (1, packed)))
    reader = MessageReader(RequestMemory(1 << 20))
    found = [message for start in range(0, len(sent), size) for message in reader.feed(sent[start : start + size])]
    assert [bytes(message.unpacked("gzip", 100)) for message in found] == [b"plain", b"", b"squeezed"]


def test_messages_that_cannot_be_read() -> None:
    reader = MessageReader(RequestMemory(1 << 10))
    (large,) = reader.feed(struct.pack(">BI", 0, 2000) + bytes(1500)) + reader.feed(bytes(500))
    assert large.data is None
    with pytest.raises(NotReadable, match="larger"):
        large.unpacked("identity", 1 << 10)
    with pytest.raises(NotReadable, match="snappy"):
        Message(b"x", True).unpacked("snappy", 100)
    with pytest.raises(NotReadable, match="not gzip"):
        Message(b"x", True).unpacked("gzip", 100)
    with pytest.raises(NotReadable, match="larger"):
        Message(gzip.compress(bytes(1000)), True).unpacked("gzip", 100)
