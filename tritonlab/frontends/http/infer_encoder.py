"""The body of an infer response: JSON, then the binary data of its outputs (rules 6.3.1, 6.3.2 and 6.5)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ...core.config.model_config import dims_text
from ...core.config.model_config_rules import is_ensemble
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor
from ...core.status import InternalError, InvalidArgumentError
from ...server.models.model_lifecycle import ModelVersion
from ...stub._pb_stub.wire.serialization import decode_bytes_tensor
from ..shared.infer_exchange import InferExchange, OutputPlan
from ..shared.work_pause import pause_work
from . import json_writer

JSON = OutputPlan()
BINARY = OutputPlan(binary=True)
#: The only parameter that most requests have.
BINARY_OUTPUT = {"binary_data_output": True}

_NOT_IN_JSON = (DataType.FP16, DataType.BF16)
#: Below this many bytes a copy is quicker than a view.
_COPY_BELOW = 1 << 14
#: Up to so many bytes of strings are written in one piece, because finding the beginning of another one takes a tenth
#: of the time. More are written in pieces, between which other threads run after some milliseconds.
_WHOLE, _AT_ONCE = 1 << 20, 1 << 16
#: The end of an output's object whose data is behind the JSON.
_BEHIND = b',"parameters":{"binary_data_size":%d}}'
#: Names of models, which are used again and again.
_quoted = functools.lru_cache(1024)(json_writer.text)


@dataclass(slots=True)
class RequestedOutputs:
    """The form of the outputs of one request; `default` is for outputs that it does not name."""

    default: OutputPlan = JSON
    by_name: dict[str, OutputPlan] = field(default_factory=dict)


@functools.lru_cache(1024)
def _describe(name: str, datatype: DataType, shape: tuple[int, ...]) -> bytes:
    """Return the beginning of an output's object. It is kept because it is often the same: that saves 7 us for an
    answer of two outputs."""
    dims = dims_text(shape).encode()
    return b'{"name":%b,"datatype":"%b","shape":%b' % (json_writer.text(name), datatype.name.encode(), dims)


Blob: TypeAlias = bytes | memoryview


class InferEncoder:
    """The encoder of the responses of one server."""

    def __init__(self, exchange: InferExchange) -> None:
        self._exchange = exchange

    def encode(
        self,
        response: InferenceResponse,
        outputs: RequestedOutputs,
        model: ModelVersion,
        request: InferenceRequest,
    ) -> tuple[bytes, list[Blob]]:
        """Return the JSON, and the pieces of binary data behind it; large outputs are views, not copies.

        Raises TritonError for an output without a JSON form, or too large for its shared memory.
        """
        blobs: list[Blob] = []
        if not response.request_id and not response.parameters:
            text = _plain(response, outputs, blobs)
            if text is not None:
                return text, blobs
            blobs.clear()
        by_name, default = outputs.by_name, outputs.default
        entries = []
        for name, tensor in response.outputs.items():
            info = by_name.get(name, default)
            placed: Tensor | None = tensor
            if info.classes or info.region or tensor.memory_type:
                placed = self._exchange.place(name, tensor, plan=info, version=model, request=request)
                tensor = tensor if placed is None else placed
            head = _describe(name, tensor.datatype, tensor.shape)
            if placed is None:
                entries.append(head + b"}")  # Triton does not name the place (measured)
            elif info.binary:
                data = wire_data(tensor)
                entries.append(head + _BEHIND % len(data))
                if len(data):
                    blobs.append(data)
            else:
                entries.append(b"".join((head, b',"data":', json_data(name, tensor), b"}")))
        return b"".join((_head(response, model), b'"outputs":[', b",".join(entries), b"]}")), blobs


def _plain(response: InferenceResponse, outputs: RequestedOutputs, blobs: list[Blob]) -> bytes | None:
    """Return the JSON of a response that only gives the places of its outputs' data, and add the data to `blobs`.
    Return None for any other response."""
    by_name, default = outputs.by_name, outputs.default
    described = []
    for name, tensor in response.outputs.items():
        if by_name.get(name, default) is not BINARY or tensor.memory_type:
            return None
        data = wire_data(tensor)
        size = len(data)
        described.append((name, tensor.datatype, tensor.shape, size))
        if size:
            blobs.append(data)
    return _plain_text(response.model_name, response.model_version, tuple(described))


@functools.lru_cache(1024)
def _plain_text(model: str, version: int, outputs: tuple[tuple[str, DataType, tuple[int, ...], int], ...]) -> bytes:
    """Return JSON that is kept since most responses of a model have the same: it saves 2 us for two outputs."""
    entries = [_describe(name, datatype, shape) + _BEHIND % size for name, datatype, shape, size in outputs]
    return b'{%b"outputs":[%b]}' % (_model(model, version), b",".join(entries))


def _model(name: str, version: int) -> bytes:
    return b'"model_name":%b,"model_version":"%d",' % (_quoted(name), version)


def _head(response: InferenceResponse, model: ModelVersion) -> bytes:
    parts = [b"{"]
    if response.request_id:
        parts.append(b'"id":%b,' % json_writer.text(response.request_id))
    parts.append(_model(response.model_name, response.model_version))
    if response.parameters:
        pairs = [(name, json_writer.value(value)) for name, value in response.parameters.items()]
        if is_ensemble(model.config):
            # Triton adds them with each output that has elements (rule 5.7.8)
            pairs *= sum(tensor.byte_size > 0 for tensor in response.outputs.values())
        parts.append(b'"parameters":%b,' % json_writer.members(pairs))
    return b"".join(parts)


def wire_data(tensor: Tensor) -> Blob:
    """Return the bytes of a tensor as they go out; a large tensor is not copied."""
    data = tensor.data
    return data.tobytes() if data.nbytes < _COPY_BELOW else data.reshape(-1).view(np.uint8).data


def json_data(name: str, tensor: Tensor) -> bytes:
    """Return the elements of a tensor as a flat JSON array. Raises InvalidArgumentError for a datatype without a JSON
    form, InternalError for data that does not fit the shape."""
    if tensor.datatype in _NOT_IN_JSON:
        raise InvalidArgumentError(
            f"sending {tensor.datatype.name} data via JSON is not supported. Please use the binary data format for "
            "output"
        )
    if tensor.datatype is not DataType.BYTES:
        return json_writer.numbers(tensor.data)
    try:
        return _strings(tensor)
    except ValueError:
        raise InternalError(f"output tensor shape does not match size of output for '{name}'") from None


def _strings(tensor: Tensor) -> bytes:
    """Return the elements of a BYTES tensor as JSON, of a large one piece by piece: as Python objects the elements may
    take ten times their bytes. Raises ValueError if they do not fit the shape."""
    data: memoryview = tensor.data.data
    pieces, number = [], 0
    start, end = 0, len(data)
    while start < end:
        stop = end if end <= _WHOLE or end - start <= _AT_ONCE else start
        while stop - start < _AT_ONCE and stop + 4 <= end:
            stop += 4 + int.from_bytes(data[stop : stop + 4], "little")
        elements = decode_bytes_tensor(data[start:stop]).tolist()
        pieces.append(b",".join(map(json_writer.string, elements)))
        number += len(elements)
        start = max(stop, start + 1)
        if start < end:
            pause_work()
    if number != math.prod(tensor.shape):
        raise ValueError("the shape has another number of elements")
    return b"[%b]" % pieces[0] if len(pieces) == 1 else json_writer.joined(pieces)
