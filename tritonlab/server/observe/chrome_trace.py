"""A Chrome trace of a server's events over a period, in a file for Perfetto (https://ui.perfetto.dev) and
chrome://tracing.

A model version is a process there. Its requests are spans with their time in the queue and their responses; each of its
instances is a lane with the executions, divided into marshalling and the model's own time. Batches (with the reason of
their end), states, log lines, custom metrics and the growth of shared memory are in it too.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core.clock import Clock
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor
from ...core.metrics.infer_stats import ExecuteTimes
from ...core.observe.instrument import Instrument, Instruments
from ...core.process_bound import ProcessBound
from ...core.whole_file import write_file
from ...ipc.processes.stub_log import LogRecord

#: The most events; beyond it the oldest are dropped.
MAX_EVENTS = 1_000_000
#: The lanes of a model besides those of its instances.
_REQUESTS, _BATCHES = "requests", "batches"


class ChromeTrace(ProcessBound, Instrument):
    """A trace from `start` to `stop`, or within a context, written to `path` at the end, if given."""

    _elsewhere = "write it to a file, which other processes can read"

    def __init__(self, instruments: Instruments, clock: Clock, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else None
        self._instruments = instruments
        self._clock = clock
        self._lock = threading.Lock()  # guards all fields below
        self._events: deque[dict[str, Any]] = deque(maxlen=MAX_EVENTS)
        self._names: list[dict[str, Any]] = []
        self._processes: dict[str, int] = {}
        self._lanes: dict[tuple[int, str], int] = {}
        #: requests that began during the trace, by serial
        self._open: set[int] = set()
        #: executions by instance and batch: model, start, requests; two versions of a model may have equal keys
        self._executing: dict[tuple[str, int], list[tuple[str, int, list[str]]]] = {}

    def start(self) -> ChromeTrace:
        """Begin to listen. Raises OSError if the file could not be written at the end."""
        if self.path is not None:
            self.path.touch()
        self._instruments.add(self)
        return self

    def stop(self) -> None:
        """Stop listening and write the file; safe to call twice. Raises OSError if the file cannot be written."""
        self._instruments.remove(self)
        if self.path is not None:
            self.save(self.path)

    def __enter__(self) -> ChromeTrace:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def events(self) -> list[dict[str, Any]]:
        """Return the events in the Trace Event Format: names of processes and lanes first, then the events in order."""
        with self._lock:
            return [*self._names, *sorted(self._events, key=lambda event: float(event["ts"]))]

    def save(self, path: str | Path) -> None:
        """Write the events so far."""
        text = json.dumps({"traceEvents": self.events(), "displayTimeUnit": "ms"}, ensure_ascii=False)
        write_file(path, text)

    def to_dict(self) -> dict[str, Any]:
        """Return the file, and the number of events, as JSON values."""
        return {"path": str(self.path) if self.path is not None else None, "events": len(self._events)}

    def __repr__(self) -> str:
        where = f" -> {self.path}" if self.path is not None else ""
        return f"<ChromeTrace {len(self._events)} events{where}>"

    # -- hooks

    def request_queued(self, request: InferenceRequest, now: int) -> None:
        self._begin(request)

    def batch_formed(
        self, model: str, version: int, requests: Sequence[InferenceRequest], size: int, reason: str, now: int
    ) -> None:
        args = {"size": size, "requests": [_name(request) for request in requests]}
        self._instant(model, lane=_BATCHES, name=reason, ns=now, args=args)

    def execute_started(self, instance: str, batch_id: int, requests: Sequence[InferenceRequest], now: int) -> None:
        real = [request for request in requests if not request.null]
        for request in real:
            self._begin(request)
            self._span(request, "b", "queue", request.queue_start)
            self._span(request, "e", "queue", now)
        model = requests[0].model_name
        with self._lock:
            execution = (model, now, [_name(request) for request in real])
            self._executing.setdefault((instance, batch_id), []).append(execution)

    def execute_finished(self, instance: str, batch_id: int, times: ExecuteTimes, now: int) -> None:
        with self._lock:
            waiting = self._executing.get((instance, batch_id))
            if not waiting:
                return  # it began before the trace
            model, started, requests = waiting.pop(0)
            if not waiting:
                del self._executing[instance, batch_id]
        self._slice(
            model,
            lane=instance,
            name=f"execute {batch_id}",
            ns=started,
            took=now - started,
            args={"requests": requests},
        )
        begin = started
        for name, took in (
            ("input", times.compute_input),
            ("infer", times.compute_infer),
            ("output", times.compute_output),
        ):
            self._slice(model, lane=instance, name=name, ns=begin, took=took, args={})
            begin += took

    def response_sent(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        self._begin(request)  # a request answered by the response cache was never queued
        error = {"error": response.error.message} if response.error is not None else {}
        args = {name: _brief(tensor) for name, tensor in response.outputs.items()}
        self._span(
            request,
            phase="n",
            name="final response" if response.final else "response",
            ns=now,
            args={**args, **error},
        )

    def request_released(self, request: InferenceRequest, now: int) -> None:
        with self._lock:
            known = request.serial in self._open
            self._open.discard(request.serial)
        if known:
            self._span(request, "e", _name(request), now)

    def model_state(self, model: str, version: int, state: str, reason: str, now: int) -> None:
        self._instant(
            model, lane=_REQUESTS, name=f"{state} version {version}", ns=now, args={"reason": reason} if reason else {}
        )

    def metric(self, name: str, labels: dict[str, str], value: float, now: int) -> None:
        label_text = ",".join(f"{key}={text}" for key, text in sorted(labels.items()))
        self._counter("custom metrics", f"{name}{{{label_text}}}" if label_text else name, now, {"value": value})

    def log(self, record: LogRecord) -> None:
        lane = record.instance or _REQUESTS
        # records carry wall-clock time; like everything else, a line is shown at the time of its arrival
        self._instant(
            model=record.model or "server",
            lane=lane,
            name=record.text,
            ns=self._clock.now(),
            args={"level": record.level},
        )

    def shm(self, instance: str, region: str, size: int, used: int, now: int) -> None:
        self._counter("shared memory", f"{instance} {region}", now, {"bytes": size})

    # -- events

    def _begin(self, request: InferenceRequest) -> None:
        with self._lock:
            known = request.serial in self._open
            self._open.add(request.serial)
        if not known:
            args = {name: _brief(tensor) for name, tensor in request.inputs.items()}
            self._span(request, phase="b", name=_name(request), ns=request.request_start, args=args)

    def _span(
        self, request: InferenceRequest, phase: str, name: str, ns: int, args: dict[str, Any] | None = None
    ) -> None:
        ident = {"cat": "request", "id": request.serial}
        self._add(request.model_name, _REQUESTS, {"ph": phase, "name": name, **ident, "args": args or {}}, ns)

    def _slice(self, model: str, lane: str, name: str, ns: int, took: int, args: dict[str, Any]) -> None:
        self._add(model, lane, {"ph": "X", "name": name, "cat": "execute", "dur": took / 1000, "args": args}, ns)

    def _instant(self, model: str, lane: str, name: str, ns: int, args: dict[str, Any]) -> None:
        self._add(model, lane, {"ph": "i", "s": "t", "name": name, "args": args}, ns)

    def _counter(self, process: str, name: str, ns: int, values: dict[str, float]) -> None:
        self._add(process, name, {"ph": "C", "name": name, "args": values}, ns)

    def _add(self, process: str, lane: str, event: dict[str, Any], ns: int) -> None:
        with self._lock:
            pid = self._processes.get(process)
            if pid is None:
                pid = self._processes[process] = len(self._processes) + 1
                self._names.append(_named("process_name", pid, 0, process))
            tid = self._lanes.get((pid, lane))
            if tid is None:
                tid = self._lanes[pid, lane] = len(self._lanes) + 1
                self._names.append(_named("thread_name", pid, tid, lane))
            self._events.append({**event, "pid": pid, "tid": tid, "ts": ns / 1000})


def _named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _name(request: InferenceRequest) -> str:
    return request.request_id or f"request {request.serial}"


def _brief(tensor: Tensor) -> str:
    """Describe a tensor without its values, which its repr has: they take time, and may be private."""
    return f"<Tensor {tensor.datatype.name} {list(tensor.shape)}>"
