"""The exchange of a client's request for its responses: the parts that are the same in every protocol.

A frontend turns bytes into a request and responses into bytes. Between the two it calls its `InferExchange`:

    find      returns the version of the request, and refuses one with more responses than the client can get
    submit    hands the request over; `submit_single` also waits for the answer, if it comes at once, and
              `end_single` ends that wait
    OneResponse collects the single response of a client, in whichever way its model sends it
    place     gives an output its form: as it is, as its highest classes, or in the client's shared memory
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ...core.inference.copies import Copies
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor
from ...core.status import InternalError
from ...ipc.link.link_reader import LoopReader
from ...ipc.link.wait_policy import SoleSender
from ...server.inference_server import InferenceServer
from ...server.models.model_lifecycle import ModelVersion
from .classification import classify
from .cuda_region import CopiedTensor, CudaRegion
from .shared_memory_manager import SharedMemoryManager


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """The form of one output for a client: in shared memory (`region`), as its highest classes (`classes` > 0), or
    plain. `binary`: behind the JSON instead of in it; gRPC has no JSON."""

    region: str = ""
    offset: int = 0
    byte_size: int = 0
    classes: int = 0
    binary: bool = False


class InferExchange:
    """The exchange of one endpoint's requests for answers. Any thread may call it, but only one may call
    `submit_single` with `waits`."""

    def __init__(self, core: InferenceServer, shared_memory: SharedMemoryManager) -> None:
        self.core = core
        self.shared_memory = shared_memory
        #: the reader of the event loop on which the requests of `submit_single` wait, if there is one
        self.reader: LoopReader | None = None
        self._sole = SoleSender()
        #: notes that a request of `submit_single` is answered, or that no caller waits for its answer any more
        self.end_single = self._sole.end

    def find(self, name: str, number: int, single: str = "") -> ModelVersion:
        """Return the READY version that a request is for. `single`: the name of a caller that can give its client only
        one response. Raises NotFoundError, UnavailableError, UnsupportedError (rules 5.4.1, 3.7.4)."""
        version = self.core.find(name, number)
        if single and version.rules.decoupled:
            raise version.rules.refusal_of_single(single)
        return version

    def submit(self, version: ModelVersion, request: InferenceRequest) -> None:
        """Start a request on the version that `find` returned; its responses go to `request.on_response`. Raises
        TritonError if it is refused."""
        self.core.infer(request, version)
        if self.shared_memory.any_cuda:
            self._tell_inputs(request)

    def submit_single(
        self, version: ModelVersion, request: InferenceRequest, waits: bool = True, sender: object = None
    ) -> None:
        """Start a request that gets one response. With `waits`, the caller waits for the answer if the request is
        alone, and so is answered at once; `sender`: see `SoleSender`. A refused request needs no `end_single`."""
        request.reader = self.reader
        infer = self.core.infer_here if self._sole.begin(request, sender) and waits else self.core.infer
        try:
            infer(request, version)
        except BaseException:
            self._sole.end(request)
            raise
        if self.shared_memory.any_cuda:
            self._tell_inputs(request)

    def place(
        self, name: str, tensor: Tensor, plan: OutputPlan, version: ModelVersion, request: InferenceRequest
    ) -> Tensor | None:
        """Return an output of `request` in the form that is sent; None if it was written to the client's shared memory.
        Raises TritonError for an output without classes, or too large for its region."""
        if tensor.memory_type and not plan.region:
            tensor = self._copies.to_host(request, tensor)
        if plan.classes:
            batched = version.rules.max_batch_size > 0
            return classify(tensor, plan.classes, version.labels.get(name, ()), batched=batched)
        if not plan.region:
            return tensor
        if tensor.byte_size > plan.byte_size:
            raise InternalError(
                f"shared memory size specified with the request for output '{name}' ({plan.byte_size} bytes) should be "
                f"at least {tensor.byte_size} bytes to hold the results"
            )
        if tensor.memory_type and self.shared_memory.copy(plan.region, plan.offset, tensor):
            return None
        if tensor.memory_type:
            tensor = self._copies.to_host(request, tensor)
        region = self.shared_memory.write(plan.region, plan.offset, tensor.data)
        if isinstance(region, CudaRegion):
            self._copies.tell(request, region.device_id, to_device=tensor.byte_size, simulated=region.simulated)
        return None

    @property
    def _copies(self) -> Copies:
        return Copies(self.core.instruments, self.core.clock)

    def _tell_inputs(self, request: InferenceRequest) -> None:
        """Report the bytes copied from a GPU to the host to read the request, which has its number by now."""
        for tensor in request.inputs.values():
            if isinstance(tensor, CopiedTensor):
                region = tensor.region
                self._copies.tell(request, region.device_id, to_host=tensor.byte_size, simulated=region.simulated)


def trace_context(headers: Iterable[tuple[str, str | bytes]]) -> str | None:
    """Return the headers that continue a client's OpenTelemetry trace, as JSON text; None if it has none."""
    found = {name: value for name, value in headers if name in ("traceparent", "tracestate")}
    return json.dumps(found, sort_keys=True) if "traceparent" in found else None


class OneResponse:
    """The one response that a client gets; its model may have sent the final flag separately."""

    __slots__ = ("_count", "_first")

    def __init__(self) -> None:
        self._first: InferenceResponse | None = None
        self._count = 0

    def add(self, response: InferenceResponse) -> None:
        if not response.empty:
            self._count += 1
            self._first = self._first or response

    def take(self, none: str = "expected a single response, got 0") -> InferenceResponse:
        """Return the response, after the final one came; an error response if there was none or more than one (rule
        3.2.3).

        The error is not raised: its traceback would keep the caller's frame alive, and the request with it.
        """
        if self._first is None:
            return InferenceResponse(error=InternalError(none))
        if self._count > 1:
            return InferenceResponse(error=InternalError(f"expected a single response, got {self._count}"))
        return self._first
