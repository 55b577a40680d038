"""`preserve_ordering`: responses leave in the order their requests came, whichever instance was faster (rule 5.5.7)."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict

from ..core.infer_request import InferenceRequest, ResponseCallback
from ..core.infer_response import InferenceResponse

_log = logging.getLogger(__name__)


class _Turn:
    """One request's responses until it is its turn."""

    __slots__ = ("callback", "held", "over")

    def __init__(self, callback: ResponseCallback | None) -> None:
        self.callback = callback
        self.held: list[InferenceResponse] = []
        self.over = False


class ResponseOrder:
    """Stands between requests and their clients. Any thread may respond; clients are called one at a time, in order,
    by whichever thread made it possible."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards all of the below; no client is called under it
        self._turns: OrderedDict[int, tuple[InferenceRequest, _Turn]] = OrderedDict()
        self._delivering = False

    def admit(self, request: InferenceRequest) -> None:
        """Has the request's responses wait from now on for those of all that were admitted before."""
        with self._lock:
            self._turns[id(request)] = request, _Turn(request.push(self._on_response))

    def leave(self, request: InferenceRequest) -> None:
        """Lets a request answer at once that will not be executed: Triton does not hold refusals back either."""
        with self._lock:
            del self._turns[id(request)]
        request.pop()
        self._deliver()

    def _on_response(self, request: InferenceRequest, response: InferenceResponse) -> None:
        with self._lock:
            _, turn = self._turns[id(request)]
            turn.held.append(response)
            turn.over = response.final
        self._deliver()

    def _deliver(self) -> None:
        """Hands out what has its turn. While one thread does, others leave theirs to it: the order is that of the
        queue."""
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
                except Exception:  # another client's must not lose its own
                    _log.exception("the response callback of %r raised", request)

    def _take_ready(self) -> list[tuple[ResponseCallback | None, InferenceRequest, InferenceResponse]]:
        ready = []
        with self._lock:
            while self._turns:
                key = next(iter(self._turns))
                request, turn = self._turns[key]
                ready += [(turn.callback, request, response) for response in turn.held]
                turn.held = []
                if not turn.over:
                    break
                del self._turns[key]
            if not ready:
                self._delivering = False
        return ready

    def __len__(self) -> int:
        return len(self._turns)
