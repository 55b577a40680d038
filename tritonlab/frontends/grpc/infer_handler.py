"""ModelInfer: one request, one response (rules 6.7, 3.7.4)."""

from __future__ import annotations

from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from ...core.infer_request import InferenceRequest
from ...core.infer_response import InferenceResponse
from ...core.status import InternalError, TritonError, UnsupportedError
from ...server.inference_server import InferenceServer
from ..shared.access import Forwarded
from ..shared.lone_requests import LoneRequests
from ..shared.shared_memory_manager import SharedMemoryManager
from .calls import Metadata, UnaryCall
from .errors import STATUS
from .infer_request_reader import InferRequestReader, Raw, checked_version, parse
from .infer_response_writer import InferResponseWriter, OutputsWanted


class Asked(NamedTuple):
    """A request, how its outputs are wanted, whether an empty final response is (rule 3.7.5), whether its model is
    decoupled, and the version that the client named."""

    request: InferenceRequest
    wanted: OutputsWanted | None
    empty_final: bool
    decoupled: bool
    version: str


class InferService:
    """What the infer calls of a server share: the core, and the way from messages to requests and back."""

    def __init__(
        self, core: InferenceServer, shared_memory: SharedMemoryManager, forwarded: Forwarded | None = None
    ) -> None:
        self.core = core
        self.writer = InferResponseWriter(shared_memory)
        self.lone = LoneRequests()
        self._reader = InferRequestReader(shared_memory, forwarded)

    def request(self, message: Any, raw: Raw, metadata: Metadata, streamed: bool) -> Asked:
        """What a message asks for. Raises TritonError, for what Triton looks at first."""
        number = checked_version(message.model_version) if message.model_version else -1
        version = self.core.find(message.model_name, number)
        rules = version.rules
        if not streamed and rules.decoupled:
            raise UnsupportedError("ModelInfer RPC doesn't support models with decoupled transaction policy")
        request, plans, empty_final = self._reader.read(message, raw, number, metadata)
        wanted = None if plans is None else OutputsWanted(plans, version.labels, rules.max_batch_size > 0)
        return Asked(request, wanted, empty_final, rules.decoupled, message.model_version)


class ModelInferCall(UnaryCall):
    """One call of ModelInfer."""

    def __init__(self, event: Any, service: InferService, compression: str = "") -> None:
        self.compression = compression
        self._service = service
        self._request: InferenceRequest | None = None
        self._wanted: OutputsWanted | None = None
        self._gone = False
        self._earlier: list[InferenceResponse] = []  # before the final one, which may be empty
        super().__init__(event)

    def handle(self, message: bytes) -> None:
        service = self._service
        try:
            parsed, raw = parse(message)
        except DecodeError:
            self.fail(grpc.StatusCode.INTERNAL, "Unable to parse request")
            return
        try:
            asked = service.request(parsed, raw, self.metadata, streamed=False)
            request, self._wanted = asked.request, asked.wanted
            request.on_response = self._on_response
            self._request = request
            if self._gone:
                request.cancel()
        except TritonError as error:
            self._fail(error)
            return
        alone = service.lone.begin(request)
        try:
            service.core.infer(request)
        except TritonError as error:
            self._request = None  # it leads back here
            service.lone.end(request)
            self._fail(error)
            return
        if alone:
            service.lone.poll(request)

    def _on_response(self, request: InferenceRequest, response: InferenceResponse) -> None:
        if not response.final:
            self._earlier.append(response)
            return
        request.on_response = None
        self._service.lone.end(request)
        try:
            if self._earlier or response.empty:
                response = self._only(response)
            message = self._service.writer.response(response, self._wanted) if response.error is None else b""
        except TritonError as error:
            self._fail(error)
            return
        if response.error is not None:  # not raised: its traceback would keep this call and the inputs
            self._fail(response.error)
        else:
            self.respond(message)

    def _only(self, final: InferenceResponse) -> InferenceResponse:
        """The one response of a request, whose model sent the final one apart from it."""
        responses = self._earlier if final.empty else [*self._earlier, final]
        if len(responses) != 1:
            raise InternalError(f"expected a single response, got {len(responses)}")
        return responses[0]

    def _fail(self, error: TritonError) -> None:
        self.fail(STATUS[error.code], error.message)

    def cancelled(self) -> None:
        self._gone = True
        if self._request is not None:
            self._request.cancel()
