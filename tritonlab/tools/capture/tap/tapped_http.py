"""One connection of HTTP/1.1 as a proxy sees it, and the requests to models on it."""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any

import httptools

from ....core.inference.data_type import DataType
from ....core.inference.infer_request import InferenceRequest
from ....core.inference.infer_response import InferenceResponse
from ....core.inference.tensor import Tensor
from ....core.status import CancelledError, Code, TritonError, UnavailableError
from ....exchanges.exchange import Arrival, Exchange, first_error
from ....exchanges.http_document import read_response, tensor_of
from ....exchanges.remote.http_link import http_error
from ....frontends.http.data_compressor import decompress
from ....frontends.http.generate_endpoint import decode_request
from ....frontends.http.infer_decoder import InferDecoder
from ....frontends.http.request_parser import BadRequestError, Request, RequestParser
from ....frontends.shared.request_memory import Body, NoRoomError, TooLargeError
from ..capture_file import CapturedRequest, Withheld
from .frame_reader import NotReadable
from .request_reading import MOST_MESSAGE, NO_ROOM, TOO_LARGE, CaptureSink, UnseenRegions, UpstreamModels

_PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/([0-9]+))?/(infer|generate|generate_stream)")
_JSON_SIZE = b"inference-header-content-length"
_UNASKED = object()  # instead of a body that is not collected
_EVENT_END = re.compile(rb"\r?\n\r?\n")
#: The members of an answer of `generate` that are neither outputs nor parameters.
_NAMED = ("id", "model_name", "model_version")


class HttpAsk:
    """One request to a model, and its answer. Times are nanoseconds of the monotonic clock."""

    __slots__ = ("body", "events", "headers", "is_chosen", "is_cut", "is_head", "kind", "model", "replied_at", "reply",
                 "reply_headers", "sent_at", "status", "stream_size", "version")  # fmt: skip

    def __init__(self, request: Request, at: int) -> None:
        found = _PATH.fullmatch(request.path.decode("utf-8", "replace")) if request.method == "POST" else None
        #: `infer`, `generate`, `generate_stream`, or empty for anything else
        self.kind = found[3] if found else ""
        self.model = found[1] if found else ""
        self.version = (found[2] or "") if found else ""
        self.is_head = request.method == "HEAD"
        self.headers = dict(request.headers)
        self.body: bytes | bytearray | None = None
        self.sent_at = at
        self.is_chosen = False
        self.status = 0
        self.reply_headers: dict[bytes, bytes] = {}
        self.reply: bytes | bytearray | None = b""
        self.events: list[tuple[bytes, int]] = []
        #: the bytes of its events so far
        self.stream_size = 0
        self.replied_at = at
        #: why its answer is not complete
        self.is_cut = ""

    @property
    def byte_size(self) -> int:
        return len(self.body or b"") + len(self.reply or b"") + self.stream_size + 2000


