"""These functions turn what a stub answered into the responses that clients get."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ..core.data_type import DataType
from ..core.infer_request import InferenceRequest
from ..core.infer_response import InferenceResponse, ParameterValue
from ..core.output_reshape import OutputReshapes
from ..core.status import Code, ModelError, RemoteException, TritonError
from ..core.tensor import Tensor
from ..ipc.stub_connection import StubConnection
from ..stub._pb_stub.wire.serialization import ELEMENT_DTYPES, WireError
from ..stub._pb_stub.wire.shm_manager import Lease
from ..stub._pb_stub.wire.tensor_block import Header, check_header

#: Outputs below this many bytes are copied, so that their block goes back at once; above, the caller gets a view
#: that holds the block.
#: A copy of 16 KB takes about as long as building the leased view.
COPY_BELOW = 1 << 14

_TYPES = {int(datatype): datatype for datatype in DataType}


class BlockReader:
    """The tensors of one block of the stub's region."""

    def __init__(self, link: StubConnection, block: int | None) -> None:
        self._region = link.stub_region
        self._freed = link.freed
        self._block = block
        self._lease: Lease | None = None

    def tensor(self, header: Header) -> Tensor:
        """Raises WireError for a header no honest stub sends."""
        check_header(header)
        _, number, shape, _, _, offset, nbytes = header
        memory: Any
        if nbytes < COPY_BELOW:
            memory = bytearray(self._region.view(offset, nbytes))
        else:
            if self._lease is None and self._block is not None:
                self._lease = Lease(self._freed, self._block, self._region)
            memory = self._region.array(offset, nbytes, self._lease)
        dtype = ELEMENT_DTYPES[number]
        if dtype is None:
            if not all(type(dim) is int and dim >= 0 for dim in shape):
                raise WireError(f"tensor header {header!r}")
            return Tensor(DataType.BYTES, tuple(shape), np.ndarray((nbytes,), np.uint8, memory))
        array: np.ndarray[Any, Any] = np.ndarray(shape, dtype, memory)  # raises for a shape that the bytes do not fill
        return Tensor(_TYPES[number], array.shape, array)

    def finish(self) -> None:
        """Gives the block back, unless a view holds it."""
        if self._lease is None and self._block is not None:
            self._freed.append(self._block)
        self._lease = None


def build_response(
    request: InferenceRequest,
    reader: BlockReader,
    wire: list[Any],
    version: int,
    *,
    final: bool,
    reshapes: OutputReshapes | None = None,
) -> InferenceResponse:
    """The response of `[tensors, error, parameters]`."""
    headers, error, parameters = wire
    response = InferenceResponse(request.model_name, version, request.request_id, final=final)
    if error is not None:
        response.error = error_of(error)
        return response
    for header in headers:
        response.outputs[header[0]] = reader.tensor(header)
    if reshapes is not None:
        reshapes.apply(response.outputs)
    if parameters:
        response.parameters = parse_parameters(parameters)
    return response


def parse_parameters(text: str) -> dict[str, ParameterValue]:
    parameters = json.loads(text)
    return dict(parameters) if isinstance(parameters, dict) else {}


def error_of(wire: list[Any]) -> TritonError:
    """`[code, text]` of the author's TritonError, or `[code, text, exception]` of what the stub says of the model; the
    exception may be None."""
    if len(wire) > 2:
        return ModelError(str(wire[1]), exception=RemoteException.from_wire(wire[2]) if wire[2] else None)
    return TritonError.of(Code(wire[0]), str(wire[1]))


def failure_of(outcome: dict[str, Any], log: tuple[str, ...] = ()) -> ModelError:
    """The error of a failed outcome."""
    exception = outcome.get("exception")
    return ModelError(
        str(outcome["text"]), exception=RemoteException.from_wire(exception) if exception else None, log=log
    )
