"""One connection of gRPC as a proxy sees it: calls of ModelInfer, and streams of ModelStreamInfer.

The responses of a stream are matched by the id of their request. Where several requests with one id are under way, the
capture has the requests without their answers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

from google.protobuf.message import DecodeError

from ....core.config.service_messages import messages
from ....core.inference.infer_request import InferenceRequest
from ....core.inference.infer_response import InferenceResponse
from ....core.status import CancelledError, Code, TritonError, UnavailableError, UnknownError
from ....exchanges.exchange import Arrival, Exchange, first_error
from ....exchanges.remote.grpc_link import CODES, read_answer
from ....frontends.grpc.infer_request_reader import InferRequestReader, checked_version
from ....frontends.grpc.message_parser import Raw, parse
from ....frontends.shared.request_memory import UNCOUNTED, HeldMemory, NoRoomError, RequestMemory, TooLargeError
from ..capture_file import CapturedRequest, Withheld
from .frame_reader import FrameReader, Headers, Message, MessageReader, NotReadable
from .request_reading import MOST_MESSAGE, NO_ROOM, TOO_LARGE, CaptureSink, UnseenRegions

_SERVICE = "/inference.GRPCInferenceService/"
_KINDS = {f"{_SERVICE}ModelInfer": False, f"{_SERVICE}ModelStreamInfer": True}
_CODES = {int(status.value[0]): code for status, code in CODES.items()}
_CANCEL = 8
_FINAL = "triton_final_response"
#: The most requests of a stream that are under way; the oldest one is given up then.
_MOST_OPEN = 10_000
_AMBIGUOUS = "several requests of its stream with the same id were under way, so its responses cannot be told apart"


class GrpcAsk:
    """One request, and its answer. Times are nanoseconds of the monotonic clock."""

    __slots__ = ("answers", "byte_size", "error", "held", "ident", "is_chosen", "message", "model", "raw",
                 "replied_at", "sent_at", "unanswered", "unsent")  # fmt: skip

    def __init__(self, at: int) -> None:
        self.sent_at = self.replied_at = at
        #: the parsed ModelInferRequest, None if it cannot be read, and its tensors
        self.message: Any = None
        self.raw: Raw = ()
        self.model = self.ident = ""
        self.is_chosen = False
        #: ModelInferResponse, parsed or not, the error of a stream's response, and their times
        self.answers: list[tuple[Any, str, int]] = []
        self.error: TritonError | None = None
        self.unanswered = self.unsent = ""
        self.byte_size = 2000
        #: counts its large messages while it is under way
        self.held: list[HeldMemory] = []

    def hold(self, size: int, memory: RequestMemory) -> None:
        """Count a message of so many bytes. Raises TooLargeError if there is no memory for it."""
        self.byte_size += size
        if self.byte_size > MOST_MESSAGE:  # a stream may have no end
            raise TooLargeError
        if size > UNCOUNTED:
            self.held.append(memory.hold(size))


class TappedGrpc:
    """The reader of both directions. Its methods get the time of a piece; they raise NotReadable, and must not be
    called again then."""

    def __init__(self, sink: CaptureSink, address: str) -> None:
        self._sink = sink
        self.memory = sink.memory
        self._reader = GrpcReader()
        self._calls: dict[int, _Call] = {}
        self.now = 0
        #: the number of the last call
        self.last_call = -1
        client_reset, server_reset = partial(self._reset, "client cancelled"), partial(self._reset, "server reset")
        self._client = FrameReader(self._open, self._client_data, client_reset, has_preface=True)
        self._server = FrameReader(self._server_headers, self._server_data, server_reset, has_preface=False)

    @property
    def is_idle(self) -> bool:
        return not self._calls

    @property
    def open_count(self) -> int:
        """The number of requests under way that are chosen."""
        return sum(call.chosen_count for call in self._calls.values())

    def from_client(self, data: bytes, at: int) -> None:
        self.now = at
        self._client.feed(data)

    def from_server(self, data: bytes, at: int) -> None:
        self.now = at
        self._server.feed(data)

    def end_server(self, at: int) -> None:
        """Note that the server sends nothing more."""

    def close(self, at: int, side: str) -> None:
        """Note the end of the connection. `side`: `client`, `server` or `tap`, which ended it first."""
        self.now = at
        for call in self._calls.values():
            call.end(_cut(f"the {side} closed the connection"))
        self._calls.clear()

    # -- frames

    def _open(self, stream: int, headers: Headers, is_last: bool) -> None:
        if stream in self._calls:  # trailers of the client, which gRPC has not
            return
        self.last_call = max(self.last_call, stream)
        is_stream = _KINDS.get(headers.get(":path", ""))
        call = _Call(self, headers) if is_stream is None else _InferCall(self, headers, is_stream)
        self._calls[stream] = call

    def _client_data(self, stream: int, data: bytes, is_last: bool) -> None:
        call = self._calls.get(stream)
        if call is not None:
            call.ask(data)

    def _server_headers(self, stream: int, headers: Headers, is_last: bool) -> None:
        call = self._calls.get(stream)
        if call is None:
            return
        if is_last:
            del self._calls[stream]
            call.end(_status(headers))
        else:
            call.answer_encoding = headers.get("grpc-encoding", "identity")

    def _server_data(self, stream: int, data: bytes, is_last: bool) -> None:
        call = self._calls.get(stream)
        if call is None:
            return
        call.answer(data)
        if is_last:
            del self._calls[stream]
            call.end(_cut("the server ended the call without a status"))

    def _reset(self, what: str, stream: int, code: int) -> None:
        call = self._calls.pop(stream, None)
        if call is not None:
            call.end(_cut(f"the {what} the call{'' if code == _CANCEL else f' with HTTP/2 code {code}'}"))

    # -- requests

    def read_request(self, message: Message, encoding: str) -> GrpcAsk:
        """Read a request as far as it is needed to find its responses."""
        ask = GrpcAsk(self.now)
        if message.data is None:
            self._sink.writer.leave_out(TOO_LARGE)
            return ask
        try:
            data = bytes(message.unpacked(encoding, MOST_MESSAGE))
            ask.message, ask.raw = parse(data)
            ask.model, ask.ident = ask.message.model_name, ask.message.id
            ask.hold(len(data), self.memory)
        except TooLargeError as error:
            self.drop(ask, error)
            return ask
        except (NotReadable, TritonError, DecodeError) as error:
            ask.unsent = f"the request cannot be read: {error or type(error).__name__}"
        has_sequence = ask.message is not None and "sequence_id" in ask.message.parameters
        read = (lambda: self._reader.request(ask, {})[0]) if has_sequence else None
        ask.is_chosen = self._sink.chooses(self.now, read)
        if not ask.is_chosen:
            ask.message, ask.raw, ask.held = None, (), []
        return ask

    def drop(self, ask: GrpcAsk, error: TooLargeError) -> None:
        """Leave out a request that is too large together with its answers, or for which there is no memory."""
        self._sink.writer.leave_out(NO_ROOM if isinstance(error, NoRoomError) else TOO_LARGE)
        ask.is_chosen = False
        ask.message, ask.raw, ask.answers, ask.held = None, (), [], []

    def finish(self, ask: GrpcAsk) -> None:
        if ask.is_chosen:
            ask.replied_at = self.now
            self._sink.writer.add(partial(self._reader.read, ask, self._sink.began), ask.byte_size)


class _Call:
    """A call that is passed on unread."""

    @property
    def chosen_count(self) -> int:
        """The number of requests under way that are chosen."""
        return 0

    def __init__(self, connection: TappedGrpc, headers: Headers) -> None:
        self.connection = connection
        self.ask_encoding = headers.get("grpc-encoding", "identity")
        self.answer_encoding = "identity"

    def ask(self, data: bytes) -> None:
        """Take bytes of the client."""

    def answer(self, data: bytes) -> None:
        """Take bytes of the server."""

    def end(self, error: _End) -> None:
        """Note the end of the call."""


class _InferCall(_Call):
    """A call of ModelInfer or, with `is_stream`, of ModelStreamInfer."""

    def __init__(self, connection: TappedGrpc, headers: Headers, is_stream: bool) -> None:
        super().__init__(connection, headers)
        self._is_stream = is_stream
        self._open: dict[str, list[GrpcAsk]] = {}  # by id
        self._count = 0
        self._asks = MessageReader(connection.memory)
        self._answers = MessageReader(connection.memory)

    def ask(self, data: bytes) -> None:
        for message in self._asks.feed(data):
            ask = self.connection.read_request(message, self.ask_encoding)
            same = self._open.setdefault(ask.ident, [])
            if self._is_stream:
                rivals = [each for each in same if each.model == ask.model]
                for each in (*rivals, ask) if rivals else ():
                    each.unanswered, each.answers = _AMBIGUOUS, []
                if self._count >= _MOST_OPEN:
                    self._give_up()
            same.append(ask)
            self._count += 1

    def _give_up(self) -> None:
        ident = next(iter(self._open))
        ask = self._open[ident][0]
        ask.unanswered = f"{_MOST_OPEN} later requests of its stream have come, and it has no last response"
        self._done(ident, ask)

    def answer(self, data: bytes) -> None:
        for message in self._answers.feed(data):
            try:
                unpacked = message.unpacked(self.answer_encoding, MOST_MESSAGE)
                if self._is_stream:
                    self._route(messages.ModelStreamInferResponse.FromString(bytes(unpacked)), len(unpacked))
                    continue
                for ask in self._all():
                    self._add(ask, bytes(unpacked), "", len(unpacked))
            except (NotReadable, DecodeError) as error:
                for ask in self._all():  # any of them, in a stream
                    ask.unanswered = f"the answer cannot be read: {error or type(error).__name__}"

    @property
    def chosen_count(self) -> int:
        return sum(ask.is_chosen for ask in self._all())

    def _all(self) -> list[GrpcAsk]:
        return [ask for asks in self._open.values() for ask in asks]

    def _add(self, ask: GrpcAsk, answer: Any, error: str, size: int) -> None:
        if ask.is_chosen and not ask.unanswered:
            ask.answers.append((answer, error, self.connection.now))
            try:
                ask.hold(size, self.connection.memory)
            except TooLargeError as problem:
                self.connection.drop(ask, problem)

    def _route(self, message: Any, size: int) -> None:
        """Find the request of a response of a stream."""
        response, error = message.infer_response, message.error_message
        asks = self._open.get(response.id, ())
        found = [ask for ask in asks if not response.model_name or ask.model == response.model_name]
        if not found:
            return
        if len(found) > 1:  # a refusal names no model
            for ask in found:
                ask.unanswered, ask.answers = _AMBIGUOUS, []
        self._add(found[0], response, error, size)
        is_final = response.parameters[_FINAL].bool_param if _FINAL in response.parameters else bool(error)
        if is_final:
            self._done(response.id, found[0])

    def _done(self, ident: str, ask: GrpcAsk) -> None:
        same = self._open[ident]
        same.remove(ask)
        self._count -= 1
        if not same:
            del self._open[ident]
        self.connection.finish(ask)

    def end(self, end: _End) -> None:
        for ask in self._all():
            ask.error = ask.error or end.error
            ask.unanswered = ask.unanswered or end.unanswered
            if self._is_stream and not ask.answers and end.error is None and not ask.unanswered:
                ask.answers.append((_empty_final(ask), "", self.connection.now))  # a model may give no response
            self.connection.finish(ask)
        self._open.clear()


def _empty_final(ask: GrpcAsk) -> Any:
    message = messages.ModelInferResponse(model_name=ask.model, id=ask.ident)
    message.parameters[_FINAL].bool_param = True
    return message


class _End(NamedTuple):
    """The end of a call: its error, and why the answer is not the model's own."""

    error: TritonError | None = None
    unanswered: str = ""


