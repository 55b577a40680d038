"""The outcome of one request, wherever it was sent."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from ..core.inference.infer_request import InferenceRequest
from ..core.inference.infer_response import InferenceResponse, Outputs
from ..core.inference.tensor import Tensor
from ..core.plain_facts import few_lines, plain
from ..core.status import Code, TritonError
from ..ipc.processes.stub_log import LogRecord


@dataclass(frozen=True)
class PhaseTimes:
    """The nanoseconds of one request, split: in the queue, marshalling in, in `execute`, marshalling out (rule
    3.11.3)."""

    queue: int
    compute_input: int
    compute_infer: int
    compute_output: int


@dataclass(frozen=True)
class Arrival:
    """One response and when the server sent it, in nanoseconds after the request came."""

    response: InferenceResponse
    after_ns: int


@dataclass(frozen=True)
class Outcome:
    """One request and what came back so far. `error`: what its client gets; `batch_size`: of the batch it was
    in; `printed`: the last lines that its model printed and logged meanwhile, and what is wrong with its outputs."""

    request: InferenceRequest
    arrivals: tuple[Arrival, ...] = ()
    error: TritonError | None = None
    split: PhaseTimes | None = None
    batch_size: int = 0
    printed: tuple[LogRecord, ...] = ()

    @property
    def cancelled(self) -> bool:
        """Return whether the request was cancelled, which is not a failure."""
        return self.error is not None and self.error.code is Code.CANCELLED

    @property
    def failed(self) -> bool:
        return self.error is not None and not self.cancelled

    @property
    def answered(self) -> bool:
        """Return whether there is a final response without an error."""
        return self.error is None and bool(self.arrivals) and self.arrivals[-1].response.final

    @property
    def total_ns(self) -> int:
        """The nanoseconds from the request to its last response so far."""
        return self.arrivals[-1].after_ns if self.arrivals else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON values; times in nanoseconds."""
        ended = "cancelled" if self.cancelled else "failed" if self.failed else ""
        return {
            "model": self.request.model_name,
            "state": ended or ("answered" if self.answered else "open"),
            "error": plain(self.error),
            "total_ns": self.total_ns,
            "split_ns": vars(self.split) if self.split is not None else None,
            "batch_size": self.batch_size,
            "printed": [record.text for record in self.printed],
            "responses": [{"after_ns": one.after_ns, **one.response.to_dict()} for one in self.arrivals],
        }

    def answers(self) -> list[InferenceResponse]:
        """Return the responses with outputs before the first error. Empty final ones are left out, as not every
        protocol has them, and so is what follows an error, as not every client waits for it.
        """
        responses = itertools.takewhile(lambda one: one.error is None, (each.response for each in self.arrivals))
        return [response for response in responses if response.outputs]

    def __repr__(self) -> str:
        what = type(self.error).__name__ if self.error is not None else ", ".join(self.outputs)
        lines = [f"<Outcome {self.request.model_name} [{len(self.arrivals)} responses | {what or 'no outputs'}]>"]
        lines += [f"{self.error.code.name}: {self.error.message.strip()}"] if self.error is not None else []
        lines += [f"{name}  {tensor!r}" for name, tensor in self.outputs.items()]
        return few_lines("\n".join(lines))

    @property
    def outputs(self) -> dict[str, Tensor]:
        """The outputs of the last response that has any."""
        found = [arrival.response.outputs for arrival in self.arrivals if arrival.response.outputs]
        return Outputs(found[-1] if found else {})


def addressed(request: InferenceRequest, name: str, version: int) -> InferenceRequest:
    """Return the same request addressed to another model; `request` itself is not changed."""
    return InferenceRequest(name, request.inputs, model_version=version, **request.settings())
