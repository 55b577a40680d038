"""`Exchange`, a request and its answer, from any server."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.inference.infer_request import InferenceRequest, RequestSpec
from ..core.inference.infer_response import InferenceResponse, Outputs
from ..core.inference.tensor import Tensor
from ..core.plain_facts import few_lines, plain
from ..core.status import Code, TritonError
from ..ipc.processes.stub_log import LogRecord


@dataclass(frozen=True)
class PhaseTimes:
    """The nanoseconds of one request: in the queue, marshalling in, in `execute`, marshalling out (rule 3.11.3)."""

    queue: int
    compute_input: int
    compute_infer: int
    compute_output: int


@dataclass(frozen=True)
class Arrival:
    """One response and when the server sent it, in nanoseconds after the request came; 0 if unknown."""

    response: InferenceResponse
    after_ns: int = 0


@dataclass(frozen=True)
class Exchange:
    """One request and its responses so far: from a server here or elsewhere, or from a file. The time of the request is
    its `request_start`, 0 if unknown.

    error: the error that its client gets
    batch_size: the size of its batch
    printed: the last lines that its model printed and logged meanwhile, and the faults of its outputs
    name: of a kept exchange; `source`: its origin, empty if a person has kept it
    unanswered: why the model's own answer is unknown
    unsent: why it cannot be sent again: its request is only named
    """

    request: InferenceRequest
    arrivals: tuple[Arrival, ...] = ()
    error: TritonError | None = None
    split: PhaseTimes | None = None
    batch_size: int = 0
    printed: tuple[LogRecord, ...] = ()
    name: str = ""
    source: str = ""
    unanswered: str = ""
    unsent: str = ""

    @property
    def model(self) -> str:
        return self.request.model_name

    @property
    def responses(self) -> list[InferenceResponse]:
        return [arrival.response for arrival in self.arrivals]

    def again(self) -> InferenceRequest:
        """Return a copy of the request, to be sent to the latest version of its model."""
        return addressed(self.request, self.model, -1)

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
        """Return the exchange as JSON values; times in nanoseconds."""
        ended = "cancelled" if self.cancelled else "failed" if self.failed else ""
        return {
            "model": self.model,
            "state": ended or ("answered" if self.answered else "open"),
            "error": plain(self.error),
            "total_ns": self.total_ns,
            "split_ns": vars(self.split) if self.split is not None else None,
            "batch_size": self.batch_size,
            "printed": [record.text for record in self.printed],
            "responses": [{"after_ns": one.after_ns, **one.response.to_dict()} for one in self.arrivals],
        }

    def answers(self) -> list[InferenceResponse]:
        """Return the responses with outputs before the first error. Empty final responses are left out, because not
        every protocol has them, and so are responses after an error, because not every client waits for them.
        """
        before = itertools.takewhile(lambda one: one.error is None, self.responses)
        return [response for response in before if response.outputs]

    @property
    def has_answer(self) -> bool:
        """Return whether there is an output or an error."""
        return self.error is not None or bool(self.answers())

    @property
    def error_text(self) -> str:
        """The text of the error without white space around it; empty if there is none."""
        return self.error.message.strip() if self.error is not None else ""

    def __repr__(self) -> str:
        kind = type(self.error).__name__ if self.error is not None else ", ".join(self.outputs)
        lines = [f"<Exchange {self.model} [{len(self.arrivals)} responses | {kind or 'no outputs'}]>"]
        lines += [f"{self.error.code.name}: {self.error_text}"] if self.error is not None else []
        lines += [f"{name}  {tensor!r}" for name, tensor in self.outputs.items()]
        return few_lines("\n".join(lines))

    @property
    def outputs(self) -> dict[str, Tensor]:
        """The outputs of the last response that has any."""
        found = [response.outputs for response in self.responses if response.outputs]
        return Outputs(found[-1] if found else {})


def collect(request: InferenceRequest, responses: Iterable[InferenceResponse], *, to_error: bool = False) -> Exchange:
    """Return the exchange of a sent request, with the responses as they come, and the error that is raised or that a
    response has. `to_error`: whether to stop at an error, after which a stream goes on."""
    begun = time.monotonic_ns()
    arrivals: list[Arrival] = []
    error: TritonError | None = None
    try:
        for response in responses:
            arrivals.append(Arrival(response, time.monotonic_ns() - begun))
            error = error or response.error
            if to_error and error is not None:
                break
    except TritonError as problem:
        error = problem
    return Exchange(request, tuple(arrivals), error)


def first_error(arrivals: Iterable[Arrival]) -> TritonError | None:
    """Return the error of the first response that has one."""
    return next((each.response.error for each in arrivals if each.response.error is not None), None)


def arrivals_of(answers: Iterable[Mapping[str, Tensor]]) -> tuple[Arrival, ...]:
    """Return a response for each set of outputs."""
    return tuple(Arrival(InferenceResponse(outputs=dict(outputs))) for outputs in answers)


def addressed(request: InferenceRequest, name: str, version: int) -> InferenceRequest:
    """Return the same request addressed to another model; `request` itself is not changed."""
    return InferenceRequest(name, dict(request.inputs), model_version=version, **request.settings())


def non_default_settings(request: RequestSpec) -> dict[str, Any]:
    """Return the fields of a request besides its inputs, without default values."""
    found = {field: value for field, value in request.settings().items() if value}
    return {field: list(value) if field == "requested_outputs" else value for field, value in found.items()}
