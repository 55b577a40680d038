"""`ResponseOrder`, the implementation of `preserve_ordering`: responses leave in the order of requests (rule 5.5.7)."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict

from ...core.inference.infer_request import InferenceRequest, ResponseCallback
from ...core.inference.infer_response import InferenceResponse

_log = logging.getLogger(__name__)


class _Turn:
    """The responses of one request until its turn."""

    __slots__ = ("callback", "held", "is_over")

    def __init__(self, callback: ResponseCallback | None) -> None:
        self.callback = callback
        self.held: list[InferenceResponse] = []
        self.is_over = False


class ResponseOrder:
    """Responses that are held back until their request's turn. Any thread may respond; clients are called one at a
    time, in order, by the thread whose response made it possible.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards all fields below; no client is called under it
        self._turns: OrderedDict[int, tuple[InferenceRequest, _Turn]] = OrderedDict()
        self._delivering = False

    def admit(self, request: InferenceRequest) -> None:
        """Hold the request's responses back until all requests admitted before are answered."""
        with self._lock:
            self._turns[id(request)] = request, _Turn(request.push(self._on_response))

    def leave(self, request: InferenceRequest) -> None:
        """End a request that will not be executed at once, since Triton does not hold refusals back either."""
        with self._lock:
            del self._turns[id(request)]
        request.pop()
        self._deliver()

    def held_back(self) -> list[InferenceRequest]:
        """Return the request whose turn it is, and those behind it that already have responses; empty if none has."""
        with self._lock:
            turns = list(self._turns.values())
        held = [request for request, turn in turns[1:] if turn.held]
        return [turns[0][0], *held] if held else []

    def _on_response(self, request: InferenceRequest, response: InferenceResponse) -> None:
        with self._lock:
            _, turn = self._turns[id(request)]
            turn.held.append(response)
            turn.is_over = response.final
        self._deliver()

    def _deliver(self) -> None:
        """Send the responses whose turn it is. While a thread sends, others leave theirs to it, to keep the order."""
        with self._lock:
            if self._delivering:
                return
            self._delivering = True
        while ready := self._take_ready():
            for callback, request, response in ready:
                if callback is None:
                    continue
                try:
                    callback(request, response)
                except Exception:  # An error of one client's callback must not cost another client its response.
                    _log.exception("the response callback of %r raised", request)

    def _take_ready(self) -> list[tuple[ResponseCallback | None, InferenceRequest, InferenceResponse]]:
        ready = []
        with self._lock:
            while self._turns:
                key = next(iter(self._turns))
                request, turn = self._turns[key]
                ready += [(turn.callback, request, response) for response in turn.held]
                turn.held = []
                if not turn.is_over:
                    break
                del self._turns[key]
            if not ready:
                self._delivering = False
        return ready

    def __len__(self) -> int:
        return len(self._turns)
