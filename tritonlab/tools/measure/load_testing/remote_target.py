"""The target of load tests of a remote model.

It sends request after request over one HTTP connection for each client, or over one gRPC channel, and measures each;
`exchanges.remote` sends single requests.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

from ....core.inference.infer_request import InferenceRequest
from ....core.status import TritonError, UnsupportedError
from ....exchanges.remote.http_link import HttpLink
from ....exchanges.remote.remote_server import RemoteModel
from .call_log import CallLog
from .http_calls import Caller, EncodedBodies, HttpCaller
from .request_mix import Lane, ModelInputs, RequestMix
from .token_times import TokenStream

#: The most threads that send the requests of an open loop: so many can be under way at once, later requests wait.
_MOST_THREADS = 256

#: A request, and when it is due; 0: at once.
_Job = tuple[InferenceRequest, int]
_Open = dict[int, InferenceRequest]


class RemoteTarget:
    """A target with a thread for each request under way, like as many clients.

    Guarantees: a request is counted as outstanding from `start`, or from when its client sends it, to its end.
    """

    def __init__(self, model: RemoteModel) -> None:
        self._model, self._link = model, model.link
        self.place = f"{self._link.protocol} {self._link.address}"
        try:
            config: Mapping[str, Any] | None = model.config()
        except TritonError:  # a server that has none
            config = None
        self.inputs = ModelInputs(model.name, model.metadata(), config)
        if self.inputs.decoupled and isinstance(self._link, HttpLink):
            raise UnsupportedError("HTTP has one response for each request; use gRPC for a decoupled model")
        self.sees_outputs = not isinstance(self._link, HttpLink)
        self._log = CallLog()
        self._bodies = EncodedBodies(())
        self._callers: list[Caller] = []
        self._open: _Open = {}
        #: the jobs of an open loop: by lane for sequences, whose requests are sent one after the other
        self._queues: dict[int, SimpleQueue[_Job | None]] = {}
        self._threads = 0
        #: the errors of requests that could not be made or written, which end the test
        self._problems: list[BaseException] = []

    def statistics(self) -> Mapping[str, Any] | None:
        try:
            return self._model.statistics()
        except TritonError:
            return None

    def open(self, log: CallLog, mix: RequestMix) -> None:
        self._log, self._open, self._queues, self._threads, self._problems = log, {}, {}, 0, []
        self._bodies, self._callers = EncodedBodies(mix.fixed), []
        if not isinstance(self._link, HttpLink):
            from .grpc_calls import GrpcCalls

            self._callers = [GrpcCalls(self._link, self._bodies, self.inputs.decoupled, log.tokens is not None)]

    def _caller(self) -> Caller:
        """Return the caller of a further thread: over HTTP each has a connection, over gRPC all share one channel."""
        if isinstance(self._link, HttpLink):
            self._callers.append(HttpCaller(self._link, self._bodies))
        return self._callers[-1]

    def keep(self, lanes: Sequence[Lane], mix: RequestMix, halt: threading.Event) -> None:
        for thread in [self._client(self._until_halted(lane, mix, halt)) for lane in lanes]:
            thread.join()
        self._raise_problem()

    def _until_halted(self, lane: Lane, mix: RequestMix, halt: threading.Event) -> Iterator[_Job]:
        while not (halt.is_set() or self._problems):
            request = mix.request(lane)
            self._open[id(request)] = request
            yield request, 0
        if (last := mix.last(lane)) is not None:
            yield last, 0

    def _client(self, jobs: Iterable[_Job]) -> threading.Thread:
        """Return a running thread that sends requests, one after the other, and logs them."""
        arguments = (jobs, self._caller(), self._log, self._open, self._problems)
        thread = threading.Thread(target=_work, args=arguments, name="load test client", daemon=True)
        self._threads += 1
        thread.start()
        return thread

    def _raise_problem(self) -> None:
        if self._problems:
            raise self._problems[0]

    def start(self, request: InferenceRequest, due: int, lane: Lane) -> None:
        self._raise_problem()
        self._open[id(request)] = request
        number = lane.number if self.inputs.sequences else 0
        jobs = self._queues.get(number)
        if jobs is None:
            jobs = self._queues[number] = SimpleQueue()
            self._client(iter(jobs.get, None))
        elif not self.inputs.sequences and self._threads < min(len(self._open), _MOST_THREADS):
            self._client(iter(jobs.get, None))
        jobs.put((request, due))

    def outstanding(self) -> int:
        return len(self._open)

    def in_progress(self) -> int:
        return min(len(self._open), self._threads)

    def abandon(self) -> int:
        left = len(self._open)
        for jobs in self._queues.values():
            for _ in range(self._threads):
                jobs.put(None)
        for caller in self._callers:
            caller.close()
        self._raise_problem()
        return left


def _work(jobs: Iterable[_Job], caller: Caller, log: CallLog, under_way: _Open, problems: list[BaseException]) -> None:
    try:
        for request, due in jobs:
            stream = TokenStream(log.tokens) if log.tokens is not None else None
            try:
                *times, text = caller.call(request, stream)
            finally:
                under_way.pop(id(request), None)
            error = log.error_number(text) if text else 0
            if stream is not None and not error:
                stream.end(due or times[0], times[2])
            log.add((due or times[0], *times, error, request.batch_size))
    except BaseException as problem:  # for example of a function that makes inputs
        problems.append(problem)
    finally:
        caller.release()
