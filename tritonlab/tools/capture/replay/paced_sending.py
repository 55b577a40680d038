"""Requests of a capture sent again in their order and at their pace, to a model of this process or of a server
elsewhere.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from tempfile import SpooledTemporaryFile
from time import monotonic_ns
from typing import NamedTuple, Protocol

from ....core.inference.infer_request import InferenceRequest
from ....core.inference.infer_response import InferenceResponse
from ....core.status import TritonError, UnavailableError, UnsupportedError
from ....exchanges.exchange import Arrival, Exchange, addressed, collect, first_error
from ....exchanges.remote.http_link import HttpLink
from ....exchanges.remote.remote_server import RemoteModel
from ....server.api.model import Model
from ..capture_file import CapturedRequest
from ..capture_writer import size_of

#: Seconds without any answer after which the requests in flight are given up.
STALL_SECONDS = 60.0
#: No request is sent while those without an answer have so many bytes: as many again come with the answers.
_MOST_BYTES = 256 << 20
#: The bytes of answers that are kept in memory; beyond them all are in a file without a name.
_MEMORY_BYTES = 64 << 20


class Planned(NamedTuple):
    """A request of a capture with its number there."""

    number: int
    captured: CapturedRequest


class Replayed(NamedTuple):
    """A planned request with its answer now. `behind_ns`: how late it was sent, in nanoseconds."""

    planned: Planned
    exchange: Exchange
    behind_ns: int = 0


class KeptAnswers:
    """The answers of one replay by number of request, until `close`. Raises OSError if the disk does not take them."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # noqa: SIM115  # `close` closes it
        self._places: dict[int, int] = {}

    def add(self, replayed: Replayed) -> None:
        self._places[replayed.planned.number] = self._file.seek(0, 2)
        pickle.dump((replayed.exchange.arrivals, replayed.exchange.error), self._file)

    def get(self, replayed: Replayed) -> Exchange | None:
        """Return the kept answer to the same request, None if there is none."""
        place = self._places.get(replayed.planned.number)
        if place is None:
            return None
        self._file.seek(place)
        return Exchange(replayed.exchange.request, *pickle.load(self._file))

    def close(self) -> None:
        self._file.close()


#: The answers that have come, by the id of the sent request, which the sender keeps until then.
Answers = SimpleQueue[tuple[int, Exchange]]


class Sender(Protocol):
    """A way to send requests to one model. Its methods are called on one thread; answers come on any."""

    answers: Answers

    def start(self, request: InferenceRequest) -> int:
        """Send a request without waiting for its answer; return the key of its answer."""

    def cancel(self) -> None:
        """Cancel the requests that have no answer yet, as far as that is possible."""

    def close(self) -> None:
        """End the sending; no request is sent afterwards."""


@dataclass
class _Open:
    """A request in flight."""

    request: InferenceRequest
    sent: int
    arrivals: list[Arrival] = field(default_factory=list)


