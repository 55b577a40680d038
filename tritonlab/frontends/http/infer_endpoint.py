"""`POST /v2/models/<m>[/versions/<v>]/infer`, answered without a router, because this route must be fast."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import NamedTuple

from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse, ParameterValue
from ...core.inference.request_examination import CutElementError
from ...core.status import InvalidArgumentError, TritonError, UnsupportedError
from ...server.models.model_lifecycle import ModelVersion
from ..shared.access import Forwarded
from ..shared.infer_exchange import InferExchange, OneResponse
from ..shared.request_memory import HeldMemory, NoRoomError
from ..shared.request_parameters import check_forwarded
from . import data_compressor, large_work
from .connection import LaterReply, Reply
from .infer_decoder import InferDecoder
from .infer_encoder import InferEncoder, RequestedOutputs
from .large_work import LargeWork
from .reply import BINARY as BINARY_KIND
from .reply import (
    JSON,
    METHOD_NOT_ALLOWED,
    TEXT,
    HttpReply,
    RestrictedFeatures,
    failure,
    header,
    refusal,
    version_number,
)
from .request_parser import Request

_JSON_SIZE = b"inference-header-content-length"
_ENCODING = b"content-encoding"
_ACCEPTS = b"accept-encoding"
#: A size with this many digits is read at each request, because it is nearly always refused.
_MAX_DIGITS = 12
_LARGE_REGION = re.compile(rb'"shared_memory_byte_size"\s*:\s*[0-9]{7}')

PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/([0-9]+))?/infer")


class InferHead:
    """The values of a request's head, with the model's name and version."""

    def __init__(self, request: Request, model: str, version: int) -> None:
        self.headers = headers = request.headers
        #: as the client wrote them, in the order of `headers`
        self.names: Sequence[bytes] = request.names
        self.sender = request.sender
        self.model = model
        self.version = version
        self.json_size = header(headers, _JSON_SIZE)
        self.encoding = header(headers, _ENCODING)
        self.accepts = header(headers, _ACCEPTS)
        #: `json_size` as a number, read once for all requests with this head; -1 if it is missing or not a number
        self.json_bytes = -1
        if self.json_size is not None and self.json_size.isdecimal() and len(self.json_size) < _MAX_DIGITS:
            self.json_bytes = int(self.json_size)
        #: whether the body is large and much of it is JSON
        self.json_is_large = self.json_size is None or len(self.json_size) >= len(str(large_work.JSON_AT_ONCE))
        self._forwarded: dict[str, ParameterValue] | None = None

    def parameters(self, forwarded: Forwarded) -> dict[str, ParameterValue]:
        """Return the headers that are `forwarded`, as parameters (rule 6.14). Raises InvalidArgumentError."""
        if self._forwarded is None:
            found: dict[str, ParameterValue] = {}
            for sent, (_, value) in zip(self.names, self.headers, strict=False):
                name = sent.decode("latin-1")
                if forwarded(name):
                    check_forwarded(name)
                    found[name] = value.decode("utf-8", "surrogateescape")
            self._forwarded = found
        return self._forwarded


class LoopThread(NamedTuple):
    """An event loop and the thread that runs it."""

    loop: asyncio.AbstractEventLoop
    ident: int

    @classmethod
    def current(cls) -> LoopThread:
        return cls(asyncio.get_running_loop(), get_ident())


class HttpInferCall(LaterReply):
    """A request under way, and the reply to it; `found` is its version. Its one response may come on any thread; on the
    event loop's thread it is sent at once."""

    __slots__ = (
        "_endpoint",
        "_home",
        "_parts",
        "_take",
        "found",
        "head",
        "held",
        "outputs",
        "polled",
        "request",
        "response",
    )

    def __init__(
        self,
        endpoint: InferEndpoint,
        head: InferHead,
        request: InferenceRequest,
        outputs: RequestedOutputs,
        found: ModelVersion,
        home: LoopThread,
        held: Sequence[HeldMemory] | None = None,
    ) -> None:
        #: counts inputs in the client's shared memory until the request is answered
        self.held = held
        self.head = head
        self.request = request
        self.outputs = outputs
        self.found = found
        #: the client's reply, once it has come
        self.response: InferenceResponse | None = None
        #: whether the event loop reads the answer itself, and then checks whether it has come
        self.polled = False
        self._endpoint = endpoint
        self._home = home
        self._take: Callable[[Reply], None] | None = None
        self._parts: OneResponse | None = None  # the responses before the final one
        request.on_response = self._on_response

    def then(self, take: Callable[[Reply], None]) -> None:
        self._take = take

    def give_up(self) -> None:
        self._take = None
        self._endpoint.forget(self)

    def leave(self) -> None:
        if self._endpoint.cancels:
            self.request.cancel()

    async def reply(self) -> HttpReply:
        """Return the reply, once it has come."""
        if self.response is not None:
            reply = self._endpoint.reply(self)
        else:
            future: asyncio.Future[Reply] = self._home.loop.create_future()
            self.then(partial(_settle, future))
            try:
                reply = await future
            except BaseException:
                self.give_up()
                raise
        return reply if isinstance(reply, HttpReply) else await reply

    def is_large(self) -> bool:
        """Return whether the answer, which has come, takes long to encode."""
        assert self.response is not None
        outputs = self.response.outputs
        total = 0
        for tensor in outputs.values():
            total += tensor.data.nbytes
        if total <= large_work.JSON_AT_ONCE:
            return False
        if self.head.accepts is not None or total > large_work.COPY_AT_ONCE:
            return True
        by_name, default = self.outputs.by_name, self.outputs.default
        return any(
            not info.binary or info.classes
            for name, tensor in outputs.items()
            if not (info := by_name.get(name, default)).region and tensor.data.nbytes > large_work.JSON_AT_ONCE
        )

    def _on_response(self, request: InferenceRequest, response: InferenceResponse) -> None:
        if self._parts is not None or response.empty or not response.final:
            self._parts = self._parts or OneResponse()
            self._parts.add(response)
            if not response.final:
                return
            response = self._parts.take(none="received an unexpected null response")
        self.response = response
        if self.polled:
            return
        if self._home.ident == get_ident():
            self._answered()
            return
        with contextlib.suppress(RuntimeError):  # the endpoint was stopped; the result is not awaited
            self._home.loop.call_soon_threadsafe(self._answered)

    def _answered(self) -> None:
        take, self._take = self._take, None
        if take is not None:
            take(self._endpoint.reply(self))


