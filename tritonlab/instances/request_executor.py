"""BLS: runs the requests a model makes to other models, and sends it their responses (section 4 of the rule book)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.infer_request import InferenceRequest
from ..core.infer_response import InferenceResponse
from ..core.status import Code, TritonError
from ..ipc.stub_connection import StubConnection
from ..stub._pb_stub.ipc_message import NUMBER
from ..stub._pb_stub.serialization import encode_parameters
from ..stub._pb_stub.shm_manager import SharedMemoryError
from ..stub._pb_stub.tensor_block import pack_tensors
from .response_factory import BlockReader, parse_parameters

_INFER_RESPONSE = NUMBER["INFER_RESPONSE"]


class RequestExecutor:
    """`infer` starts a checked request and calls back; `decoupled` says whether a model may answer other than once.
    Both may raise TritonError."""

    def __init__(self, infer: Callable[[InferenceRequest], None], decoupled: Callable[[str, int], bool]) -> None:
        self._infer = infer
        self._decoupled = decoupled
        self._lock = threading.Lock()  # guards _running
        self._running: dict[tuple[int, int], InferenceRequest] = {}

    def start(self, link: StubConnection, ident: int, body: list[Any]) -> None:
        """Runs the INFER `ident` of the stub behind `link`; every outcome is an INFER_RESPONSE, never an exception
        (rule 4.2)."""
        fields, allows_decoupled, block, headers = body
        reader = BlockReader(link, block)
        inputs = {header[0]: reader.tensor(header) for header in headers}
        reader.finish()
        # the memory preference behind them is not looked at: outputs travel in host memory. Where there is no GPU the
        # peer answers an error of its allocator instead (rule 1.12.2).
        name, version, request_id, correlation_id, flags, timeout, outputs, parameters = fields[:8]
        key = (id(link), ident)
        request = InferenceRequest(
            name,
            inputs,
            model_version=version,
            request_id=request_id,
            correlation_id=correlation_id,
            flags=flags,
            timeout=timeout,
            requested_outputs=tuple(sorted(outputs)),
            parameters=parse_parameters(parameters) if parameters else None,
            on_response=lambda request, response: self._answer(link, key, response),
        )
        try:
            if not allows_decoupled and self._decoupled(name, version):
                raise TritonError.of(Code.UNSUPPORTED, _DECOUPLED_TEXT % name)
            with self._lock:
                self._running[key] = request
            self._infer(request)
        except TritonError as error:
            with self._lock:
                self._running.pop(key, None)
            text = f"Model {name} - Error when running inference: {error.message}"
            link.post(_INFER_RESPONSE, ident, [True, None, [], [int(Code.INTERNAL), text], ""])

    def cancel(self, link: StubConnection, ident: int) -> None:
        """Cancels a running INFER; one that is over is ignored (rule 1.10.6)."""
        with self._lock:
            request = self._running.get((id(link), ident))
        if request is not None:
            request.cancel()

    def _answer(self, link: StubConnection, key: tuple[int, int], response: InferenceResponse) -> None:
        if response.final:
            with self._lock:
                self._running.pop(key, None)
        if link.lost:
            return
        error = None
        wires: list[tuple[str, int, tuple[int, ...], np.ndarray[Any, Any]]] = []
        if response.error is not None:
            error = [int(response.error.code), response.error.message]
        else:
            wires = [(name, int(t.datatype), t.shape, t.data) for name, t in response.outputs.items()]
        try:
            block, headers = pack_tensors(link.region, wires)
        except SharedMemoryError as failure:
            block, headers, error = None, [], [int(Code.INTERNAL), str(failure)]
        parameters = encode_parameters(response.parameters)
        link.post(_INFER_RESPONSE, key[1], [response.final, block, headers, error, parameters])


#: The stray quote is the peer's (rule 4.2.1).
_DECOUPLED_TEXT = (
    "Model %s is using the decoupled. The current BLS request call doesn't support models using the decoupled "
    "transaction policy. "
    "Please use 'decoupled=True' argument to the 'exec' or 'async_exec' calls for decoupled models.'"
)
