"""The sender that answers one request from any thread, during `execute` or (decoupled) after it."""

from __future__ import annotations

import threading
from typing import Any, Optional

from . import bridge
from .argument_check import UINT32_MAX, as_int, mismatch, no_constructor
from .bridge import BridgeError
from .errors import NativeObject, TritonModelException
from .infer_response import InferenceResponse
from .signal_gate import uninterrupted

FINAL = 1

#: Replaces the server's number of a request that the author built, whose answer is not awaited.
NO_HANDLE = -1

_SIGNATURE = (
    "(self: c_python_backend_utils.InferenceResponseSender, "
    "response: c_python_backend_utils.InferenceResponse = None, flags: int = 0) -> None"
)
_new = object.__new__


class InferenceResponseSender(NativeObject):
    """The sender that `request.get_response_sender()` returns. Responses of one request arrive in the order of the
    `send` calls.

    The request holds its sender. So if a sender is gone without its final flag, nothing can end the request: on Triton
    the client waits for ever (rule 3.7.2); here the request fails at once.
    """

    __slots__ = ("_closed", "_decoupled", "_handle", "_lock", "_owed", "_sent")

    _handle: int
    _decoupled: bool
    _sent: bool
    _closed: bool
    #: whether the request still waits for an end that only this object can send; `pack_returned` ends it too
    _owed: bool
    _lock: threading.Lock

    def __new__(cls, *args: Any, **kwargs: Any) -> InferenceResponseSender:
        raise no_constructor("InferenceResponseSender")

    @classmethod
    def _from_handle(cls, handle: int, decoupled: bool) -> InferenceResponseSender:
        """Make the sender of the request `handle`; NO_HANDLE for a request that the author built."""
        self: InferenceResponseSender = _new(cls)
        self._handle = handle
        self._decoupled = decoupled
        self._sent = False
        self._closed = False
        self._owed = handle != NO_HANDLE
        self._lock = threading.Lock()  # guards _sent and _closed; the order of the checks is the order of sending
        return self

    def send(self, response: Optional[InferenceResponse] = None, flags: int = 0) -> None:
        """Send `response`. With `flags=TRITONSERVER_RESPONSE_COMPLETE_FINAL` it is the last one, and may be left out.

        Outputs that the client did not request are dropped. May be called from any thread. Raises TritonModelException
        for a send that the model's transaction policy forbids or that fails, TypeError for arguments of
        another type.
        """
        if response is not None and not isinstance(response, InferenceResponse):
            raise mismatch("send", _SIGNATURE, (self, response))
        number = flags if type(flags) is int and 0 <= flags <= 1 else as_int(flags, 0, UINT32_MAX)
        if number is None:
            raise mismatch("send", _SIGNATURE, (self, response, flags))
        self._send(response, number)

    @uninterrupted
    def _send(self, response: Optional[InferenceResponse], number: int) -> None:
        with self._lock:
            refusal = self._refusal(response, number)
            if refusal:
                raise TritonModelException("Unable to send response. " + refusal if refusal[0] != "I" else refusal)
            try:
                bridge.current().send_response(self._handle, response, number)
            except BridgeError as error:
                # nothing was sent, so the author may send something else; Triton counts it as sent
                raise TritonModelException(error.text) from None
            self._sent = self._sent or response is not None
            if number == FINAL:
                self._closed = True
                self._owed = False

    def _refusal(self, response: Optional[InferenceResponse], flags: int) -> str:
        """Return why this send is not allowed, with the checks in Triton's order (rules 1.9.2, 1.9.3); empty if it
        is."""
        if flags not in (0, FINAL):
            return "Unsupported flag provided."
        if response is None and flags == 0:
            return "Inference Response object must be provided when the response flags is set to zero."
        if self._handle == NO_HANDLE:
            return "Response sender has no reference to the decoupled state of the model."
        if not self._decoupled:
            if response is not None and self._sent:
                return "Non-decoupled model cannot send more than one response."
            if response is None and not self._sent:
                return "Non-decoupled model cannot send complete final before sending a response."
        if self._closed:
            return "Response sender has been closed."
        return ""

    def is_cancelled(self) -> bool:
        """Return whether the client has cancelled the request, which the server knows."""
        return query_cancelled(self._handle)

    def __del__(self) -> None:
        if self._owed:
            bridge.current().forgotten(self._handle, self._sent)


def query_cancelled(handle: int) -> bool:
    """Return whether the client of a request has cancelled it. Raises TritonModelException for a request that the
    author built, for which Triton aborts the server (rule 1.7.10).
    """
    if handle == NO_HANDLE:
        raise TritonModelException(
            "Cannot determine request cancellation: the model built this request itself, and only a received one "
            "has a client."
        )
    try:
        return bridge.current().is_cancelled(handle)
    except BridgeError as error:
        raise TritonModelException(error.text) from None