def _settle(future: asyncio.Future[Reply], reply: Reply) -> None:
    if not future.done():
        future.set_result(reply)
    elif not isinstance(reply, HttpReply):  # the result is no longer awaited
        reply.close()


class InferEndpoint:
    """The endpoint of infer requests. `on_defect` makes the reply for an unexpected exception; `work` runs long calls;
    `cancels`: whether a client that leaves cancels its request."""

    def __init__(
        self,
        exchange: InferExchange,
        restricted: RestrictedFeatures,
        forwarded: Forwarded | None,
        max_input_size: int,
        on_defect: Callable[[Exception], HttpReply],
        work: LargeWork,
        cancels: bool,
    ) -> None:
        #: whether a client that goes cancels its request
        self.cancels = cancels
        self._exchange = exchange
        self._tracer = exchange.core.tracer
        self._log_settings = exchange.core.log_settings
        self._memory = exchange.shared_memory
        self._decoder = InferDecoder(exchange.shared_memory, max_input_size)
        self._encoder = InferEncoder(exchange)
        self._restricted = restricted
        self._forwarded = forwarded
        self._max_input_size = max_input_size
        self._on_defect = on_defect
        self._work = work

    async def __call__(self, request: Request, model: str, version: str) -> HttpReply:
        head = self._read(request, model, version)
        if isinstance(head, HttpReply):
            return head
        home = LoopThread.current()
        body, request.body = request.body, b""
        large = _is_large(head, len(body))
        if large or (self._memory.in_use and _names_large_region(body)):
            begun = await self._work.run_for(request, self._begin, head, body, home, polls=False)
        else:
            begun = self._begin(head, body, home)
        del body
        if self.cancels and isinstance(begun, HttpInferCall) and begun.response is None:
            request.call_when_gone(begun.request.cancel)
        reply = await begun.reply() if isinstance(begun, HttpInferCall) else begun
        if reply.status == 200 and request.remember is not None and not large:
            request.remember(partial(self._answer, head, home))
        return reply

    def _read(self, request: Request, model: str, version: str) -> InferHead | HttpReply:
        if (restricted := self._restricted.refusal("inference", request.headers)) is not None:
            return restricted
        if request.method != "POST":
            return failure(405, METHOD_NOT_ALLOWED, TEXT)
        try:
            return InferHead(request, model, version_number(version))
        except TritonError as error:
            return refusal(error, TEXT)

    def _answer(self, head: InferHead, home: LoopThread, body: memoryview) -> Reply | LaterReply | None:
        """Answer a request with the same head as an earlier one, which was not large (`connection.Direct`)."""
        if self._tracer.active or self._log_settings.setting.log_verbose_level:
            return None  # there is more to note
        if self._memory.in_use and _names_large_region(body):
            return None
        try:
            begun = self._begin(head, body, home)
        except Exception as error:
            return self._on_defect(error)
        if isinstance(begun, HttpReply) or begun.response is None:
            return begun
        return self.reply(begun)

    def reply(self, call: HttpInferCall) -> Reply:
        """Return the reply to a call whose response has arrived, or a function that makes it if that takes long."""
        try:
            return self._work.run(self._end, call) if call.is_large() else self._end(call)
        except Exception as error:
            return self._on_defect(error)

    def forget(self, call: HttpInferCall) -> None:
        """Note that the client no longer waits for the answer."""
        self._exchange.end_single(call.request)

    def _begin(
        self,
        head: InferHead,
        body: bytes | bytearray | memoryview,
        home: LoopThread,
        *,
        polls: bool = True,
    ) -> HttpInferCall | HttpReply:
        """Start a request. With `polls` also wait a moment for the answer, if that pays."""
        model, number = head.model, head.version
        try:
            found = self._exchange.find(model, number, single="HTTP end point")
            if head.encoding is not None:
                body = data_compressor.decompress(head.encoding, body, self._max_input_size)
            json_size = head.json_bytes
            if not 0 <= json_size <= len(body):
                json_size = _json_size(head.json_size, len(body))
        except UnsupportedError as error:
            accepts = [(b"accept-encoding", b"gzip, deflate")] if "compression" in error.message else []
            return refusal(error, TEXT, accepts)
        except TritonError as error:
            return refusal(error, TEXT)
        try:
            held: list[HeldMemory] | None = [] if self._memory.in_use else None
            request, outputs = self._decoder.decode(body, json_size, model, number, config=found.config, held=held)
            if self._forwarded is not None and (forwarded := head.parameters(self._forwarded)):
                request.parameters = {**(request.parameters or {}), **forwarded}
        except TritonError as error:
            return refusal(error)
        except NoRoomError as error:
            return failure(503, str(error))
        call = HttpInferCall(self, head, request, outputs, found=found, home=home, held=held)
        call.polled = polls
        try:
            self._exchange.submit_single(found, request, polls, head.sender)
        except TritonError as error:
            request.let_go()  # it refers to its call, which refers to it
            return refusal(error, TEXT if isinstance(error, CutElementError) else JSON)
        call.polled = False
        return call

    def _end(self, call: HttpInferCall) -> HttpReply:
        self._exchange.end_single(call.request)
        response = call.response
        assert response is not None
        if response.error is not None:  # not raised: its traceback would keep this call, body and all
            return refusal(response.error, TEXT)
        try:
            text, blobs = self._encoder.encode(response, call.outputs, call.found, call.request)
        except TritonError as error:
            return refusal(error, TEXT)
        if blobs:
            reply = HttpReply(
                status=200, body=text, kind=BINARY_KIND, headers=((_JSON_SIZE, b"%d" % len(text)),), more=blobs
            )
        else:
            reply = HttpReply(200, text)
        return reply if call.head.accepts is None else _compressed(reply, call.head.accepts)


