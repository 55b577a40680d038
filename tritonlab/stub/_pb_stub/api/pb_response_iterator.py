"""The iterator over the responses of a BLS request that was run with `exec(decoupled=True)`."""

from __future__ import annotations

from typing import Any, Iterator, List

from .argument_check import no_constructor
from .bridge import BridgeError
from .errors import NativeObject, TritonModelException
from .infer_response import InferenceResponse
from .signal_gate import uninterrupted

_new = object.__new__


class ResponseIterator(NativeObject):
    """The responses of a called model as it sends them; `next` waits for the next one.

    A model that sends its final flag by itself adds an empty response at the end. Once all have arrived, iterating
    again gives the same objects. If an unfinished iterator is dropped, the rest is read and discarded.
    """

    __slots__ = ("_call", "_has_ended", "_next", "_responses")

    _call: Iterator[InferenceResponse]
    _responses: List[InferenceResponse]
    _next: int
    _has_ended: bool

    def __new__(cls, *args: Any, **kwargs: Any) -> ResponseIterator:
        raise no_constructor("ResponseIterator")

    @classmethod
    def _from_call(cls, call: Iterator[InferenceResponse]) -> ResponseIterator:
        """Make an iterator over `call`, which yields the responses and may have `cancel()`."""
        self: ResponseIterator = _new(cls)
        self._call = call
        self._responses = []
        self._next = 0
        self._has_ended = False
        return self

    def __iter__(self) -> ResponseIterator:
        # rule 1.10.3; Triton does not go back in the middle of a replay
        if self._next == len(self._responses) and self._is_over():
            self._next = 0
        return self

    def _is_over(self) -> bool:
        # a call may already know that its last response was the final one; then no further one is awaited
        return self._has_ended or getattr(self._call, "done", False)

    def __next__(self) -> InferenceResponse:
        if self._next == len(self._responses):
            self._receive()
        self._next += 1
        return self._responses[self._next - 1]

    @uninterrupted
    def _receive(self) -> None:
        """Wait for one more response. Raises StopIteration if none is left."""
        if not self._has_ended:
            try:
                self._responses.append(next(self._call))
                return
            except StopIteration:
                self._has_ended = True
            except BridgeError as error:
                raise TritonModelException(error.text) from None
        raise StopIteration("Iteration is done for the responses.")

    def cancel(self) -> None:
        """Ask the server to cancel the request; does nothing once the request is over.

        The called model must check `is_cancelled()`. Its responses until the final flag must still be read.
        """
        if not self._is_over():
            cancel = getattr(self._call, "cancel", None)
            if cancel is not None:
                cancel()