def _cut(text: str) -> _End:
    kind = CancelledError if "client" in text else UnavailableError
    return _End(kind(text), text)


def _status(trailers: Headers) -> _End:
    """Return the end of a call by the server's last headers."""
    text = unquote(trailers.get("grpc-message", ""), errors="replace")
    number = trailers.get("grpc-status", "")
    if number == "0":
        return _End()
    if not number.isdecimal():
        return _cut(f"the server ended the call with HTTP status {trailers.get(':status', 'unknown')}")
    return _End(TritonError.from_code(_CODES.get(int(number), Code.UNKNOWN), text))


class GrpcReader:
    """The reader of requests and answers, on the threads of the capture and its writer."""

    def __init__(self) -> None:
        self._regions = UnseenRegions()
        self._requests = InferRequestReader(self._regions)
        self._lock = threading.Lock()  # for both of them

    def read(self, ask: GrpcAsk, began: int) -> CapturedRequest:
        """Read a request and its answer."""
        withheld: dict[str, Withheld] = {}
        request, unsent = self.request(ask, withheld)
        unanswered, error = ask.unanswered, ask.error
        arrivals: list[Arrival] = []
        outputs = ask.message.outputs if ask.message is not None else ()
        regions = [output.name for output in outputs if "shared_memory_region" in output.parameters]
        for number, (answer, text, at) in enumerate(ask.answers):
            try:
                response = _response(answer, text, regions, number, withheld)
            except (ValueError, KeyError, DecodeError) as problem:
                unanswered = unanswered or f"the answer cannot be read: {problem}"
                continue
            arrivals.append(Arrival(response, max(0, at - ask.sent_at)))
        if error is None:
            error = first_error(arrivals)
            if arrivals and not unanswered:
                arrivals[-1].response.final = True  # its stream has ended
        elif not unanswered:
            response = InferenceResponse(ask.model, request_id=ask.ident, error=error)
            arrivals.append(Arrival(response, max(0, ask.replied_at - ask.sent_at)))
        exchange = Exchange(request, tuple(arrivals), error, unanswered=unanswered, unsent=unsent, source="tap")
        return CapturedRequest(exchange, ask.sent_at - began, "grpc", withheld)

    def request(self, ask: GrpcAsk, withheld: dict[str, Withheld]) -> tuple[InferenceRequest, str]:
        """Return the request, and why it cannot be sent again."""
        named = InferenceRequest(ask.model, {}, request_id=ask.ident)
        if ask.message is None:
            return named, ask.unsent
        try:
            version = checked_version(ask.message.model_version) if ask.message.model_version else -1
            with self._lock:
                request, _, _ = self._requests.read(ask.message, ask.raw, version)
                return request, self._regions.withhold(request, withheld)
        except (TritonError, ValueError) as error:
            return named, f"the request is not valid: {error}"


def _response(
    answer: Any, text: str, regions: Sequence[str], number: int, withheld: dict[str, Withheld]
) -> InferenceResponse:
    """Read a response. `regions`: outputs that the server wrote into the client's shared memory."""
    message = messages.ModelInferResponse.FromString(answer) if isinstance(answer, bytes) else answer
    for index in range(len(message.outputs) - 1, -1, -1):
        output = message.outputs[index]
        if output.name in regions:
            withheld[f"output.{number}.{output.name}"] = Withheld("dropped", output.datatype, tuple(output.shape))
            del message.outputs[index]
            if index < len(message.raw_output_contents):
                del message.raw_output_contents[index]
    response = read_answer(message)
    if text:
        response.error = UnknownError(text)
        response.empty = False
    return response
