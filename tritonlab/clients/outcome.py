"""This module holds what came of one request, wherever it was sent to."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.infer_request import InferenceRequest
from ..core.infer_response import InferenceResponse
from ..core.status import Code, TritonError
from ..core.tensor import Tensor


@dataclass(frozen=True)
class Split:
    """Splits the nanoseconds of one request: in the queue, marshalling in, in `execute`, marshalling out
    (rule 3.11.3).
    """

    queue: int
    compute_input: int
    compute_infer: int
    compute_output: int


@dataclass(frozen=True)
class Arrival:
    """Holds one response and when the server sent it, in nanoseconds after the request came."""

    response: InferenceResponse
    after_ns: int


@dataclass(frozen=True)
class Outcome:
    """Holds one request and what came back so far. `error`: what its client gets; `batch_size`: of the
    batch it was in.
    """

    request: InferenceRequest
    arrivals: tuple[Arrival, ...] = ()
    error: TritonError | None = None
    split: Split | None = None
    batch_size: int = 0

    @property
    def cancelled(self) -> bool:
        """Tells whether the request ended because somebody asked for that, which is no failure."""
        return self.error is not None and self.error.code is Code.CANCELLED

    @property
    def failed(self) -> bool:
        return self.error is not None and not self.cancelled

    @property
    def answered(self) -> bool:
        """Tells whether there is a final response without an error."""
        return self.error is None and bool(self.arrivals) and self.arrivals[-1].response.final

    @property
    def total_ns(self) -> int:
        """Returns the nanoseconds from the request to its last response so far."""
        return self.arrivals[-1].after_ns if self.arrivals else 0

    def __repr__(self) -> str:
        what = type(self.error).__name__ if self.error is not None else ", ".join(self.outputs)
        return f"<Outcome {self.request.model_name} [{len(self.arrivals)} responses | {what or 'no outputs'}]>"

    @property
    def outputs(self) -> dict[str, Tensor]:
        """Returns the outputs of the last response that has any."""
        found = [arrival.response.outputs for arrival in self.arrivals if arrival.response.outputs]
        return dict(found[-1]) if found else {}


def addressed(request: InferenceRequest, name: str, version: int) -> InferenceRequest:
    """Returns the same request addressed to another model; `request` itself is not changed."""
    return InferenceRequest(
        name,
        request.inputs,
        model_version=version,
        request_id=request.request_id,
        correlation_id=request.correlation_id,
        flags=request.flags,
        priority=request.priority,
        timeout=request.timeout,
        requested_outputs=request.requested_outputs,
        parameters=request.parameters,
    )
