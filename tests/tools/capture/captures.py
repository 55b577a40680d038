"""Captured requests of tests, and their parts in a form to compare."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.ipc

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import TritonError
from tritonlab.exchanges.exchange import Arrival, Exchange
from tritonlab.tools.capture.capture_file import Capture, CapturedRequest, CaptureFile


def captured(
    inputs: Mapping[str, Tensor] | None = None,
    outputs: Mapping[str, Tensor] | None = None,
    *,
    at_ns: int = 0,
    took: int = 5,
    error: TritonError | None = None,
    **settings: Any,
) -> CapturedRequest:
    """Return a request that was answered by one response after `took` nanoseconds."""
    request = InferenceRequest("m", dict(inputs or {}), **settings)
    response = InferenceResponse(
        "m", 1, request.request_id, dict(outputs or {}), error=error, empty=not outputs and error is None
    )
    return CapturedRequest(Exchange(request, (Arrival(response, took),), error), at_ns)


def texts(*values: str | bytes) -> Tensor:
    return Tensor.from_any(list(values), DataType.BYTES)


def written(path: Path, *requests: CapturedRequest) -> list[CapturedRequest]:
    """Write requests to a capture, and return what is read of it."""
    file = CaptureFile(path, {"source": "test"})
    file.append(requests)
    file.close()
    return list(Capture(path))


def facts_of(one: CapturedRequest) -> dict[str, Any]:
    """Return all that a capture has of a request."""
    exchange, request = one.exchange, one.exchange.request
    return {
        "at_ns": one.at_ns,
        "protocol": one.protocol,
        "withheld": dict(one.withheld),
        "model": (request.model_name, request.model_version),
        "settings": {**request.settings(), "requested_outputs": list(request.requested_outputs)},
        "inputs": _tensors(request.inputs),
        "responses": [_response(arrival) for arrival in exchange.arrivals],
        "error": _error(exchange.error),
        "unanswered": exchange.unanswered,
        "unsent": exchange.unsent,
    }


def _response(arrival: Arrival) -> dict[str, Any]:
    one = arrival.response
    return {
        "after_ns": arrival.after_ns,
        "model": (one.model_name, one.model_version, one.request_id),
        "parameters": one.parameters,
        "outputs": _tensors(one.outputs),
        "end": (one.final, one.empty),
        "error": _error(one.error),
    }


def _tensors(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: (each.datatype, each.shape, each.data.tobytes()) for name, each in tensors.items()}


def _error(error: TritonError | None) -> Any:
    return None if error is None else (error.code, error.message)


def all_bytes(path: Path) -> bytes:
    """Return all bytes of a capture: those of the file, and those of its buffers, unpacked."""
    reader = pyarrow.ipc.open_file(path)
    found = [path.read_bytes()]
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number)
        found += [buffer.to_pybytes() for column in batch.columns for buffer in column.buffers() if buffer is not None]
    return b"".join(found)
