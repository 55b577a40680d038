"""HTTP/2 frames of one direction of a connection, and the messages of gRPC in their data.

Settings, priorities, pings and windows are skipped, because a reader of both directions needs none of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

import hpack

from ....frontends.shared.request_memory import Body, RequestMemory, TooLargeError

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD = 9
_DATA, _HEADERS, _RST_STREAM, _PUSH_PROMISE, _CONTINUATION = 0, 1, 3, 5, 9
_HANDLED = frozenset({_DATA, _HEADERS, _RST_STREAM, _PUSH_PROMISE, _CONTINUATION})
_END_STREAM, _END_HEADERS, _PADDED, _PRIORITY = 1, 4, 8, 32
#: The most bytes of a block of headers that are read.
_MOST_HEADERS = 1 << 20
#: The bytes of a table that an encoder may announce here.
_MOST_TABLE = 1 << 20
_MOST_KNOWN = 256
#: Bytes before a message of gRPC: whether it is compressed, and its size.
_PREFIX = 5
_WBITS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}

Headers = dict[str, str]


class NotReadable(Exception):
    """Bytes that are not of the protocol, or that exceed a limit of the capture."""


class FrameReader:
    """The reader of one direction. `feed` raises NotReadable, and must not be called again then.

    on_headers, on_data: get the stream, the headers or bytes, and whether they are its last ones
    on_reset: gets the stream and the code of HTTP/2
    """

    def __init__(
        self,
        on_headers: Callable[[int, Headers, bool], None],
        on_data: Callable[[int, bytes, bool], None],
        on_reset: Callable[[int, int], None],
        *,
        has_preface: bool,
    ) -> None:
        self._on_headers, self._on_data, self._on_reset = on_headers, on_data, on_reset
        self._left = len(PREFACE) if has_preface else 0
        self._pieces: list[bytes] = []  # of a frame that is not complete
        self._wanted = 0  # bytes until it may be
        self._decoder = _HeaderDecoder()
        self._block: tuple[int, int, bytes] | None = None  # stream, flags and beginning of a block of headers

    def feed(self, data: bytes) -> None:
        if self._pieces:
            self._pieces.append(data)
            self._wanted -= len(data)
            if self._wanted > 0:
                return
            data = b"".join(self._pieces)
            self._pieces = []
        at, end = 0, len(data)
        if self._left:
            at = min(self._left, end)
            self._left -= at
        stop = at + _HEAD
        while stop <= end:
            size = int.from_bytes(data[at : at + 3])
            if stop + size > end:
                stop += size
                break
            kind, flags = data[at + 3], data[at + 4]
            if kind in _HANDLED:
                stream = int.from_bytes(data[at + 5 : at + 9]) & 0x7FFFFFFF
                self._on_frame(kind, flags, stream, data[stop : stop + size])
            at = stop + size
            stop = at + _HEAD
        if at < end:
            self._pieces, self._wanted = [data[at:]], stop - end

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if flags & _PADDED and kind in (_DATA, _HEADERS, _PUSH_PROMISE):
            if not payload or payload[0] >= len(payload):
                raise NotReadable("a frame with more padding than bytes")
            payload = payload[1 : len(payload) - payload[0]]
        if kind == _DATA:
            self._on_data(stream, payload, bool(flags & _END_STREAM))
        elif kind == _RST_STREAM:
            self._on_reset(stream, int.from_bytes(payload))
        elif kind == _CONTINUATION:
            if self._block is None or self._block[0] != stream:
                raise NotReadable("headers that continue none")
            self._on_block(stream, self._block[1] | flags, self._block[2] + payload)
        else:
            if kind == _PUSH_PROMISE:
                payload = payload[4:]
                flags &= ~_END_STREAM
                stream = 0  # its headers count for the table alone
            elif flags & _PRIORITY:
                payload = payload[5:]
            self._on_block(stream, flags, payload)

    def _on_block(self, stream: int, flags: int, block: bytes) -> None:
        if not flags & _END_HEADERS:
            if len(block) > _MOST_HEADERS:
                raise NotReadable(f"more than {_MOST_HEADERS} bytes of headers")
            self._block = stream, flags, block
            return
        self._block = None
        headers = self._decoder.decode(block)
        if stream:
            self._on_headers(stream, headers, bool(flags & _END_STREAM))


class _HeaderDecoder:
    """The decoder of the headers of one direction. A block that only names entries of the table has the same meaning
    until an entry is added, and is decoded once."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder(max_header_list_size=_MOST_HEADERS)
        self._decoder.max_allowed_table_size = _MOST_TABLE
        self._known: dict[bytes, Headers] = {}

    def decode(self, block: bytes) -> Headers:
        known = self._known.get(block)
        if known is not None:
            return known
        try:
            found = self._decoder.decode(block, raw=True)
        except (hpack.HPACKError, ValueError, IndexError) as error:
            raise NotReadable(f"headers: {type(error).__name__}") from None
        headers = {bytes(name).decode("latin-1"): bytes(value).decode("latin-1") for name, value in found}
        if block and min(block) >= 0x80 and 0xFF not in block:
            if len(self._known) < _MOST_KNOWN:
                self._known[block] = headers
        else:
            self._known.clear()
        return headers


class Message(NamedTuple):
    """A message of gRPC. `data` is None if it was larger than the capture may hold."""

    data: bytes | bytearray | None
    is_compressed: bool

    def unpacked(self, encoding: str, most: int) -> bytes | bytearray:
        """Return the message as it was before its sender compressed it. Raises NotReadable."""
        if self.data is None:
            raise NotReadable("a message is larger than the capture may hold")
        if not self.is_compressed or encoding == "identity":
            return self.data
        if encoding not in _WBITS:
            raise NotReadable(f"a message is compressed with '{encoding}', and only gzip and deflate are read")
        try:
            decompressor = zlib.decompressobj(_WBITS[encoding])
            found = decompressor.decompress(self.data, most)
        except zlib.error as error:
            raise NotReadable(f"a message is not {encoding}: {error}") from None
        if decompressor.unconsumed_tail:
            raise NotReadable("a message is larger than the capture may hold")
        if not decompressor.eof:
            raise NotReadable(f"a message is not {encoding}: its end is missing")
        return found


class MessageReader:
    """The reader of the messages in the data of one direction of a call."""

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self._prefix = b""
        self._left: int | None = None  # bytes of the message that has begun
        self._body: Body | None = None  # its beginning, unless it is too large
        self._is_compressed = False

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that end in `data`."""
        found: list[Message] = []
        at, end = 0, len(data)
        while True:
            if self._left is None:
                piece = data[at : at + _PREFIX - len(self._prefix)]
                self._prefix += piece
                at += len(piece)
                if len(self._prefix) < _PREFIX:
                    return found
                self._is_compressed = bool(self._prefix[0])
                size = int.from_bytes(self._prefix[1:])
                self._prefix = b""
                if size <= end - at:
                    found.append(Message(data[at : at + size], self._is_compressed))
                    at += size
                    continue
                self._left, self._body = size, self._new_body(size)
            piece = data[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            self._add(piece)
            if self._left:
                return found
            found.append(Message(self._body, self._is_compressed))
            self._left = self._body = None

    def _new_body(self, size: int) -> Body | None:
        try:
            self._memory.announce(size)
        except TooLargeError:
            return None
        return self._memory.body(b"")

    def _add(self, piece: bytes) -> None:
        if self._body is not None:
            try:
                self._body.add(piece)
            except TooLargeError:
                self._body = None
