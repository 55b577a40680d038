"""Requests made of the bytes of one connection, by httptools.

- A request to upgrade to another protocol is read as HTTP/1.1, as by Triton: Java's HttpClient requests HTTP/2 with
  its first request. httptools takes all bytes after such a head, including the body, for the other protocol.
- A body is collected where it arrives, in one buffer: handed over in pieces, a tensor of 64 MB would be copied once
  more.
- A path may have bytes beyond ASCII, as on Triton: names of models in UTF-8. httptools refuses them, so other
  bytes are parsed in their place, if a request's first line comes in one piece.
- Header names are kept as the client wrote them: a forwarded header is a parameter of that name (rule 6.14).
- The length of a body is set by `Content-Length` or `chunked`. Other transfer codings are refused: one server would
  take the bytes of such a body for a request, another for a body (request smuggling).
- Requests cannot fill the memory: a head has a limit, headers behind a chunked body are not collected, and a body that
  takes too much is dropped.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import httptools

from ..shared.request_memory import Body, HeldMemory, RequestMemory, TooLargeError

#: Bytes of a request's first line and headers; Triton takes any number of headers of 8191 bytes (measured).
MAX_HEAD = 1 << 18
#: Pieces of a chunked body, without the empty last one (rule 6.3.5).
MAX_CHUNKS = 65536
#: Digits of a Content-Length that are read; a longer number is refused like one of this length.
_DIGITS = 20

#: Triton takes a body with any other coding for no body, and its bytes for the next request (measured on 2.51).
_CODING = (
    "the request has the Transfer-Encoding '{}', and only 'chunked' is supported; a body that is compressed needs "
    "'Content-Encoding'"
)
#: Where the host of a URL ends.
_AUTHORITY_END = re.compile(rb"[/?#]")
#: A byte beyond ASCII that a path may have.
_ASCII = bytes([*range(128), *b"_" * 128])
_FRAMING = (b"content-length", b"transfer-encoding")
_OF_BODY = frozenset((b"content-length", b"expect", b"transfer-encoding"))

Headers = list[tuple[bytes, bytes]]


class BadRequestError(Exception):
    """An error for bytes that are not HTTP, or exceed a limit. `status` is the status of the answer."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class Request:
    """One request. `headers` have names in lower case; `names` are as the client wrote them, in the same order."""

    __slots__ = (
        "answered",
        "begun",
        "body",
        "chunked",
        "ended",
        "expects",
        "gone",
        "headers",
        "held",
        "keep_alive",
        "method",
        "names",
        "old",
        "on_gone",
        "path",
        "refusal",
        "remember",
        "reply_headers",
        "sender",
        "size",
    )

    def __init__(self, method: str, path: bytes, headers: Headers, names: list[bytes], keep_alive: bool) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.names = names
        self.keep_alive = keep_alive
        self.body: bytes | bytearray = b""
        #: counts a large body until the request is answered, also where the body is gone before
        self.held: HeldMemory | None = None
        self.chunked = False
        #: how many bytes its body has by its head; 0 if the head does not give the size
        self.size = 0
        #: whether it uses HTTP/1.0
        self.old = False
        #: whether the client waits for "100 Continue" before it sends the body
        self.expects = False
        #: when head and body were complete, in monotonic nanoseconds
        self.begun = self.ended = 0
        #: whether its reply is on its way
        self.answered = False
        #: the answer of the access rules, or the answer to a body that is too large, which replaces the application's
        self.refusal: Any = None
        #: headers that the access rules add to its reply
        self.reply_headers: Any = ()
        #: called with the function that will answer the next requests with the same head; None if not possible
        self.remember: Callable[[Any], None] | None = None
        #: the same object for all requests of one connection, which come one after the other
        self.sender: object = None
        #: whether the client has gone before its answer, and the function that is called then
        self.gone = False
        self.on_gone: Callable[[], None] | None = None

    def call_when_gone(self, call: Callable[[], None]) -> None:
        """Call `call`, not an earlier function, when the client goes; now if it has gone. Runs on the event loop."""
        self.on_gone = call
        if self.gone:
            call()

    def leave(self) -> None:
        """Note that the client has gone."""
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()