class TappedHttp:
    """The reader of both directions. Its methods get the time of a piece; they raise NotReadable, and must not be
    called again then."""

    def __init__(self, sink: CaptureSink, address: str) -> None:
        self._sink = sink
        self._reader = HttpReader(sink.models.setdefault(address, UpstreamModels(address)))
        self._asks: deque[HttpAsk] = deque()  # those without a whole answer
        self._sent: HttpAsk | None = None  # its body is not complete
        self._at = 0
        self._requests = RequestParser(self._on_request_head, self._on_request, self._on_large, sink.memory)
        self._replies = httptools.HttpResponseParser(self)
        self._is_in_reply = False
        #: whether the client has sent a request before the answer to the one before
        self.is_pipelined = False
        self._event = b""
        self._headers: list[tuple[bytes, bytes]] = []

    @property
    def is_idle(self) -> bool:
        return not self._asks and self._requests.between

    @property
    def open_count(self) -> int:
        """The number of requests to models under way that are chosen, or come just now."""
        return sum(1 for ask in self._asks if ask.is_chosen or (ask.kind and ask.body is None))

    def from_client(self, data: bytes, at: int) -> None:
        self._at = at
        try:
            self._requests.feed(data)
        except BadRequestError as error:
            raise NotReadable(f"HTTP: {error}") from None

    def from_server(self, data: bytes, at: int) -> None:
        self._at = at
        try:
            self._replies.feed_data(data)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, NotReadable):  # raised in a callback
                raise error.__context__ from None
            raise NotReadable(f"HTTP: {type(error).__name__}") from None
        if self._is_in_reply and self._asks and self._asks[0].is_head:
            self.on_message_complete()  # it has no body, even if its headers announce one
            self._replies = httptools.HttpResponseParser(self)

    def end_server(self, at: int) -> None:
        """Note that the server sends nothing more. A body without a length ends here."""
        self._at = at
        if self._is_in_reply and not self._asks[0].reply_headers.keys() & {b"content-length", b"transfer-encoding"}:
            self.on_message_complete()

    def close(self, at: int, side: str) -> None:
        """Note the end of the connection. `side`: `client`, `server` or `tap`, which ended it first."""
        for ask in self._asks:
            ask.is_cut = f"the {side} closed the connection"
            ask.replied_at = at
            if ask.body is None and ask.kind:
                continue  # half a request
            self._finish(ask)
        self._asks.clear()
        self._requests.close()

    # -- the client

    def _on_request_head(self, request: Request) -> None:
        ask = HttpAsk(request, self._at)
        self.is_pipelined = self.is_pipelined or bool(self._asks)
        self._asks.append(ask)
        if not ask.kind:
            request.refusal = _UNASKED
            return
        self._sent = ask
        if request.size > MOST_MESSAGE:
            self._on_large(request, TooLargeError())

    def _on_large(self, request: Request, error: TooLargeError) -> None:
        request.refusal = _UNASKED
        self._sent = None
        self._sink.writer.leave_out(NO_ROOM if isinstance(error, NoRoomError) else TOO_LARGE)

    def _on_request(self, request: Request) -> None:
        ask, self._sent = self._sent, None
        if ask is None:
            return
        ask.sent_at = self._at
        ask.body = request.body
        is_packed = b"content-encoding" in ask.headers
        has_sequence = is_packed or ask.body.find(b"sequence_id", 0, _json_size(ask.headers, ask.body)) >= 0
        read = (lambda: self._reader.request(ask, {})[0]) if has_sequence else None
        ask.is_chosen = self._sink.chooses(self._at, read)
        if not ask.is_chosen:
            ask.body = b""

    # -- the server: the callbacks of the parser of answers. A response of 100 to 199 is not the answer

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status, headers = self._replies.get_status_code(), self._headers
        self._headers = []
        if status < 200:
            if status == 101:
                raise NotReadable("HTTP: another protocol")
            return
        if not self._asks:
            raise NotReadable("HTTP: an answer without a request")
        ask = self._asks[0]
        ask.status = status
        ask.reply_headers = dict(headers)
        self._is_in_reply = True
        self._event = b""

    def on_body(self, piece: bytes) -> None:
        if not self._is_in_reply:
            return
        ask = self._asks[0]
        if not ask.is_chosen or ask.reply is None:
            return
        if ask.kind == "generate_stream":
            ask.stream_size += len(piece)
            if ask.stream_size > MOST_MESSAGE:  # a stream may have no end
                ask.reply, ask.events, self._event = None, [], b""
                return
            *events, self._event = _EVENT_END.split(self._event + piece)
            ask.events += [(event, self._at) for event in events if event]
            return
        if not ask.reply:
            ask.reply = piece
            return
        try:
            if type(ask.reply) is not Body:
                ask.reply = self._sink.memory.body(ask.reply)
            ask.reply.add(piece)
        except TooLargeError:
            ask.reply = None

    def on_message_complete(self) -> None:
        if not self._is_in_reply:
            return  # 100 Continue
        self._is_in_reply = False
        ask = self._asks.popleft()
        ask.replied_at = self._at
        if ask.kind == "generate_stream" and self._event.strip():
            ask.events.append((self._event, self._at))
        if ask is self._sent:
            self._sent = None  # the rest of its body is not read by the server either
        self._finish(ask)

    def _finish(self, ask: HttpAsk) -> None:
        if not ask.is_chosen:
            return
        if ask.reply is None:
            self._sink.writer.leave_out(TOO_LARGE)
            return
        self._sink.writer.add(partial(self._reader.read, ask, self._sink.began), ask.byte_size)


