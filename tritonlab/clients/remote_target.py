"""The target of load tests of a model of a server elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from typing import Any

from ..core.inference.infer_request import InferenceRequest
from ..core.status import TritonError, UnsupportedError
from ..load_testing.call_log import CallLog
from ..load_testing.request_mix import Lane, ModelInputs, RequestMix
from .grpc_link import GrpcLink
from .http_link import HttpLink
from .load_calls import Caller, CallLink, EncodedBodies, GrpcCalls, HttpCalls

#: The most threads that send the requests of an open loop: so many can be under way at once, later ones wait.
_MOST_THREADS = 256

_Job = tuple[InferenceRequest, int]


class RemoteTarget:
    """A target with a thread for each request that is under way at once, as there are as many clients.

    Guarantees: a request is counted as outstanding from `start`, or from when its client sends it, to its end.
    """

    def __init__(self, link: HttpLink | GrpcLink, name: str, version: str) -> None:
        self._link, self._name, self._version = link, name, version
        self.place = f"{link.protocol} {link.address}"
        try:
            config: Mapping[str, Any] | None = link.config(name, version)
        except TritonError:  # a server that has none
            config = None
        self.inputs = ModelInputs(name, link.metadata(name, version), config)
        if self.inputs.decoupled and isinstance(link, HttpLink):
            raise UnsupportedError("HTTP has one response for each request; use gRPC for a decoupled model")
        self._log = CallLog()
        self._bodies = EncodedBodies(())
        self._calls: CallLink | None = None
        self._open: dict[int, InferenceRequest] = {}
        #: the jobs of an open loop: by lane in sequences, whose requests go one after the other
        self._queues: dict[int, SimpleQueue[_Job | None]] = {}
        self._threads = 0

    def statistics(self) -> Mapping[str, Any] | None:
        try:
            return self._link.statistics(self._name, self._version)
        except TritonError:
            return None

    def open(self, log: CallLog, mix: RequestMix) -> None:
        self._log, self._open, self._queues, self._threads = log, {}, {}, 0
        bodies = EncodedBodies(mix.fixed)
        if isinstance(self._link, HttpLink):
            self._calls = HttpCalls(self._link, bodies)
        else:
            self._calls = GrpcCalls(self._link, bodies, self.inputs.decoupled)

    def keep(self, lanes: Sequence[Lane], mix: RequestMix, halt: threading.Event) -> None:
        assert self._calls is not None
        problems: list[BaseException] = []
        threads = [
            threading.Thread(
                target=self._client, args=(lane, mix, halt, self._calls.caller(), problems), name="client", daemon=True
            )
            for lane in lanes
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if problems:
            raise problems[0]

    def _client(
        self, lane: Lane, mix: RequestMix, halt: threading.Event, caller: Caller, problems: list[BaseException]
    ) -> None:
        log, under_way = self._log, self._open
        try:
            while not halt.is_set():
                request = mix.request(lane)
                under_way[id(request)] = request
                _call(caller, request, due=0, log=log, under_way=under_way)
            if (last := mix.last(lane)) is not None:
                _call(caller, request=last, due=0, log=log, under_way=under_way)
        except BaseException as problem:  # a function that makes inputs raised
            problems.append(problem)
            halt.set()

    def start(self, request: InferenceRequest, due: int, lane: Lane) -> None:
        self._open[id(request)] = request
        number = lane.number if self.inputs.sequences else 0
        jobs = self._queues.get(number)
        if jobs is None:
            jobs = self._queues[number] = SimpleQueue()
            self._worker(jobs)
        elif not self.inputs.sequences and self._threads < min(len(self._open), _MOST_THREADS):
            self._worker(jobs)
        jobs.put((request, due))

    def _worker(self, jobs: SimpleQueue[_Job | None]) -> None:
        assert self._calls is not None
        self._threads += 1
        arguments = (jobs, self._calls.caller(), self._log, self._open)
        threading.Thread(target=_work, args=arguments, name="load test client", daemon=True).start()

    def outstanding(self) -> int:
        return len(self._open)

    def abandon(self) -> int:
        left = len(self._open)
        for jobs in self._queues.values():
            for _ in range(self._threads):
                jobs.put(None)
        if self._calls is not None:
            self._calls.close()
        return left


def _work(jobs: SimpleQueue[_Job | None], caller: Caller, log: CallLog, under_way: dict[int, InferenceRequest]) -> None:
    while (job := jobs.get()) is not None:
        _call(caller, *job, log, under_way)


def _call(
    caller: Caller, request: InferenceRequest, due: int, log: CallLog, under_way: dict[int, InferenceRequest]
) -> None:
    found = caller.call(request)
    error = log.error_number(found.error) if found.error else 0
    under_way.pop(id(request), None)
    log.add(
        (
            due or found.sent,
            *(found.sent, found.first, found.done, found.send, found.receive, found.responses),
            *(error, request.batch_size),
        )
    )
