"""This module writes responses straight into the wire form of protobuf.

A `ModelInferResponse` is a list of short fields and the outputs' bytes. Joining the pieces copies a large output once;
building the message object and serializing it would copy it twice more. The field numbers are those of
`grpc_service.proto` in tritonclient's `service_pb2`, with which the tests parse the result.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...core.data_type import DataType
from ...core.infer_request import InferenceRequest
from ...core.infer_response import InferenceResponse, ParameterValue
from ...server.models.model_lifecycle import ModelVersion
from ..shared.exchange import Exchange, OutputPlan

FINAL = "triton_final_response"

_Piece = Any  # bytes, or an array whose bytes they are


class OutputsWanted(NamedTuple):
    """Says how a client wants the outputs of its request to a version, unless it wants them as they are."""

    plans: Mapping[str, OutputPlan]
    version: ModelVersion
    request: InferenceRequest


def varint(number: int) -> bytes:
    """Encodes an unsigned number as protobuf does; a negative one as its 64-bit complement."""
    number &= 0xFFFFFFFFFFFFFFFF
    if number < 0x80:
        return bytes((number,))
    pieces = bytearray()
    while number >= 0x80:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


def field(number: int, content: bytes) -> bytes:
    """Encodes a length-delimited field: a string, bytes or a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


@functools.lru_cache(1024)
def _head(model_name: str, model_version: str) -> bytes:
    version = field(2, model_version.encode()) if model_version else b""
    return (field(1, model_name.encode()) if model_name else b"") + version


@functools.lru_cache(4096)
def _output(name: str, datatype: DataType, shape: tuple[int, ...]) -> bytes:
    dims = field(3, b"".join(map(varint, shape))) if shape else b""
    return field(5, field(1, name.encode()) + field(2, datatype.name.encode()) + dims)


@functools.lru_cache(1024)
def _content(size: int) -> bytes:
    """Returns what stands before an output's bytes."""
    return b"\x32" + varint(size)


def _parameter(key: str, value: ParameterValue) -> bytes:
    """Encodes one entry of a map of InferParameter; the Python value decides its kind."""
    if isinstance(value, bool):
        content = b"\x08\x01" if value else b"\x08\x00"
    elif isinstance(value, int):
        content = b"\x10" + varint(value)
    elif isinstance(value, float):
        content = b"\x21" + struct.pack("<d", value)
    else:
        content = field(3, value.encode())
    return field(4, field(1, key.encode()) + field(2, content))


_FINAL = {final: _parameter(FINAL, final) for final in (False, True)}


class InferResponseWriter:
    """Writes the responses of one server's models."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def response(
        self,
        response: InferenceResponse,
        wanted: OutputsWanted | None = None,
    ) -> bytes:
        """Returns the ModelInferResponse. Raises TritonError for an output that does not fit its plan."""
        return b"".join(self._pieces(response, wanted))

    def stream_response(
        self,
        response: InferenceResponse,
        wanted: OutputsWanted | None = None,
        asked_version: str = "",
    ) -> bytes:
        """Returns the ModelStreamInferResponse, which also says whether it is the last one of its request (rule 3.7.5).
        `asked_version`: the version that the client named."""
        pieces = self._pieces(response, wanted, asked_version)
        pieces.insert(1, _FINAL[response.final])
        size = sum([piece.nbytes if type(piece) is not bytes else len(piece) for piece in pieces])
        return b"".join([b"\x12", varint(size), *pieces])

    def _pieces(
        self,
        response: InferenceResponse,
        wanted: OutputsWanted | None,
        asked_version: str = "",
    ) -> list[_Piece]:
        # an empty final response has the version that was asked for, none for the latest (measured)
        head = _head(response.model_name, asked_version if response.empty else str(response.model_version))
        if response.request_id:
            head += field(3, response.request_id.encode())
        pieces: list[_Piece] = [head]
        for key, value in response.parameters.items():
            pieces.append(_parameter(key, value))
        contents: list[_Piece] = []
        for name, tensor in response.outputs.items():
            data: Any = tensor.data
            if wanted is not None and (name in wanted.plans or tensor.memory_type):
                plan = wanted.plans.get(name, _AS_IS)
                placed = self._exchange.place(name, tensor, plan, wanted.version, wanted.request)
                tensor, data = (tensor, _EMPTY) if placed is None else (placed, placed.data)
            pieces.append(_output(name, tensor.datatype, tensor.shape))
            contents += _content(data.nbytes), data
        return pieces + contents


_EMPTY = memoryview(b"")
_AS_IS = OutputPlan()


def stream_error(text: str, response: bytes) -> bytes:
    """Returns the ModelStreamInferResponse of an error (rule 6.13.2); `response` tells which request it answers."""
    return field(1, text.encode("utf-8", "replace")) + field(2, response)


def refused(request_id: str) -> bytes:
    """Returns the response to a refused request, beside the error's text: its id and nothing else (measured)."""
    return field(3, request_id.encode()) if request_id else b""


def failed(model_name: str, asked_version: str, request_id: str, final: bool) -> bytes:
    """Returns the response to a request whose model failed; its version is the text that the client sent (measured)."""
    return _head(model_name, asked_version) + refused(request_id) + _FINAL[final]
