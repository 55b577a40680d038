"""Responses written straight into the wire form of protobuf.

A `ModelInferResponse` is a list of short fields and the outputs' bytes. Joining the pieces copies a large output once;
building the message object and serializing it would copy it twice more. The field numbers are those of
`grpc_service.proto` in tritonclient's `service_pb2`, with which the tests parse the result.
"""

from __future__ import annotations

import functools
import mmap
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse, ParameterValue
from ...core.status import InvalidArgumentError, UnavailableError
from ...server.models.model_lifecycle import ModelVersion
from ..shared.infer_exchange import InferExchange, OutputPlan
from ..shared.request_memory import RequestMemory, TooLargeError, no_response_memory

FINAL = "triton_final_response"

#: gRPC's limit, in bytes.
LARGEST_MESSAGE = (1 << 31) - 1
#: Answers with outputs of at least this many bytes are checked before they are written.
_LARGE = 1 << 20
#: How often a message is in memory when it is handed to grpcio: in one piece, and as grpcio's copy.
_COPIES = 2

_Piece = Any  # bytes, or an array whose bytes they are


class OutputsWanted(NamedTuple):
    """The output options of one request to a version; absent if it has none."""

    plans: Mapping[str, OutputPlan]
    version: ModelVersion
    request: InferenceRequest


def varint(number: int) -> bytes:
    """Encode an unsigned number as protobuf does; a negative number as its 64-bit complement."""
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
    """Encode a length-delimited field: a string, bytes or a message."""
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
    """Return the message before an output's bytes."""
    return b"\x32" + varint(size)


def _parameter(key: str, value: ParameterValue) -> bytes:
    """Encode one entry of a map of InferParameter; the Python value decides its kind."""
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
    """The writer of the responses of one server's models."""

    def __init__(self, exchange: InferExchange, memory: RequestMemory | None = None) -> None:
        self._exchange = exchange
        self._memory = memory or RequestMemory()

    def response(
        self,
        response: InferenceResponse,
        wanted: OutputsWanted | None = None,
    ) -> bytes:
        """Return the ModelInferResponse. Raise TritonError for an output that does not fit its plan, and for an answer
        that is too large."""
        return _joined(self._pieces(response, wanted))

    def stream_response(
        self,
        response: InferenceResponse,
        wanted: OutputsWanted | None = None,
        requested_version: str = "",
    ) -> bytes:
        """Return the ModelStreamInferResponse, with the flag of the last response of a request (rule 3.7.5).
        `requested_version`: the version that the client named."""
        pieces = self._pieces(response, wanted, requested_version)
        pieces.insert(1, _FINAL[response.final])
        return _joined([b"\x12", varint(_size(pieces)), *pieces])

    def _pieces(
        self,
        response: InferenceResponse,
        wanted: OutputsWanted | None,
        requested_version: str = "",
    ) -> list[_Piece]:
        # an empty final response has the version that was requested, or no version for the latest (measured)
        head = _head(response.model_name, requested_version if response.empty else str(response.model_version))
        if response.request_id:
            head += field(3, response.request_id.encode())
        pieces: list[_Piece] = [head]
        for key, value in response.parameters.items():
            pieces.append(_parameter(key, value))
        contents: list[_Piece] = []
        total = 0
        for name, tensor in response.outputs.items():
            data: Any = tensor.data
            if wanted is not None and (name in wanted.plans or tensor.memory_type):
                plan = wanted.plans.get(name, _AS_IS)
                placed = self._exchange.place(name, tensor, plan, wanted.version, wanted.request)
                tensor, data = (tensor, _EMPTY) if placed is None else (placed, placed.data)
            pieces.append(_output(name, tensor.datatype, tensor.shape))
            size = data.nbytes
            contents += _content(size), data
            total += size
        pieces += contents
        if total > _LARGE:
            self._check(_size(pieces))
        return pieces

    def _check(self, size: int) -> None:
        """Raise TritonError for an answer that cannot be sent. grpcio ends the process if it has no memory for its copy
        of a message, so that is checked before."""
        if size > LARGEST_MESSAGE:
            raise InvalidArgumentError(
                f"Response has byte size {size} which exceeds gRPC's byte size limit {LARGEST_MESSAGE}."
            )
        try:
            self._memory.check(size, "The response")
            mmap.mmap(-1, _COPIES * size).close()
        except TooLargeError as error:
            raise InvalidArgumentError(str(error)) from None
        except OSError as error:
            raise UnavailableError(f"There is no memory for a response of {size} bytes: {error.strerror}.") from None
        if not self._memory.room.has(_COPIES * size):
            raise no_response_memory(size)


def _size(pieces: Sequence[_Piece]) -> int:
    return sum([piece.nbytes if type(piece) is not bytes else len(piece) for piece in pieces])


def _joined(pieces: Sequence[_Piece]) -> bytes:
    try:
        return b"".join(pieces)
    except MemoryError:
        raise no_response_memory(_size(pieces)) from None


_EMPTY = memoryview(b"")
_AS_IS = OutputPlan()


def stream_error(text: str, response: bytes) -> bytes:
    """Return the ModelStreamInferResponse of an error (rule 6.13.2); `response` names the request that it answers."""
    return field(1, text.encode("utf-8", "replace")) + field(2, response)


def refused(request_id: str) -> bytes:
    """Return the response to a refused request, next to the error's text: only its id (measured)."""
    return field(3, request_id.encode()) if request_id else b""


def failed(model_name: str, requested_version: str, request_id: str, final: bool) -> bytes:
    """Return the response to a request whose model failed; its version is the text that the client sent (measured)."""
    return _head(model_name, requested_version) + refused(request_id) + _FINAL[final]
