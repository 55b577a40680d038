"""Requests sent to any one server, and its answers: alone, together and as streams."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ....core.status import TritonError
from ....exchanges.exchange import Exchange, collect
from ....exchanges.remote.grpc_link import GrpcLink
from ....exchanges.remote.http_link import HttpLink
from ....exchanges.remote.transport import Transport
from ..child_command import Say, raise_if_cancelled
from .judge_server import JudgeServer

#: The ways to send a request.
ALONE, TOGETHER, STREAM = "alone", "together", "as a stream"
_REQUEST_SECONDS = 30.0
#: Each case is sent so many times at once, so that batches form.
_AT_ONCE = 4
_LATENCY_REQUESTS = 20


@dataclass
class ModelAnswers:
    """The answers of one server for a model. `problem`: why it was not loaded; `not_judged`: why that proves nothing;
    `answers`: by way and case."""

    name: str
    problem: str = ""
    not_judged: str = ""
    load_seconds: float = 0.0
    ready: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    answers: dict[tuple[str, str], list[Exchange]] = field(default_factory=dict)
    latencies_ms: list[float] = field(default_factory=list)

    @property
    def is_answered(self) -> bool:
        """Return whether one of its requests was answered without an error."""
        return any(one.error is None for sent in self.answers.values() for one in sent)


@dataclass
class RequestReplay:
    """The requests that each server is sent. `load_seconds`: the most for the load of a model."""

    names: list[str]
    cases: list[Exchange]
    load_seconds: float
    say: Say
    cancel: threading.Event

    def replay(self, server: JudgeServer, refused: Mapping[str, str]) -> dict[str, ModelAnswers]:
        """Load the models and send them the requests. `refused`: models that are not tried, each with its problem.
        Raises Cancelled, or CommandFailed if the server died."""
        found = {name: ModelAnswers(name, refused.get(name, "")) for name in self.names}
        for last in (False, True):  # a model may call another one in `initialize`, so that one is loaded then
            for name in (each for each in self.names if each not in refused):
                if last and (not found[name].problem or found[name].load_seconds >= self.load_seconds):
                    continue  # a model that did not load in time is not tried again: some releases wait for minutes
                raise_if_cancelled(self.cancel)
                begun = time.monotonic()
                found[name].problem = server.load(name, self.load_seconds)
                found[name].load_seconds = time.monotonic() - begun
                if not server.running:
                    return found
        http = HttpLink(Transport(server.http, timeout=_REQUEST_SECONDS))
        grpc = GrpcLink(Transport(server.grpc, timeout=_REQUEST_SECONDS))
        try:
            for name in self.names:
                model, own = found[name], [case for case in self.cases if case.model == name and not case.unsent]
                if model.problem:
                    continue
                self.say(f"  {name}: {len(own)} requests")
                try:
                    model.metadata, model.config = http.metadata(name, ""), http.config(name, "")
                    model.ready = server.is_ready(name)
                    self._ask(model, own, http, grpc)
                except TritonError as error:
                    model.problem = f"it does not answer: {error}"
                if not server.running:
                    break
        finally:
            grpc.close()
        return found

    def _ask(self, model: ModelAnswers, cases: Sequence[Exchange], http: HttpLink, grpc: GrpcLink) -> None:
        decoupled = bool(model.config.get("model_transaction_policy", {}).get("decoupled"))
        alone: HttpLink | GrpcLink = grpc if decoupled else http
        for case in cases:
            raise_if_cancelled(self.cancel)
            model.answers[ALONE, case.name] = [_send(alone, case, decoupled)]
        for case in cases:
            if case.request.correlation_id:  # a sequence depends on its order
                continue
            raise_if_cancelled(self.cancel)
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                sent = [pool.submit(_send, grpc, case, decoupled) for _ in range(_AT_ONCE)]
                model.answers[TOGETHER, case.name] = [each.result() for each in sent]
            if not decoupled:
                model.answers[STREAM, case.name] = [_send(grpc, case, True)]
        model.latencies_ms = self._latencies(model, cases, alone, decoupled)

    def _latencies(
        self, model: ModelAnswers, cases: Sequence[Exchange], link: HttpLink | GrpcLink, decoupled: bool
    ) -> list[float]:
        """Return the times of the first answered request, sent repeatedly, in milliseconds; none if no request was
        answered."""
        good = [
            case
            for case in cases
            if not case.request.correlation_id
            and all(outcome.error is None for outcome in model.answers.get((ALONE, case.name), ()))
        ]
        if not good:
            return []
        times = []
        for _ in range(_LATENCY_REQUESTS):
            raise_if_cancelled(self.cancel)
            begun = time.monotonic()
            _send(link, good[0], decoupled)
            times.append((time.monotonic() - begun) * 1e3)
        return times


def _send(link: HttpLink | GrpcLink, case: Exchange, decoupled: bool) -> Exchange:
    request = case.again()
    return collect(request, link.send(request, decoupled), to_error=True)
