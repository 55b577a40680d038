"""`generate`, answered with one reply, and `generate_stream`, with one event per response: one flat JSON object in, one
out per response (rules 6.8 and 6.9).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any

from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse, ParameterValue
from ...core.inference.tensor import Tensor
from ...core.status import InvalidArgumentError, TritonError
from ..shared.infer_exchange import InferExchange
from ..shared.request_memory import OVERHEAD, too_much_unread
from . import errors, json_tensor, json_writer
from .infer_decoder import model_parameter, set_id
from .infer_encoder import json_data
from .json_document import MissingMember, about, as_object, members, parse
from .large_json import LargeArray
from .large_work import JSON_AT_ONCE, LargeWork
from .rapidjson_reader import RepeatingObject
from .reply import (
    METHOD_NOT_ALLOWED,
    CutOffError,
    HttpReply,
    RestrictedFeatures,
    failure,
    header,
    refusal,
    version_number,
)
from .request_parser import Request

#: The one key whose object is unpacked.
_NESTED = "parameters"

#: The error text of an answer with status 200 (rule 6.8.6).
_NOT_ONE_RESPONSE = (
    "generate expects model to produce exactly 1 response, use generate stream for model that generates various number "
    "of responses"
)

_EVENTS = b"text/event-stream; charset=utf-8"


class ResponseQueue:
    """The responses of a request, sent by the event loop and encoded by the threads on which they come.

    If more than `most` bytes wait, the request is cancelled and the stream cut. One response may be larger.
    """

    def __init__(self, request: InferenceRequest, loop: asyncio.AbstractEventLoop, most: int) -> None:
        #: the client does not read its responses
        self.overrun = False
        self._most = most
        self._request = request
        self._loop = loop
        self._encoded: deque[tuple[int, bytes] | None] = deque()  # None is the end
        self._unsent = 0
        self._arrived = asyncio.Event()
        request.on_response = self._on_response

    def _on_response(self, request: InferenceRequest, response: InferenceResponse) -> None:
        if not (response.empty or self.overrun):
            item = _encoded(response)
            self._unsent += len(item[1]) + OVERHEAD
            self._encoded.append(item)
            if self._unsent > self._most and len(self._encoded) > 1:
                self.overrun = True
                self._encoded.append((400, errors.body(too_much_unread(self._most))))
                self.cancel()
        if response.final or self.overrun:
            self._encoded.append(None)
        with contextlib.suppress(RuntimeError):  # the endpoint was stopped; the result is not awaited
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def get(self) -> tuple[int, bytes] | None:
        """Return status and JSON of the next response; None after the last one."""
        while not self._encoded:
            self._arrived.clear()
            if not self._encoded:
                await self._arrived.wait()
        item = self._encoded.popleft()
        if item is not None:
            self._unsent -= len(item[1]) + OVERHEAD
        return item

    def cancel(self) -> None:
        """Cancel the request; its responses still come."""
        self._request.cancel()

    def abandon(self) -> None:
        """Cancel the request, because its client is gone; nothing more is sent. Runs on the event loop."""
        self.cancel()
        self._encoded.clear()
        self._encoded.append(None)
        self._arrived.set()


def _encoded(response: InferenceResponse) -> tuple[int, bytes]:
    """Return status and JSON of a response. An error has status 400, whatever its code (rule 6.8.5).

    The error is not raised: its traceback would lead back to the response, and keep it until the garbage collector
    runs.
    """
    if response.error is not None:
        return 400, errors.body(response.error.message)
    try:
        return 200, encode_response(response)
    except TritonError as error:
        return 400, errors.body(error.message)


class GenerateEndpoint:
    """The endpoint `generate`, or `generate_stream` with `stream`. At most `most_unread` bytes wait for a client.
    `cancels`: whether a client that leaves cancels `generate`, too."""

    def __init__(
        self,
        exchange: InferExchange,
        restricted: RestrictedFeatures,
        work: LargeWork,
        *,
        stream: bool,
        most_unread: int,
        cancels: bool,
    ) -> None:
        self._exchange = exchange
        self._work = work
        self._restricted = restricted
        self._stream = stream
        self._most_unread = most_unread
        self._cancels = cancels

    async def __call__(self, request: Request, path: dict[str, str]) -> HttpReply:
        loop = asyncio.get_running_loop()
        if len(request.body) > JSON_AT_ONCE:
            started = await self._work.run_for(request, self._start, request, path, loop)
        else:
            started = self._start(request, path, loop)
        request.body = b""
        if isinstance(started, HttpReply):
            return started
        if self._stream:
            request.call_when_gone(started.abandon)
            return await _events(started)
        if self._cancels:
            request.call_when_gone(started.cancel)
        return await _single(started)

    def _start(
        self, request: Request, path: dict[str, str], loop: asyncio.AbstractEventLoop
    ) -> HttpReply | ResponseQueue:
        if (restricted := self._restricted.refusal("inference", request.headers)) is not None:
            return restricted
        if request.method != "POST":
            return failure(405, METHOD_NOT_ALLOWED)
        model, version = path["model"], path.get("version", "")
        try:
            number = version_number(version)
            found = self._exchange.find(model, number)
            if header(request.headers, b"content-encoding") not in (None, "identity"):
                raise InvalidArgumentError("Unsupported content-encoding, only 'identity' is supported.")
            sent = decode_request(request.body, model, number, found.rules.metadata(()))
            queue = ResponseQueue(sent, loop, self._most_unread)
            self._exchange.submit(found, sent)
        except TritonError as error:
            return refusal(error)
        return queue


async def _events(queue: ResponseQueue) -> HttpReply:
    """Send responses as events, with the status of the first response."""
    first = await queue.get()

    async def events() -> AsyncIterator[bytes]:
        item = first
        while item is not None:
            yield b"data: %b\n\n" % item[1]
            item = await queue.get()
        if queue.overrun:
            raise CutOffError

    return HttpReply(first[0] if first is not None else 200, kind=_EVENTS, events=events())


async def _single(queue: ResponseQueue) -> HttpReply:
    status, body, count = 200, b"", 0
    while (item := await queue.get()) is not None:
        count += 1
        if count == 1:
            status, body = item
    return HttpReply(status, body if count == 1 else errors.body(_NOT_ONE_RESPONSE))


def decode_request(body: bytes | bytearray, model: str, version: int, metadata: Mapping[str, Any]) -> InferenceRequest:
    """Make the request from a body; `metadata` is the model's (rule 6.1.2). Raises TritonError with Triton's text."""
    document = parse(body or b"{}")  # since 2026-04 an empty body is an empty object (rule 6.8.4)
    request = InferenceRequest(model, {}, model_version=version)
    wanted = {tensor["name"]: tensor for tensor in metadata["inputs"]}
    parameters: dict[str, ParameterValue] = {}
    values = members(document)
    set_id(request, document)
    _convert(request, values, wanted, parameters, nested=False)
    if parameters:
        request.parameters = parameters
    return request


def _convert(
    request: InferenceRequest,
    values: Mapping[str, Any],
    wanted: Mapping[str, Any],
    parameters: dict[str, ParameterValue],
    *,
    nested: bool,
) -> None:
    for key, value in values.items():
        if key == _NESTED and not nested:
            _unpack(request, value, wanted, parameters)
        elif key in wanted:
            if type(value) is MissingMember:
                raise InvalidArgumentError(f"unexpected key not found in generate request, expecting key '{key}'")
            if key in request.inputs:
                raise _exists(request, key)
            request.inputs[key] = _tensor(key, wanted[key], value)
        else:
            parameters[key] = model_parameter(key, value)
    if isinstance(values, RepeatingObject):
        if twice := [key for key in values.again if key in wanted]:
            raise _exists(request, twice[0])
        if _NESTED in values.again and not nested:
            _unpack(request, values[_NESTED], wanted, parameters)  # the first once more, as Triton does (measured)


def _exists(request: InferenceRequest, name: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{request.prefix}input '{name}' already exists in request")


def _unpack(
    request: InferenceRequest, value: Any, wanted: Mapping[str, Any], parameters: dict[str, ParameterValue]
) -> None:
    if _NESTED in wanted:
        raise InvalidArgumentError(f"Keyword '{_NESTED}' for nested schema also given as input tensor name")
    try:
        inner = as_object(value)
    except TritonError as error:
        raise about(f"Expected JSON object for keyword: '{_NESTED}'", error) from None
    try:
        _convert(request, members(inner), wanted, parameters, nested=True)
    except TritonError as error:
        raise about(f"Converting keyword: '{_NESTED}'", error) from None


def _tensor(name: str, wanted: Mapping[str, Any], value: Any) -> Tensor:
    datatype = DataType[wanted["datatype"]]
    count = len(value) if type(value) is list else value.length if type(value) is LargeArray else 1
    if datatype is DataType.BYTES:  # Triton reads the texts of these before it counts them
        data = json_tensor.elements(name, datatype, value, count)
        return Tensor(datatype, _shape(name, wanted["shape"], count), data)
    shape = _shape(name, wanted["shape"], count)
    return Tensor(datatype, shape, json_tensor.elements(name, datatype, value, count))


def _shape(name: str, dims: list[int], count: int) -> tuple[int, ...]:
    """Spread `count` elements over the fixed dimensions; the innermost variable dimension takes the rest."""
    left = count
    for size in reversed(dims):
        if size != -1:
            left, remainder = divmod(left, size)
            if remainder:
                raise _no_shape(name)
    shape = list(dims)
    for index in range(len(dims) - 1, -1, -1):
        if shape[index] == -1:
            shape[index], left = left, 1
    if left != 1:
        raise _no_shape(name)
    return tuple(shape)


def _no_shape(name: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"The schema can not convert input '{name}' to tensor with proper shape")


def encode_response(response: InferenceResponse) -> bytes:
    """Return the JSON of one response: its members in the order of their names, as on Triton (measured)."""
    found: dict[str, bytes] = {}
    for name, tensor in response.outputs.items():
        data = json_data(name, tensor)
        count = math.prod(tensor.shape) if tensor.datatype is DataType.BYTES else tensor.data.size
        found[name] = data[1:-1] if count == 1 else data
    for name, value in response.parameters.items():
        found[name] = json_writer.value(value)
    if response.request_id:
        found["id"] = json_writer.text(response.request_id)
    found["model_name"] = json_writer.text(response.model_name)
    found["model_version"] = b'"%d"' % response.model_version
    return json_writer.members(sorted(found.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape")))
