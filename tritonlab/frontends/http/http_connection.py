"""uvicorn's HTTP/1.1 protocol, made fit for what clients do with a connection.

- A request that asks for another protocol is answered in this one, as by Triton: Java's HttpClient asks for HTTP/2
  with its first request. httptools takes what follows such a head for the other protocol, and the body with it.
- A client that has said all it has to say, and shut down its side, is answered.
- Nothing fills the memory: a head has an end, headers behind a chunked body are not collected (nobody reads them), and
  a connection that is reset is forgotten with its last body. uvicorn leaves its timer running, which holds all of it
  for as long as an idle connection is kept.
"""

from __future__ import annotations

import contextlib
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Bytes of a request's first line and headers; Triton takes any number of headers of 8191 bytes (measured).
MAX_HEAD = 1 << 18

_FRAMING = (b"content-length", b"transfer-encoding")


class HTTPConnection(HttpToolsProtocol):
    _head: list[int] | None = None  # of one that has begun and not ended, the bytes that came after its beginning
    _ended = False  # the client has said all

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        head = self._head
        self._feed(data)
        if head is not None and head is self._head:
            head[0] += len(data)
            if head[0] > MAX_HEAD:
                self.send_400_response(f"the request has a head of more than {MAX_HEAD} bytes")

    def _feed(self, data: bytes | memoryview) -> None:
        """A loop, as each request that asks for another protocol gets a parser of its own."""
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = memoryview(data)[upgrade.args[0] :]
                self._go_on()
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
                return

    def _go_on(self) -> None:
        """Has another parser read what follows a head that asks for another protocol, first of all the body."""
        self.parser = httptools.HttpRequestParser(_BehindHead(self))
        with contextlib.suppress(AttributeError):  # httptools < 0.6.3
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        framing = [b"%b: %b\r\n" % header for header in self.headers if header[0] in _FRAMING]
        self.parser.feed_data(b"".join((b"POST / HTTP/1.1\r\n", *framing, b"\r\n")))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = [0]

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is not None:
            self.on_request_header(name, value)

    def on_request_header(self, name: bytes, value: bytes) -> None:
        """One of the head."""
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():  # else the parser says so before it has looked for a body
            self.on_request_complete()

    def on_request_complete(self) -> None:
        """All of the body is there."""
        super().on_message_complete()

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio takes a truth value
        """Whether the connection is kept, for answers that are still to be given."""
        self._ended = True
        return self.cycle is not None and not (self.cycle.response_complete or self.cycle.more_body)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._ended and self.cycle.response_complete:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()


class _BehindHead:
    """The callbacks of a parser that gets a head first which the connection has dealt with."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection
        self._over = False
        self.on_body = connection.on_body
        self.on_message_complete = connection.on_message_complete
        if (on_chunk_header := getattr(connection, "on_chunk_header", None)) is not None:
            self.on_chunk_header: Any = on_chunk_header

    def on_message_begin(self) -> None:
        if self._over:
            self._connection.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if self._over:
            self._connection.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._over:
            self._connection.on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._over:
            self._connection.on_headers_complete()
        self._over = True
