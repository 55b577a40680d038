"""One request to a model that answers from elsewhere, and the delivery of its answer to the client."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from tritonlab_recordings import NUMPY, RawTensor, Response

_FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class Exchange:
    """A request and its answer. Responses after its end are dropped, since a cancelled call may still answer."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self.sent = 0
        self._sender = request.get_response_sender()
        self._wanted = request.requested_output_names()
        self._lock = threading.Lock()  # guards the fields below
        self._ended = False
        self._held: Any = None

    def is_cancelled(self) -> bool:
        return bool(self._sender.is_cancelled())

    def send(self, response: Response) -> None:
        if response.code:
            error = pb_utils.TritonError(response.error, getattr(pb_utils.TritonError, response.code))
            self._hold(pb_utils.InferenceResponse([], error))
        else:
            outputs = [_tensor(each) for each in response.outputs if each.name in self._wanted]
            self._hold(pb_utils.InferenceResponse(outputs, None, dict(response.parameters)))

    def fail(self, text: str, code: str) -> None:
        self.send(Response(error=text, code=code))
        self.end()

    def end(self) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = True
            if self._held is not None:
                self._sender.send(self._held, _FINAL)
            else:
                self._sender.send(flags=_FINAL)

    def _hold(self, response: Any) -> None:
        """Send the previous response and hold this one, so that the last is sent with the final flag."""
        with self._lock:
            if self._ended:
                return
            self.sent += 1
            if self._held is not None:
                self._sender.send(self._held)
            self._held = response

    def flush(self) -> None:
        """Send the held response: the next one may take long."""
        with self._lock:
            if self._held is not None and not self._ended:
                self._sender.send(self._held)
                self._held = None


def _tensor(raw: RawTensor) -> Any:
    if raw.datatype == "BYTES":
        array = pb_utils.deserialize_bytes_tensor(raw.data)
    else:
        array = np.frombuffer(raw.data, NUMPY[raw.datatype])
    return pb_utils.Tensor(raw.name, array.reshape(raw.shape))
