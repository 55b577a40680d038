"""The target of a load test: its interface, and the one for a server in this process. `remote_target` has the one
for a remote server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from time import monotonic_ns
from typing import Any, Protocol

from ....core.inference.infer_request import InferenceRequest
from ....core.inference.infer_response import InferenceResponse
from ....core.status import TritonError
from ....server.api.model import Model
from ....server.api.response_iterator import ResponseIterator
from .call_log import CallLog
from .request_mix import Lane, ModelInputs, RequestMix
from .token_times import TokenStream

#: Seconds after which a sender that waits for room checks whether it must halt.
_LOOK = 0.05

Open = dict[int, InferenceRequest]


class LoadTarget(Protocol):
    """The sender of one load test to one model. `start` and `keep` are called on one thread of the test's own; the
    other methods on another one. Every sent request has a row in `log` once it has ended.
    """

    #: where the model runs, in words: `in this kernel`, `HTTP 127.0.0.1:8000`
    place: str
    inputs: ModelInputs
    #: whether it sees the outputs, for `output_tokens`
    sees_outputs: bool

    def statistics(self) -> Mapping[str, Any] | None:
        """Return Triton's current statistics of the model; None if the server has none."""

    def open(self, log: CallLog, mix: RequestMix) -> None:
        """Begin a row: requests of `mix` end in `log` from now on."""

    def keep(self, lanes: Sequence[Lane], mix: RequestMix, halt: threading.Event) -> None:
        """Keep one request of each lane in progress until `halt` is set; it may return before the last ones end."""

    def start(self, request: InferenceRequest, due: int, lane: Lane) -> None:
        """Send a request that was due at `due`, without waiting for its end. Requests of one lane are sent in order."""

    def outstanding(self) -> int:
        """Return how many requests are sent, or waiting to be sent, and have not ended."""

    def in_progress(self) -> int:
        """Return how many requests are sent and have not ended."""

    def abandon(self) -> int:
        """Cancel the requests that have not ended, and forget them. Return their number."""


class _Call:
    """One request in progress. `on_end` is called with its lane; it must not block."""

    __slots__ = ("due", "error", "first", "lane", "log", "on_end", "open", "responses", "sent", "stream")

    def __init__(self, log: CallLog, lane: Lane, under_way: Open, on_end: Callable[[Lane], None] | None) -> None:
        self.log = log
        self.lane = lane
        self.open = under_way
        self.on_end = on_end
        self.due = self.sent = self.first = self.responses = self.error = 0
        self.stream = TokenStream(log.tokens) if log.tokens is not None else None

    def answered(self, request: InferenceRequest, response: InferenceResponse) -> None:
        now = monotonic_ns()
        if response.error is not None:
            self.error = self.log.error_number(response.error.message)
        elif not response.empty:
            self.responses += 1
            if not self.first:
                self.first = now
            if self.stream is not None:
                self.stream.take(response.outputs, now)
        if response.final:
            self.end(request, now)

    def end(self, request: InferenceRequest, now: int) -> None:
        self.open.pop(id(request), None)
        if self.stream is not None and not self.error:
            self.stream.end(self.due, now)
        self.log.add((self.due, self.sent, self.first, now, 0, 0, self.responses, self.error, request.batch_size))
        if self.on_end is not None:
            self.on_end(self.lane)


class LocalTarget:
    """A target that sends from one thread, with callbacks from the server: thousands of requests per second need no
    other thread.

    One client alone is different: it waits for its response itself, as `model(…)` does, which saves a thread switch.
    """

    place = "in this kernel"
    sees_outputs = True

    def __init__(self, model: Model) -> None:
        self._model = model
        self._core = model.server.core
        self._log = CallLog()
        #: by id, which a request keeps as long as it is in this dict
        self._open: Open = {}
        self.inputs = ModelInputs(model.name, model.metadata(), model.config())

    def statistics(self) -> Mapping[str, Any] | None:
        try:
            return self._model.statistics()
        except TritonError:  # the model was unloaded meanwhile
            return None

    def open(self, log: CallLog, mix: RequestMix) -> None:
        self._log = log
        self._open = {}

    def keep(self, lanes: Sequence[Lane], mix: RequestMix, halt: threading.Event) -> None:
        if len(lanes) == 1:
            self._keep_one(lanes[0], mix, halt)
        else:
            self._keep_many(lanes, mix, halt)
        for lane in lanes:
            if (request := mix.last(lane)) is not None:
                self._send(_Call(self._log, lane, self._open, None), request)

    def _keep_one(self, lane: Lane, mix: RequestMix, halt: threading.Event) -> None:
        infer, halted = self._core.infer_here, halt.is_set
        while not halted():
            request = mix.request(lane)
            call = _Call(self._log, lane, self._open, None)
            iterator = ResponseIterator(request, False, True)
            self._open[id(request)] = request
            call.due = call.sent = monotonic_ns()
            try:
                infer(request)
            except TritonError as error:
                self._refuse(call, request, error)
                continue
            for response in iterator:
                call.answered(request, response)

    def _keep_many(self, lanes: Sequence[Lane], mix: RequestMix, halt: threading.Event) -> None:
        free: SimpleQueue[Lane] = SimpleQueue()
        for lane in lanes:
            free.put(lane)
        log, under_way, on_end, halted = self._log, self._open, free.put, halt.is_set
        while not halted():
            try:
                lane = free.get(timeout=_LOOK)
            except Empty:
                continue
            self._send(_Call(log, lane, under_way, on_end), mix.request(lane))

    def start(self, request: InferenceRequest, due: int, lane: Lane) -> None:
        self._send(_Call(self._log, lane, self._open, None), request, due)

    def _send(self, call: _Call, request: InferenceRequest, due: int = 0) -> None:
        request.on_response = call.answered
        self._open[id(request)] = request
        call.sent = monotonic_ns()
        call.due = due or call.sent
        try:
            self._core.infer(request)
        except TritonError as error:
            self._refuse(call, request, error)

    @staticmethod
    def _refuse(call: _Call, request: InferenceRequest, error: TritonError) -> None:
        call.error = call.log.error_number(error.message)
        call.end(request, monotonic_ns())

    def outstanding(self) -> int:
        return len(self._open)

    in_progress = outstanding

    def abandon(self) -> int:
        left = list(self._open.copy().values())
        for request in left:
            request.cancel()
        return len(left)
