"""Requests sent and watched for where their time goes, as the playground does when a person presses Send."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..core.inference.infer_request import InferenceRequest, RequestState
from ..core.inference.infer_response import InferenceResponse
from ..core.metrics.infer_stats import ExecuteTimes
from ..core.observe.instrument import Instrument
from ..core.status import TritonError, UnavailableError
from ..ipc.processes.stub_log import LogRecord
from ..server.api.response_iterator import ResponseIterator
from .exchange import Arrival, Exchange, PhaseTimes, first_error

if TYPE_CHECKING:
    from ..server.api.model import Model
    from ..server.api.server import Server

#: how long to wait for the times of an `execute` call that has already answered
_SETTLE_SECONDS = 0.2
#: The most lines kept of the output of models while requests are under way.
_KEPT_LINES = 1000


class RequestWatch(Instrument):
    """The record of the progress of some requests. It is in `server.instruments` only while they are under way.

    Guarantees: hooks come on any thread; `changed` is called after each response, on that thread, and must not
    block.
    """

    def __init__(self, requests: Sequence[InferenceRequest], changed: Callable[[], None]) -> None:
        self._lock = threading.Lock()  # guards everything below
        self._executed = threading.Condition(self._lock)
        self._changed = changed
        self._arrivals: dict[int, list[Arrival]] = {id(request): [] for request in requests}
        self._executing: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self._splits: dict[int, PhaseTimes] = {}
        self._batch_sizes: dict[int, int] = {}
        self._printed: deque[LogRecord] = deque(maxlen=_KEPT_LINES)

    def log(self, record: LogRecord) -> None:
        if record.serials and not record.in_error:
            with self._lock:
                self._printed.append(record)

    def batch_formed(
        self, model: str, version: int, requests: Sequence[InferenceRequest], size: int, reason: str, now: int
    ) -> None:
        with self._lock:
            self._batch_sizes.update((id(r), size) for r in requests if id(r) in self._arrivals)

    def execute_started(self, instance: str, batch_id: int, requests: Sequence[InferenceRequest], now: int) -> None:
        with self._lock:
            ours = [(id(r), max(0, now - r.queue_start)) for r in requests if id(r) in self._arrivals]
            if ours:
                self._executing[instance, batch_id] = ours

    def execute_finished(self, instance: str, batch_id: int, times: ExecuteTimes, now: int) -> None:
        with self._lock:
            for ident, queue in self._executing.pop((instance, batch_id), ()):
                self._splits[ident] = PhaseTimes(queue, times.compute_input, times.compute_infer, times.compute_output)
            self._executed.notify_all()

    def wait_executed(self, timeout: float) -> None:
        """Wait until the `execute` calls of our requests have returned; a decoupled model's may return after its last
        response. `timeout`: seconds.
        """
        with self._lock:
            self._executed.wait_for(lambda: not self._executing, timeout)

    def response_sent(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        with self._lock:
            arrivals = self._arrivals.get(id(request))
            if arrivals is None:
                return
            arrivals.append(Arrival(response, now - request.request_start))
        self._changed()

    def received(self, request: InferenceRequest, response: InferenceResponse) -> None:
        """Note a response that came without the hook, which is called only for requests that reached an instance."""
        with self._lock:
            known = any(arrival.response is response for arrival in self._arrivals[id(request)])
        if not known:
            self.response_sent(request, response, time.monotonic_ns())

    def outcome(self, request: InferenceRequest, refused: TritonError | None) -> Exchange:
        """Return the progress of `request` so far; `refused` is the error if the server did not accept it."""
        with self._lock:
            arrivals = tuple(self._arrivals[id(request)])
            split, batch_size = self._splits.get(id(request)), self._batch_sizes.get(id(request), 0)
            printed = tuple(record for record in self._printed if request.serial in record.serials)
        return Exchange(request, arrivals, refused or first_error(arrivals), split, batch_size, printed)


class Sending:
    """Some requests to one model, all in flight together.

    Guarantees: `start` returns at once; a thread of its own sends and waits. All methods may be called from any
    thread.
    """

    def __init__(self, model: Model, requests: Sequence[InferenceRequest]) -> None:
        self._model = model
        self._started = time.monotonic()
        self._requests = tuple(requests)
        self._changed = threading.Event()
        self._watch = RequestWatch(requests, self._changed.set)
        self._cancelled = False
        self._refused: dict[int, TritonError] = {}
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"playground {model.name}", daemon=True)

    def start(self) -> None:
        self._started = time.monotonic()
        self._thread.start()

    @property
    def waited(self) -> float:
        """The seconds since `start`."""
        return time.monotonic() - self._started

    def why(self) -> str:
        """Return why the first unanswered request waits, in sentences and stacks; empty if all are answered. Blocks a
        second at most.
        """
        for request in self._requests:
            if request.state not in (RequestState.INITIALIZED, RequestState.RELEASED):
                return self._model.server.core.explain(request)
        return ""

    @property
    def finished(self) -> bool:
        return self._finished.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until every request has its final response; returns False if that takes more than `timeout` seconds."""
        return self._finished.wait(timeout)

    def take_changes(self) -> bool:
        """Return whether a response has come since the last call."""
        changed = self._changed.is_set()
        self._changed.clear()
        return changed

    @property
    def cancelled(self) -> bool:
        """Return whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Request cancellation; the model decides which responses still come (rule 3.10)."""
        self._cancelled = True
        for request in self._requests:
            request.cancel()

    def outcomes(self) -> list[Exchange]:
        """Return the exchanges so far, in the order of the requests."""
        return [self._watch.outcome(request, self._refused.get(id(request))) for request in self._requests]

    def _run(self) -> None:
        instruments = self._model.server.instruments
        instruments.add(self._watch)
        try:
            sent = [(request, self._send(request)) for request in self._requests]
            for request, iterator in sent:
                for response in iterator or ():
                    self._watch.received(request, response)
            self._watch.wait_executed(_SETTLE_SECONDS)
        finally:
            instruments.remove(self._watch)
            self._finished.set()

    def _send(self, request: InferenceRequest) -> ResponseIterator | None:
        try:
            return self._model.infer(request, raise_on_error=False)
        except TritonError as error:
            self._refused[id(request)] = error
            return None


def ask(model: Model, request: InferenceRequest, timeout: float | None = None) -> Exchange:
    """Send one request and wait for its end. After `timeout` seconds cancel it, with an error about that."""
    sending = Sending(model, [request])
    sending.start()
    try:
        done = sending.wait(timeout)
    except BaseException:
        sending.cancel()
        raise
    (outcome,) = sending.outcomes()
    if done:
        return outcome
    sending.cancel()
    return replace(outcome, error=UnavailableError(f"no answer within {timeout:g} s"))


def asks_of(server: Server) -> Callable[[InferenceRequest], Exchange]:
    """Return the function that sends requests to the models of `server` that they name, and wait a minute at most."""
    return lambda request: ask(server.model(request.model_name), request, 60.0)