class RequestParser:
    """The parser of requests, one after the other. `take_head` gets a request when its head is complete, `take_request`
    when all of it is. `refuse` gets a request whose body takes more than `memory` allows; the rest of the body is
    dropped."""

    def __init__(
        self,
        take_head: Callable[[Request], None],
        take_request: Callable[[Request], None],
        refuse: Callable[[Request, TooLargeError], None],
        memory: RequestMemory,
    ) -> None:
        self._take_head = take_head
        self._take_request = take_request
        self._refuse = refuse
        self._memory = memory
        self._parser = _parser(self)
        self._head: list[int] | None = None  # of a request that has begun and not ended, the bytes after its beginning
        self._request: Request | None = None
        self._fault: BadRequestError | None = None
        self._path = b""  # of the next request, where it is not ASCII
        #: the parser has had whole requests only
        self.between = True

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Raises BadRequestError; then it must not be called again."""
        head, size = self._head, len(data)
        rest: bytes | memoryview = self._in_ascii(data) if self.between else data
        while True:  # each request to upgrade to another protocol gets its own parser
            try:
                self._parser.feed_data(rest)
                break
            except httptools.HttpParserUpgrade as upgrade:
                if self._fault is not None:
                    break
                rest = memoryview(rest)[upgrade.args[0] :]
                self._go_on()
            except httptools.HttpParserError:
                raise self._fault or BadRequestError("Invalid HTTP request received.") from None
        if head is not None and head is self._head:
            head[0] += size
            if head[0] > MAX_HEAD:
                self._fault = BadRequestError(f"the request has a head of more than {MAX_HEAD} bytes")
        if self._fault is not None:
            raise self._fault

    def _in_ascii(self, data: bytes) -> bytes:
        """Return the beginning of a request with its first line in ASCII, and keep its original path."""
        line = data[: data.find(b"\n") + 1]
        if line.isascii():
            return data
        target = line.partition(b" ")[2].partition(b" ")[0]
        self._path = target.partition(b"?")[0].partition(b"#")[0]
        return line.translate(_ASCII) + data[len(line) :]

    def close(self) -> None:
        """Drop the parser, which refers back to this object."""
        self._parser = self._request = None

    def _go_on(self) -> None:
        """Start another parser for the bytes behind a head that upgrades the protocol; they begin with the body."""
        assert self._request is not None
        self._parser = _parser(_BehindHead(self))
        framing = [b"%b: %b\r\n" % header for header in self._request.headers if header[0] in _FRAMING]
        self._parser.feed_data(b"".join((b"POST / HTTP/1.1\r\n", *framing, b"\r\n")))

    # -- called by httptools

    def on_message_begin(self) -> None:
        self.between = False
        self._head = [0]
        self._url = b""
        self._headers: Headers = []
        self._names: list[bytes] = []
        self._chunks = 0
        self._coding: bytes | None = None
        self._size = 0
        self._expects = False

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is None:
            return  # behind a body
        self._names.append(name)
        name = name.lower()
        if name in _OF_BODY:
            if name == b"content-length":
                if value.isdigit():  # httptools decides whether it is one
                    self._size = int(value[:_DIGITS])
            elif name == b"transfer-encoding":
                self._coding = value if self._coding is None else self._coding + b", " + value
            elif value.lower() == b"100-continue":
                self._expects = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._head = None
        parser, url, path = self._parser, self._url, self._path
        self._path = b""
        if self._coding is not None and self._coding.strip().lower() != b"chunked":
            self._fault = BadRequestError(_CODING.format(self._coding.decode("latin-1")), 501)
            return
        if url[:1] != b"/" and b"://" in url:
            self._name_host(url)
        if not path:
            plain = url[:1] == b"/" and b"?" not in url and b"#" not in url
            path = url if plain else httptools.parse_url(url).path or b""
        keep_alive = parser.should_keep_alive()
        request = Request(
            method=parser.get_method().decode("ascii"),
            path=path,
            headers=self._headers,
            names=self._names,
            keep_alive=keep_alive,
        )
        request.old = parser.get_http_version() == "1.0"
        request.expects = self._expects
        request.size = self._size
        request.begun = time.monotonic_ns()
        self._request = request
        self._take_head(request)

    def _name_host(self, url: bytes) -> None:
        """Put the host of a whole URL, which a client sends to a proxy, into the place of the `Host` header (RFC 9112,
        3.2.2): the access rules check the host that is requested."""
        host = _AUTHORITY_END.split(url.partition(b"://")[2], maxsplit=1)[0]
        others = [index for index, (name, _) in enumerate(self._headers) if name != b"host"]
        self._names = [*(self._names[index] for index in others), b"Host"]
        self._headers = [*(self._headers[index] for index in others), (b"host", host)]

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks == MAX_CHUNKS + 2:
            self._fault = BadRequestError(
                f"Chunked request body exceeds maximum of {MAX_CHUNKS} non-empty chunks. Send fewer or larger HTTP "
                "chunks."
            )

    def on_body(self, piece: bytes) -> None:
        request = self._request
        if request is None or request.refusal is not None:
            return
        if not request.body:
            request.body = piece
            return
        try:
            body = request.body
            if type(body) is not Body:
                body = request.body = self._memory.body(body)
                request.held = body.held
            body.add(piece)
        except TooLargeError as error:
            request.body, request.held = b"", None
            self._refuse(request, error)

    def on_message_complete(self) -> None:
        if not self._parser.should_upgrade():  # otherwise the parser reports this before it has looked for a body
            request, self._request = self._request, None
            self.between = True
            if request is not None and self._fault is None:
                request.ended = time.monotonic_ns()
                request.chunked = self._chunks > 0
                self._take_request(request)


def _parser(protocol: Any) -> Any:
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


class _BehindHead:
    """The callbacks of a parser that is first given a head which was parsed before."""

    def __init__(self, reader: RequestParser) -> None:
        self._reader = reader
        self._has_passed = False
        self.on_body = reader.on_body
        self.on_message_complete = reader.on_message_complete
        self.on_chunk_header = reader.on_chunk_header

    def on_message_begin(self) -> None:
        if self._has_passed:
            self._reader.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if self._has_passed:
            self._reader.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_passed:
            self._reader.on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._has_passed:
            self._reader.on_headers_complete()
        self._has_passed = True
