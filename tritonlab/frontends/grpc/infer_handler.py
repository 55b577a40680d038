"""ModelInfer: one request, one response (rules 6.7, 3.7.4), also while requests are traced (rule 5.14.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor
from ...core.status import TritonError
from ...server.inference_server import InferenceServer
from ...server.models.model_lifecycle import ModelVersion
from ...server.observe.tracer import RECEPTION, Reception
from ..shared.access import Forwarded
from ..shared.infer_exchange import InferExchange, OneResponse, trace_context
from ..shared.request_memory import UNCOUNTED, HeldMemory, NoRoomError, RequestMemory
from ..shared.shared_memory_manager import SharedMemoryManager
from .calls import Metadata, UnaryCall
from .errors import STATUS
from .infer_request_reader import InferRequestReader, checked_version
from .infer_response_writer import InferResponseWriter, OutputsWanted
from .message_parser import MessageParser, Raw

#: An answer of so many bytes is written by the serving thread. To copy it takes the interpreter lock and new memory for
#: some 100 ms, in which the serving thread would receive other messages that nothing checks.
_MUCH = 16 << 20


class ReceivedInfer(NamedTuple):
    """A request, its version, the options of its outputs, whether the client accepts an empty final response (rule
    3.7.5), the version that the client named, and the counted memory of its message and of the client's shared memory.
    """

    request: InferenceRequest
    found: ModelVersion
    wanted: OutputsWanted | None
    empty_final: bool
    version: str
    held: Sequence[HeldMemory]


class InferService:
    """What all infer calls of a server share: the exchange, the parser and reader of requests, the response writer."""

    def __init__(
        self,
        core: InferenceServer,
        shared_memory: SharedMemoryManager,
        forwarded: Forwarded | None = None,
        memory: RequestMemory | None = None,
    ) -> None:
        self._memory = memory or RequestMemory()
        self.exchange = InferExchange(core, shared_memory)
        self.parse = MessageParser().parse
        self.writer = InferResponseWriter(self.exchange, self._memory)
        self._reader = InferRequestReader(shared_memory, forwarded)

    def request(
        self, message: Any, raw: Raw | dict[str, Tensor], metadata: Metadata, size: int, streamed: bool
    ) -> ReceivedInfer:
        """Read the request of a message of `size` bytes that was parsed. Raise TritonError for the fault that Triton
        finds first, and NoRoomError if other requests use the memory."""
        held = [self._memory.hold(size)] if size > UNCOUNTED else []
        number = checked_version(message.model_version) if message.model_version else -1
        found = self.exchange.find(message.model_name, number, single="" if streamed else "ModelInfer RPC")
        request, plans, empty_final = self._reader.read(message, raw, number, metadata, held)
        wanted = None if plans is None else OutputsWanted(plans, found, request)
        return ReceivedInfer(request, found, wanted, empty_final, version=message.model_version, held=held)


class ModelInferCall(UnaryCall):
    """One call of ModelInfer."""

    _request: InferenceRequest | None = None
    _wanted: OutputsWanted | None = None
    _held: Sequence[HeldMemory] = ()
    _earlier: OneResponse | None = None  # the response before the final one, which may be empty

    def __init__(self, event: Any, service: InferService, compression: str = "") -> None:
        self.compression = compression
        self._service = service
        super().__init__(event)

    def handle(self, message: bytes) -> None:
        service = self._service
        try:
            parsed, raw = service.parse(message)
        except DecodeError:
            self.fail(grpc.StatusCode.INTERNAL, "Unable to parse request")
            return
        except TritonError as error:
            self._fail(error)
            return
        try:
            received = service.request(parsed, raw, self.metadata, len(message), streamed=False)
            request, self._wanted, self._held = received.request, received.wanted, received.held
            request.on_response = self._on_response
            self._request = request
        except TritonError as error:
            self._fail(error)
            return
        except NoRoomError as error:
            self.fail(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            return
        try:
            service.exchange.submit_single(received.found, request)
        except TritonError as error:
            self._request = self._wanted = None  # the request refers back to this call
            self._fail(error)

    def _on_response(self, request: InferenceRequest, response: InferenceResponse) -> None:
        if self._earlier is not None or response.empty or not response.final:
            self._earlier = self._earlier or OneResponse()
            self._earlier.add(response)
            if not response.final:
                return
            response = self._earlier.take()
        self._service.exchange.end_single(request)
        if response.error is not None:  # not raised: its traceback would keep this call and the inputs
            self._held = ()
            self._fail(response.error)
        elif sum([tensor.data.nbytes for tensor in response.outputs.values()]) < _MUCH:
            self._held = ()
            self._respond(response)
        else:
            self.hand_over(lambda: self._respond(response))

    def _respond(self, response: InferenceResponse) -> None:
        try:
            message = self._service.writer.response(response, self._wanted)
        except TritonError as error:
            self._fail(error)
        else:
            self.respond(message)
        self._held = ()

    def _fail(self, error: TritonError) -> None:
        self.fail(STATUS[error.code], error.message)

    def cancelled(self) -> None:
        if self._request is not None:
            self._request.cancel()


class TracedModelInferCall(ModelInferCall):
    """A call of ModelInfer while requests are traced. It adds the times that only gRPC has: of the message's arrival,
    and of the answer."""

    def __init__(self, event: Any, service: InferService, compression: str = "") -> None:
        self._reception = Reception(trace_context(event.invocation_metadata))
        self._clock = service.exchange.core.clock
        self._stamp("GRPC_WAITREAD_START")
        super().__init__(event, service, compression)

    def _stamp(self, name: str) -> None:
        self._reception.stamp(name, self._clock.now())

    def handle(self, message: bytes) -> None:
        self._stamp("GRPC_WAITREAD_END")
        token = RECEPTION.set(self._reception)
        try:
            super().handle(message)
        finally:
            RECEPTION.reset(token)

    def _finish(self, *operations: Any) -> None:
        self._stamp("INFER_RESPONSE_COMPLETE")
        self._stamp("GRPC_SEND_START")
        with self._lock:
            if self._call is not None:
                self._call.start_server_batch(operations, self._on_sent)
                return
        self._reception.end()  # the client has gone

    def _on_sent(self, event: Any) -> None:
        self._stamp("GRPC_SEND_END")
        self._reception.end()
