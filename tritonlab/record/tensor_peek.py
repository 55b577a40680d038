"""The first values of requests and their responses, for people who look at a request in a view.

The peek listens only while a view that shows values is open, and reads a limited number of responses a second: a copy
of the first elements costs a request some microseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..core.inference.data_type import DataType
from ..core.inference.infer_request import InferenceRequest
from ..core.inference.infer_response import InferenceResponse
from ..core.inference.tensor import Tensor
from ..core.observe.instrument import Instrument

#: The most requests that are kept, responses of one request, and elements (of BYTES: bytes) of a tensor.
_REQUESTS, _RESPONSES, _ELEMENTS = 2_000, 4, 256
#: The most responses that are read within so many nanoseconds.
_WINDOW, _LOOKS = 50_000_000, 50
PER_SECOND = _LOOKS * 1_000_000_000 // _WINDOW


class RequestValues(NamedTuple):
    """The values of one request: its inputs, and the outputs of the first of its `answers`."""

    inputs: dict[str, Tensor]
    responses: list[dict[str, Tensor]]
    answers: int


class TensorPeek(Instrument):
    """An instrument that reads one model's requests while it is attached to a server; later it keeps the values."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._lock = threading.Lock()  # guards everything below
        self._seen: dict[int, RequestValues] = {}
        self._since = self._looks = 0

    def response_sent(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        if request.model_name != self._model:
            return
        if now - self._since > _WINDOW:
            self._since, self._looks = now, 0
        elif self._looks >= _LOOKS:
            return
        with self._lock:
            self._looks += 1
            seen = self._seen.get(request.serial)
            if seen is None:
                seen = RequestValues(_first(request.inputs), [], 0)
            if response.outputs and len(seen.responses) < _RESPONSES:
                seen.responses.append(_first(response.outputs))
            self._seen[request.serial] = seen._replace(answers=seen.answers + bool(response.outputs))
            if len(self._seen) > _REQUESTS:
                del self._seen[next(iter(self._seen))]

    def lines(self, serial: int) -> list[str]:
        """Return a line for each tensor of a request, inputs first; none if it is not kept."""
        with self._lock:
            seen = self._seen.get(serial)
        if seen is None:
            return []
        found = [f"got {_line(name, tensor)}" for name, tensor in seen.inputs.items()]
        for number, outputs in enumerate(seen.responses):
            response = f" in response {number + 1}" if seen.answers > 1 else ""
            found += [f"sent {_line(name, tensor)}{response}" for name, tensor in outputs.items()]
        more = seen.answers - len(seen.responses)
        return [*found, f"and {more} more response{'s' * (more > 1)}"] if more else found


def _first(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of the first elements; the shapes stay. A tensor on a GPU is only named."""
    return {name: _begin(tensor) for name, tensor in tensors.items()}


def _begin(tensor: Tensor) -> Tensor:
    data: Any = tensor.data
    if tensor.memory_type:  # reading it would take longer than allowed here
        return Tensor.on_device(tensor.datatype, tensor.shape, data.described())
    return Tensor(tensor.datatype, tensor.shape, data.reshape(-1)[:_ELEMENTS].copy())


def _line(name: str, tensor: Tensor) -> str:
    """Return `X = <Tensor FP32 [4] [1., 2., 3., 4.]>, 1.0 to 4.0`: with a range only if all elements are kept."""
    if tensor.memory_type:
        return f"{name} = {tensor!r}"
    data = tensor.data
    whole = data.size == np.prod(tensor.shape) and tensor.datatype not in (DataType.BYTES, DataType.BF16, DataType.BOOL)
    span = f", {data.min()} to {data.max()}" if whole and data.size > 1 else ""
    return f"{name} = {tensor!r}{span}"