def _is_large(head: InferHead, size: int) -> bool:
    """Return whether it takes long to decode a body of `size` bytes and to hand it over."""
    if size > large_work.COPY_AT_ONCE or (size > large_work.JSON_AT_ONCE and head.json_is_large):
        return True
    return head.encoding is not None and size > large_work.PACKED_AT_ONCE


def _names_large_region(body: bytes | bytearray | memoryview) -> bool:
    """Return whether much of the request may be in its client's shared memory."""
    return _LARGE_REGION.search(body, 0, large_work.JSON_AT_ONCE) is not None


def _compressed(reply: HttpReply, accepts: str) -> HttpReply:
    """Compress a reply with an encoding that the client `accepts`."""
    if (encoding := data_compressor.accepted(accepts)) in ("gzip", "deflate"):
        reply.body, reply.more = data_compressor.compress(encoding, [reply.body, *reply.more]), ()
        reply.headers = (*reply.headers, (_ENCODING, encoding.encode()))
    return reply


def _json_size(header: str | None, size: int) -> int:
    """Return how many bytes of the body are JSON: all of them, unless the client sets another size (rule 6.5.2)."""
    if header is None:
        return size
    try:
        number = int(header.replace("_", "x"))  # which Python would skip
    except ValueError:  # since 2025-10; 2.51 reads the leading digits
        raise InvalidArgumentError(f"Unable to parse Inference-Header-Content-Length, got: {header}") from None
    if not 0 <= number <= size:
        raise InvalidArgumentError(f"inference header size should be in range (0, {size}), got: {header}")
    return number