class HttpReader:
    """The reader of requests and answers, on the threads of the capture and its writer."""

    def __init__(self, models: UpstreamModels) -> None:
        self._models = models
        self._regions = UnseenRegions()
        self._decoder = InferDecoder(self._regions, MOST_MESSAGE)
        self._lock = threading.Lock()  # for both of them

    def read(self, ask: HttpAsk, began: int) -> CapturedRequest:
        """Read a request and its answer."""
        withheld: dict[str, Withheld] = {}
        request, unsent = self.request(ask, withheld)
        arrivals: tuple[Arrival, ...] = ()
        error: TritonError | None = None
        unanswered = ask.is_cut
        if unanswered:
            kind = CancelledError if "client" in unanswered else UnavailableError
            error = kind(f"{unanswered} before the answer was complete")
        if ask.status and (not unanswered or ask.events):
            try:
                arrivals = self._answer(ask, withheld)
            except (TritonError, ValueError, KeyError, TypeError, AttributeError) as problem:
                unanswered = unanswered or f"the answer cannot be read: {problem}"
        error = error or first_error(arrivals)
        exchange = Exchange(request, arrivals, error, unanswered=unanswered, unsent=unsent, source="tap")
        return CapturedRequest(exchange, ask.sent_at - began, "http", withheld)

    def request(self, ask: HttpAsk, withheld: dict[str, Withheld]) -> tuple[InferenceRequest, str]:
        """Return the request, and why it cannot be sent again."""
        version = int(ask.version) if ask.version else -1
        named = InferenceRequest(ask.model, {}, model_version=version)
        try:
            encoding = ask.headers.get(b"content-encoding", b"").decode("latin-1")
            body: Any = ask.body or b""
            if encoding:
                body = decompress(encoding, body, MOST_MESSAGE)
            if ask.kind != "infer":
                metadata = self._models.metadata(ask.model, ask.version)
                if metadata is None:
                    return named, "the server does not name the inputs of its model"
                return decode_request(body, ask.model, version, metadata), ""
            size = _json_size(ask.headers, body)
            config = None if size else self._models.config(ask.model, ask.version)
            if not size and config is None:
                return named, "the server does not name the input of its model"
            with self._lock:
                request, _ = self._decoder.decode(body, size, ask.model, version, config)
                return request, self._regions.withhold(request, withheld)
        except (TritonError, ValueError) as error:
            return named, f"the request is not valid: {error}"

    def _answer(self, ask: HttpAsk, withheld: dict[str, Withheld]) -> tuple[Arrival, ...]:
        if ask.kind == "generate_stream" and ask.events:
            found = [
                (self._generated(ask, _event_data(event), n, withheld), at) for n, (event, at) in enumerate(ask.events)
            ]
            found[-1][0].final = not ask.is_cut
            return tuple(Arrival(response, max(0, at - ask.sent_at)) for response, at in found)
        reply: Any = ask.reply or b""
        if encoding := ask.reply_headers.get(b"content-encoding", b"").decode("latin-1"):
            reply = decompress(encoding, reply, MOST_MESSAGE)
        if ask.kind != "infer":
            response = self._generated(ask, bytes(reply), 0, withheld)
            response.final = True
        elif ask.status != 200:
            response = InferenceResponse(ask.model, error=http_error(reply, ask.status))
        else:
            size = ask.reply_headers.get(_JSON_SIZE)
            response = read_response(reply, int(size) if size else None)
            if len(response.outputs) < reply.count(b'"datatype"'):
                _note_unseen(reply[: int(size) if size else None], withheld)
        return (Arrival(response, max(0, ask.replied_at - ask.sent_at)),)

    def _generated(self, ask: HttpAsk, text: bytes, number: int, withheld: dict[str, Withheld]) -> InferenceResponse:
        """Read one answer of `generate`, in which outputs have no shape."""
        document = json.loads(text)
        if "error" in document and ask.status != 200:
            return InferenceResponse(
                ask.model, error=TritonError.from_code(Code.UNKNOWN, str(document["error"])), final=False
            )
        metadata = self._models.metadata(ask.model, ask.version)
        if metadata is None:  # without names, no rule could redact an output
            raise ValueError("the server does not name the outputs of its model")
        types = {each["name"]: DataType[each["datatype"]] for each in metadata["outputs"]}
        outputs: dict[str, Tensor] = {}
        for name, datatype in types.items():
            if name in document:
                values = document[name] if isinstance(document[name], list) else [document[name]]
                outputs[name] = tensor_of(values, datatype, (len(values),))
                withheld[f"output.{number}.{name}"] = Withheld("inexact", datatype.name, (len(values),))
        version = document.get("model_version", "")
        return InferenceResponse(
            document.get("model_name", ""),
            model_version=int(version) if version.isdecimal() else -1,
            request_id=document.get("id", ""),
            outputs=outputs,
            parameters={key: value for key, value in document.items() if key not in (*types, *_NAMED)},
            final=False,
        )


def _json_size(headers: Mapping[bytes, bytes], body: bytes | bytearray) -> int:
    """Return the bytes of JSON at the beginning of a body; a number that is none counts as all of them."""
    text = headers.get(_JSON_SIZE, b"")
    return int(text[:20]) if text.isdigit() else len(body)


def _event_data(event: bytes) -> bytes:
    lines = [line.removeprefix(b"data:") for line in event.splitlines() if line.startswith(b"data:")]
    return b"\n".join(lines) or event


def _note_unseen(text: bytes, withheld: dict[str, Withheld]) -> None:
    """Note outputs that the server wrote into the client's shared memory. The answer has their shapes alone."""
    for entry in json.loads(text).get("outputs", ()):
        if "data" not in entry and "binary_data_size" not in entry.get("parameters", {}):
            withheld[f"output.0.{entry['name']}"] = Withheld("dropped", entry["datatype"], tuple(entry["shape"]))
