"""`POST /v2/models/<m>[/versions/<v>]/infer`: the one route that must be fast, so it does without a router."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence

from starlette.types import Receive, Scope, Send

from ...core.infer_request import InferenceRequest
from ...core.infer_response import InferenceResponse
from ...core.status import InternalError, InvalidArgumentError, TritonError, UnsupportedError
from ...server.inference_server import InferenceServer
from ...server.model_lifecycle import ModelVersion
from ..lone_requests import LoneRequests
from ..request_parameters import check_forwarded
from ..shared_memory_manager import SharedMemoryManager
from . import data_compressor
from .infer_decoder import BINARY, InferDecoder, RequestedOutputs
from .infer_encoder import InferEncoder
from .raw_input import raw_request
from .reply import BINARY as BINARY_KIND
from .reply import METHOD_NOT_ALLOWED, TEXT, Headers, Reply, failure, header, read_body, refusal
from .restricted_features import RestrictedFeatures
from .version_number import version_number

_JSON_SIZE = b"inference-header-content-length"
_ENCODING = b"content-encoding"
_ACCEPTS = b"accept-encoding"

PATH = re.compile(rb"/v2/models/([^/]+)(?:/versions/([0-9]+))?/infer")


class SingleResponse:
    """Waits for the one response of a request, which comes on any thread."""

    __slots__ = ("_count", "_future", "_loop", "_over", "_polling", "_response")

    def __init__(self, request: InferenceRequest) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[InferenceResponse] = self._loop.create_future()
        self._response: InferenceResponse | None = None
        self._count = 0
        self._polling = False
        self._over = False
        request.on_response = self._on_response

    def poll(self, request: InferenceRequest) -> None:
        """Has the event loop read the answer itself, if it comes at once."""
        self._polling = True
        LoneRequests.poll(request)
        self._polling = False
        if self._over:
            self._settle()

    def _on_response(self, request: InferenceRequest, response: InferenceResponse) -> None:
        if not response.empty:
            self._count += 1
            self._response = self._response or response
        if not response.final:
            return
        request.on_response = None  # it leads back here: request and inputs would stay until the collector runs
        self._over = True
        if self._polling:
            return  # `poll` settles it: it stops polling before it looks whether it is over
        with contextlib.suppress(RuntimeError):  # the endpoint was stopped; nobody waits
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if self._future.done():
            return
        response = self._response
        if response is None:
            response = InferenceResponse(error=InternalError("received an unexpected null response"))
        elif self._count > 1:
            # The peer appends this to the first response, with status 500 (rule 3.2.3).
            response = InferenceResponse(error=InternalError(f"expected a single response, got {self._count}"))
        self._future.set_result(response)

    def __await__(self):  # type: ignore[no-untyped-def]
        return self._future.__await__()


class InferEndpoint:
    def __init__(
        self,
        core: InferenceServer,
        shared_memory: SharedMemoryManager,
        restricted: RestrictedFeatures,
        forwarded: re.Pattern[str] | None,
        max_input_size: int,
    ) -> None:
        self._core = core
        self._decoder = InferDecoder(shared_memory, max_input_size)
        self._encoder = InferEncoder(shared_memory)
        self._restricted = restricted
        self._forwarded = forwarded
        self._max_input_size = max_input_size
        self._lone = LoneRequests()

    async def __call__(self, scope: Scope, receive: Receive, send: Send, model: str, version: str) -> None:
        body = await read_body(scope, receive)
        await (await self._reply(scope, body, model, version)).send(send)

    async def _reply(self, scope: Scope, body: bytes | bytearray, model: str, version: str) -> Reply:
        headers: Headers = scope["headers"]
        if (restricted := self._restricted.refusal("inference", headers)) is not None:
            return restricted
        if scope["method"] != "POST":
            return failure(405, METHOD_NOT_ALLOWED, TEXT)
        try:
            number = version_number(version)
            found = self._core.find(model, number)
            if found.rules.decoupled:
                raise UnsupportedError("HTTP end point doesn't support models with decoupled transaction policy")
            encoding = header(headers, _ENCODING)
            if encoding is not None:
                body = data_compressor.decompress(encoding, body, self._max_input_size)
            json_size = _json_size(headers, len(body))
        except UnsupportedError as error:
            accepts = [(b"accept-encoding", b"gzip, deflate")] if "compression" in error.message else []
            return refusal(error, TEXT, accepts)
        except TritonError as error:
            return refusal(error, TEXT)
        try:
            request, outputs = self._decode(body, json_size, model, number, found)
            if self._forwarded is not None:
                forward_headers(request, scope, self._forwarded)
            answer = SingleResponse(request)
        except TritonError as error:
            return refusal(error)
        alone = self._lone.begin(request)
        try:
            return await self._answer(request, answer, alone, outputs, found, headers)
        finally:
            self._lone.end(request)

    async def _answer(
        self,
        request: InferenceRequest,
        answer: SingleResponse,
        alone: bool,
        outputs: RequestedOutputs,
        found: ModelVersion,
        headers: Headers,
    ) -> Reply:
        try:
            self._core.infer(request)
        except TritonError as error:
            return refusal(error)
        if alone:
            answer.poll(request)
        response = await answer
        if response.error is not None:  # not raised: its traceback would keep this call, body and all
            return refusal(response.error, TEXT)
        try:
            return self._encode(response, outputs, found, headers)
        except TritonError as error:
            return refusal(error, TEXT)

    def _decode(
        self, body: bytes | bytearray, json_size: int, model: str, number: int, found: ModelVersion
    ) -> tuple[InferenceRequest, RequestedOutputs]:
        if json_size:
            return self._decoder.decode(body, json_size, model, number)
        self._decoder.check_size(len(body))
        return raw_request(body, model, number, found.config), RequestedOutputs(default=BINARY)

    def _encode(
        self, response: InferenceResponse, outputs: RequestedOutputs, found: ModelVersion, headers: Headers
    ) -> Reply:
        text, blobs = self._encoder.encode(response, outputs, found)
        reply = Reply(body=text)
        if blobs:
            reply.kind = BINARY_KIND
            reply.more = blobs
            reply.headers = [(_JSON_SIZE, b"%d" % len(text))]
        accepts = header(headers, _ACCEPTS)
        if accepts is not None and (encoding := data_compressor.accepted(accepts)) in ("gzip", "deflate"):
            reply.body, reply.more = data_compressor.compress(encoding, [text, *blobs]), ()
            reply.headers = [*reply.headers, (_ENCODING, encoding.encode())]
        return reply


def _json_size(headers: Headers, size: int) -> int:
    """How many bytes of the body are JSON: all of them, unless the client says otherwise (rule 6.5.2)."""
    given = header(headers, _JSON_SIZE)
    if given is None:
        return size
    try:
        number = int(given)
    except ValueError:  # since 2025-10; 2.51 reads what digits there are
        raise InvalidArgumentError(f"Unable to parse Inference-Header-Content-Length, got: {given}") from None
    if not 0 <= number <= size:
        raise InvalidArgumentError(f"inference header size should be in range (0, {size}), got: {given}")
    return number


def forward_headers(request: InferenceRequest, scope: Scope, pattern: re.Pattern[str]) -> None:
    """Makes parameters of the request headers whose name `pattern` finds (rule 6.14)."""
    headers: Headers = scope["headers"]
    names: Sequence[bytes] = scope.get("tritonlab.names") or [name for name, _ in headers]
    for sent, (_, value) in zip(names, headers, strict=False):
        name = sent.decode("latin-1")
        if pattern.search(name):
            check_forwarded(name)
            request.parameters = {**(request.parameters or {}), name: value.decode("utf-8", "surrogateescape")}