class LocalSender:
    """A sender to a model of a server in this process, through its batcher. Answers come by callback, on the server's
    threads."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._core = model.server.core
        self._open: dict[int, _Open] = {}
        self.answers: Answers = SimpleQueue()

    def start(self, request: InferenceRequest) -> int:
        sent = addressed(request, self._model.name, self._model.version)
        sent.on_response = self._take
        key = id(sent)
        self._open[key] = _Open(sent, monotonic_ns())
        try:
            self._core.infer(sent)
        except TritonError as error:
            self._end(sent, error)
        return key

    def _take(self, request: InferenceRequest, response: InferenceResponse) -> None:
        held = self._open[id(request)]
        held.arrivals.append(Arrival(response, monotonic_ns() - held.sent))
        if response.final:
            self._end(request, None)

    def _end(self, request: InferenceRequest, refused: TritonError | None) -> None:
        held = self._open.pop(id(request))
        error = refused or first_error(held.arrivals)
        self.answers.put((id(request), Exchange(request, tuple(held.arrivals), error)))

    def cancel(self) -> None:
        for held in list(self._open.copy().values()):
            held.request.cancel()

    def close(self) -> None:
        pass


class RemoteSender:
    """A sender to a model of a server elsewhere, with a thread for each request in flight."""

    def __init__(self, model: RemoteModel, in_flight: int) -> None:
        self._model = model
        model.metadata()  # raises for a model that the server does not have
        try:
            policy = model.config().get("model_transaction_policy", {})
        except TritonError:  # a server without configurations
            policy = {}
        self._decoupled = bool(policy.get("decoupled"))
        if self._decoupled and isinstance(model.link, HttpLink):
            raise UnsupportedError("HTTP has one response for each request; use gRPC for a decoupled model")
        self._pool = ThreadPoolExecutor(in_flight, "replay")
        self.answers: Answers = SimpleQueue()

    def start(self, request: InferenceRequest) -> int:
        sent = addressed(request, self._model.name, self._model.version)
        self._pool.submit(self._send, sent)
        return id(sent)

    def _send(self, request: InferenceRequest) -> None:
        try:
            found = collect(request, self._model.link.send(request, self._decoupled))
        except Exception as error:  # an answer that cannot be read ends its request, not the replay
            found = Exchange(request, error=UnavailableError(f"the answer cannot be read: {error}"))
        self.answers.put((id(request), found))

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def open_sender(model: Model | RemoteModel, in_flight: int) -> Sender:
    """Return a sender to a model. Raises UnsupportedError for a decoupled model over HTTP, and TritonError for a model
    that does not serve."""
    if isinstance(model, RemoteModel):
        return RemoteSender(model, in_flight)
    model.serving_version()
    return LocalSender(model)


def play(
    requests: Iterable[Planned],
    sender: Sender,
    *,
    speed: float | None = 1.0,
    in_flight: int = 256,
    now: Callable[[], int] = monotonic_ns,
    stall: float = STALL_SECONDS,
) -> Generator[Replayed, None, None]:
    """Send requests in their order, each when it is due, and yield them as their answers come.

    A request of a sequence is sent after the answer to the one before it. A request that cannot be sent in time is sent
    late, and none is left out.

    Args:
        requests: the requests in order of arrival.
        sender: the way to send them.
        speed: the factor of the recorded pace; None sends without pauses.
        in_flight: the most requests without an answer.
        now: the clock, in nanoseconds.
        stall: seconds without any answer after which those in flight end with an error.
    """
    state = _Play(sender, now, stall)
    begin, first = now(), None
    try:
        for planned in requests:
            at = planned.captured.at_ns
            first = at if first is None else first
            due = begin if speed is None else begin + round((at - first) / speed)
            while (is_full := state.is_full(in_flight)) or (ahead := due - now()) > 0:
                if (found := state.wait(stall if is_full else ahead / 1e9, is_full)) is not None:
                    yield found
            state.take(planned, due if speed is not None else now())
            while (found := state.wait(0, False)) is not None:
                yield found
        while state.count:
            if (found := state.wait(stall, True)) is not None:
                yield found
    finally:
        sender.cancel()
        sender.close()


class _Play:
    """The requests of one replay that are in flight, or wait for the request before them in their sequence."""

    def __init__(self, sender: Sender, now: Callable[[], int], stall: float) -> None:
        self._sender = sender
        self._now = now
        self._stall = stall
        self._open: dict[int, tuple[Planned, int]] = {}
        self._waiting: dict[int | str, deque[tuple[Planned, int]]] = {}
        self._lost: deque[Replayed] = deque()
        #: the requests without an answer, sent or not, and their bytes with the recorded answers
        self.count = self._bytes = 0

    def is_full(self, in_flight: int) -> bool:
        return self.count >= in_flight or (self.count > 0 and self._bytes >= _MOST_BYTES)

    def take(self, planned: Planned, due: int) -> None:
        """Send a request, or keep it until the one before it in its sequence has its answer."""
        self.count += 1
        self._bytes += size_of(planned.captured)
        sequence = planned.captured.exchange.request.correlation_id
        if sequence and sequence in self._waiting:
            self._waiting[sequence].append((planned, due))
            return
        if sequence:
            self._waiting[sequence] = deque()
        self._send(planned, due)

    def _send(self, planned: Planned, due: int) -> None:
        behind = max(0, self._now() - due)
        key = self._sender.start(planned.captured.exchange.request)
        self._open[key] = planned, behind

    def wait(self, seconds: float, is_stall: bool) -> Replayed | None:
        """Return a request with its answer; None if none came within that time. `is_stall`: whether the requests in
        flight are then given up."""
        if not self._lost:
            try:
                key, exchange = self._sender.answers.get(block=seconds > 0, timeout=seconds or None)
            except Empty:
                if is_stall:
                    self._give_up()
                return None
            if key not in self._open:  # it was given up
                return None
            planned, behind = self._open.pop(key)
            self._next(planned)
            return self._end(Replayed(planned, exchange, behind))
        return self._end(self._lost.popleft())

    def _end(self, replayed: Replayed) -> Replayed:
        self.count -= 1
        self._bytes -= size_of(replayed.planned.captured)
        return replayed

    def _next(self, planned: Planned) -> None:
        sequence = planned.captured.exchange.request.correlation_id
        if not sequence:
            return
        if rest := self._waiting[sequence]:
            self._send(*rest.popleft())
        else:
            del self._waiting[sequence]

    def _give_up(self) -> None:
        error = UnavailableError(f"no answer within {self._stall:g} s")
        left = [*self._open.values(), *(each for rest in self._waiting.values() for each in rest)]
        self._lost.extend(
            Replayed(planned, Exchange(planned.captured.exchange.request, error=error), behind)
            for planned, behind in left
        )
        self._open.clear()
        self._waiting.clear()
        self._sender.cancel()
