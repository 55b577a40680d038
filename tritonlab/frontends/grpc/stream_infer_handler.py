"""ModelStreamInfer: requests to any models, and their responses as they are produced (rules 6.13, 3.7.5)."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.request_examination import CutElementError
from ...core.status import TritonError
from ...server.options import MAX_UNREAD_SIZE
from ..shared.request_memory import NoRoomError
from .calls import StreamCall
from .errors import STATUS
from .infer_handler import InferService, ReceivedInfer
from .infer_response_writer import failed, refused, stream_error


class ModelStreamInferCall(StreamCall):
    """One stream. Each request runs as soon as it comes; the stream ends when the client has sent its last request and
    all have ended."""

    def __init__(
        self, event: Any, service: InferService, compression: str = "", most_unread: int = MAX_UNREAD_SIZE
    ) -> None:
        self.compression = compression
        self._service = service
        self._requests: dict[InferenceRequest, ReceivedInfer] = {}  # in flight
        self._answered: set[InferenceRequest] = set()  # of them, those whose one response went out before the final
        # rule 6.13.3; Triton knows this spelling alone (measured)
        self._strict = ("triton_grpc_error", "true") in event.invocation_metadata
        super().__init__(event, most_unread)

    def handle(self, message: bytes) -> None:
        try:
            parsed, raw = self._service.parse(message)
        except DecodeError:
            self.stop_reading()  # as if the client had closed its half (measured)
            return
        except TritonError as error:
            self.write(stream_error(str(error), refused("")))
            return
        request: InferenceRequest | None = None
        try:
            received = self._service.request(parsed, raw, self.metadata, len(message), streamed=True)
            request = received.request
            request.on_response = self._on_response
            self._requests[request] = received
            if self.is_over:
                request.cancel()
            self._service.exchange.submit(received.found, request)
        except CutElementError as error:
            # Triton finds this fault when the request runs: an error of the model's response (rule 6.13.2)
            if self._strict:
                self.end(STATUS[error.code], error.message)
                self._requests.pop(received.request)
                self.cancelled()
                return
            self.write(stream_error(str(error), failed(parsed.model_name, parsed.model_version, parsed.id, True)))
            self._forget(received.request)
        except (TritonError, NoRoomError) as error:
            # in the stream even where `triton_grpc_error` is set (measured)
            self.write(stream_error(str(error), refused(parsed.id)))
            if request is not None:
                self._forget(request)

    def _on_response(self, request: InferenceRequest, response: InferenceResponse) -> None:
        received = self._requests[request]
        if not self.is_over and self._is_due(received, response):
            self._answer(response, received)
        if response.final:
            self._forget(request)

    def _is_due(self, received: ReceivedInfer, response: InferenceResponse) -> bool:
        if received.found.rules.decoupled:
            return received.empty_final or not response.empty
        # such a model gives one response only, and an error after it is not shown (measured)
        if response.empty or received.request in self._answered:
            return False
        if not response.final:
            self._answered.add(received.request)
        return True

    def _answer(self, response: InferenceResponse, received: ReceivedInfer) -> None:
        if response.error is not None:
            self._answer_error(response, response.error, received)
            return
        try:
            message = self._service.writer.stream_response(response, received.wanted, received.version)
        except TritonError as error:
            self._answer_error(response, error, received)
            return
        self.write(message)

    def _answer_error(self, response: InferenceResponse, error: TritonError, received: ReceivedInfer) -> None:
        if self._strict:
            self.end(STATUS[error.code], error.message)
            self.cancelled()
            return
        about = failed(response.model_name, received.version, response.request_id, response.final)
        self.write(stream_error(error.message, about))

    def _forget(self, request: InferenceRequest) -> None:
        self._requests.pop(request, None)
        self._answered.discard(request)
        if self.input_over and not self._requests:
            self.end()

    def closed(self) -> None:
        if not self._requests:
            self.end()

    def cancelled(self) -> None:
        for request in list(self._requests):
            request.cancel()
