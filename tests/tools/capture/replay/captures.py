"""Captures for the tests of replays: of a server's model, or of answers that a test makes up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tritonlab import Model
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InternalError
from tritonlab.exchanges.exchange import Arrival, Exchange, addressed
from tritonlab.exchanges.sending import ask
from tritonlab.tools.capture.capture_file import CapturedRequest
from tritonlab.tools.capture.replay.paced_sending import Planned

MS = 1_000_000


def request_of(name: str, inputs: Mapping[str, Any], **settings: Any) -> InferenceRequest:
    tensors = {key: Tensor.from_numpy(np.asarray(value)) for key, value in inputs.items()}
    return InferenceRequest(name, tensors, **settings)


def answer_of(*responses: Mapping[str, Any], name: str = "m", error: str = "", took: int = MS) -> Exchange:
    """Return an exchange with these outputs of each response, and an error after them."""
    outputs = [{key: Tensor.from_numpy(np.asarray(value)) for key, value in each.items()} for each in responses]
    arrivals = tuple(Arrival(InferenceResponse(name, outputs=each), took) for each in outputs)
    return Exchange(InferenceRequest(name, {}), arrivals, InternalError(error) if error else None)


def planned(number: int = 0, exchange: Exchange | None = None, at_ns: int = 0, **settings: Any) -> Planned:
    found = exchange or Exchange(InferenceRequest("m", {}, **settings))
    return Planned(number, CapturedRequest(found, at_ns))


def capture_of(
    model: Model, inputs: Iterable[Mapping[str, Any]], settings: Sequence[Mapping[str, Any]] = (), spacing: int = MS
) -> list[CapturedRequest]:
    """Send requests one after the other, and return them with their answers, `spacing` nanoseconds apart."""
    found = []
    for number, each in enumerate(inputs):
        more = settings[number] if settings else {}
        request = request_of(model.name, each, request_id=str(number), **more)
        exchange = ask(model, addressed(request, model.name, -1))  # to which the server may add controls
        found.append(CapturedRequest(replace(exchange, request=request), number * spacing))
    return found
