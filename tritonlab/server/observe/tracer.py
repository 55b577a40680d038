"""Traces of clients' requests by the trace settings, in Triton's trace file (rule 5.14.4).

While nothing is traced a request pays nothing: the server checks requests, and the tracer listens to its hooks, only
while the settings may select some of them.
"""

from __future__ import annotations

import itertools
import json
import secrets
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path

from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.metrics.infer_stats import ExecuteTimes
from ...core.observe.instrument import Instrument, Instruments
from ...core.observe.trace import Trace, TraceTree
from ...core.observe.trace_settings import TraceSettings

#: The most characters kept in memory for a file without log frequency.
_KEPT = 1 << 20


class Reception:
    """A frontend's record of a request, begun before the request exists and kept until its answer was sent.

    `context`: the headers that continue the client's own trace in mode opentelemetry, as JSON text.
    """

    def __init__(self, context: str | None = None) -> None:
        self.context = context
        self.trace: Trace | None = None
        self._early: list[tuple[str, int]] = []

    def stamp(self, name: str, ns: int) -> None:
        """Note the time of an event such as `HTTP_RECV_END`. `ns`: nanoseconds."""
        if self.trace is not None:
            self.trace.stamp(name, ns)
        else:
            self._early.append((name, ns))

    def begin(self, trace: Trace) -> None:
        """Note that the request is traced; its trace waits for `end`."""
        self.trace = trace
        trace.hold()
        for name, ns in self._early:
            trace.stamp(name, ns)

    def end(self) -> None:
        """End the trace of a request whose answer was sent, or never will be."""
        if self.trace is not None:
            self.trace.release()


#: The reception of the request that a frontend makes in this context; read only while requests are traced.
RECEPTION: ContextVar[Reception | None] = ContextVar("RECEPTION", default=None)


class Tracer(Instrument):
    """The tracer of requests. Any thread may call any method; hooks come on the server's threads."""

    def __init__(self, settings: TraceSettings, instruments: Instruments, say: Callable[[str, str], None]) -> None:
        """Make a tracer that listens to nothing yet. `say(level, text)` writes to the server's log."""
        self._settings = settings
        self._instruments = instruments
        self._say = say
        #: whether clients' requests are checked; only then receptions are needed
        self.active = False
        self._ids = itertools.count(1)
        self._refreshing = threading.Lock()  # one change of the settings at a time
        self._lock = threading.Lock()  # guards all fields below
        self._listening = False
        self._warned = False
        #: traces sampled, and not yet written or dropped
        self._trees: set[TraceTree] = set()
        self._live: dict[int, Trace] = {}
        #: executions by instance name and batch; two versions of a model may have equal keys
        self._executing: dict[tuple[str, int], list[list[Trace]]] = {}
        self._files: dict[str, TraceFile] = {}

    def refresh(self) -> None:
        """Update whether clients' requests must be checked; called after a change of the settings."""
        with self._refreshing:
            active = self._settings.active()
            with self._lock:
                self.active = active
                self._listen(active)
            self.flush()
            if active and not self._warned and self._settings.get()["trace_mode"] == ["opentelemetry"]:
                self._warned = True
                self._say(
                    "WARNING",
                    "trace mode opentelemetry: models and the requests they make get the context of their trace, but "
                    "no span is sent anywhere; mode triton writes a file",
                )

    def _listen(self, active: bool) -> None:
        """Listen to hooks while requests may be traced, or traced ones are open. The caller holds the lock."""
        wanted = active or bool(self._trees)
        if wanted != self._listening:
            self._listening = wanted
            (self._instruments.add if wanted else self._instruments.remove)(self)

    def begin(self, request: InferenceRequest) -> Trace | None:
        """Trace a client's request if the settings select it, or if the client traces it in mode opentelemetry."""
        reception = RECEPTION.get()
        context = reception.context if reception is not None else None
        setting = self._settings.sample(request.model_name, forced=context is not None)
        if setting is None:
            return None
        tree = TraceTree(setting, self._new, self._on_join, self._on_leave)
        with self._lock:
            self._trees.add(tree)
            self._listen(True)
        request.trace = tree.new(None)
        if context is not None and setting.mode == "opentelemetry":
            request.trace.context = _continued(context)
        if reception is not None and reception.trace is None:
            reception.begin(request.trace)
        return request.trace

    def forget(self, trace: Trace) -> None:
        """Drop a trace: it is written, or its request was refused, of which Triton writes nothing."""
        with self._lock:
            self._trees.discard(trace.tree)
            self._listen(self._settings.active())

    def adopt(self, request: InferenceRequest, parent: int) -> None:
        """Trace a model's request as part of the trace of its caller; it is ignored if that trace has ended."""
        with self._lock:
            trace = self._live.get(parent)
        if trace is not None:
            request.trace = trace.child()

    def _new(self, tree: TraceTree, parent: Trace | None) -> Trace:
        context = None
        if tree.setting.mode == "opentelemetry":
            context = _continued(parent.context if parent is not None else None)
        return Trace(tree, next(self._ids), parent.ident if parent is not None else 0, context)

    # -- hooks

    def execute_started(self, instance: str, batch_id: int, requests: Sequence[InferenceRequest], now: int) -> None:
        traces = []
        for request in requests:
            if request.trace is not None:
                request.trace.take(request)
                traces.append(request.trace)
        if traces:
            with self._lock:
                self._executing.setdefault((instance, batch_id), []).append(traces)

    def execute_finished(self, instance: str, batch_id: int, times: ExecuteTimes, now: int) -> None:
        with self._lock:
            waiting = self._executing.get((instance, batch_id))
            if not waiting:
                return
            traces = waiting.pop(0)
            if not waiting:
                del self._executing[instance, batch_id]
        for trace in traces:
            trace.executed(times)

    def response_sent(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        if request.trace is not None:
            request.trace.answered(response)

    def request_released(self, request: InferenceRequest, now: int) -> None:
        if request.trace is not None:
            request.trace.ended(request, now)

    # -- ends

    def _on_join(self, trace: Trace) -> None:
        with self._lock:
            self._live[trace.ident] = trace

    def _on_leave(self, trace: Trace) -> None:
        with self._lock:
            self._live.pop(trace.ident, None)
        traces = trace.tree.finished()
        if not traces:
            return
        setting = trace.tree.setting
        if setting.mode == "triton":
            entries = [entry for each in traces for entry in each.entries()]
            text = ",".join(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) for entry in entries)
            with self._lock:
                file = self._files.setdefault(setting.file, TraceFile(setting.file))
            self._write(lambda: file.add(text, setting.log_frequency))
        self.forget(trace)

    def _write(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._say("ERROR", f"the trace file cannot be written: {error}")

    def flush(self) -> None:
        """Write the waiting traces."""
        with self._lock:
            files = list(self._files.values())
        for file in files:
            self._write(file.flush)


class TraceFile:
    """A JSON array of entries: in one file, or, with a log frequency, in numbered files of that many traces each."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._lock = threading.RLock()  # guards all fields below, and the files
        self._waiting: list[str] = []
        self._frequency = 0
        self._number = 0
        self._begun = False

    def add(self, text: str, frequency: int) -> None:
        """Write one trace, as JSON objects with commas between them."""
        with self._lock:
            self._waiting.append(text)
            self._frequency = frequency
            if (len(self._waiting) >= frequency) if frequency else (sum(map(len, self._waiting)) > _KEPT):
                self.flush()

    def flush(self) -> None:
        """Write the waiting traces."""
        with self._lock:
            waiting, self._waiting = ",".join(self._waiting), []
            if not waiting:
                return
            if self._frequency:
                number, self._number = self._number, self._number + 1
                Path(f"{self._path}.{number}").write_text(f"[{waiting}]", encoding="utf-8")
            elif not self._begun:
                self._path.write_text(f"[{waiting}]", encoding="utf-8")
                self._begun = True
            else:
                with self._path.open("r+b") as file:  # valid JSON between two writes, unlike Triton's
                    file.seek(-1, 2)
                    file.write(f",{waiting}]".encode())


def _continued(context: str | None) -> str:
    """Return the headers of a new span in the trace of `context`, or in a new trace (W3C Trace Context)."""
    try:
        trace_id = str(json.loads(context or "{}")["traceparent"]).split("-")[1]
    except (ValueError, KeyError, IndexError, TypeError):
        trace_id = secrets.token_hex(16)
    return json.dumps({"traceparent": f"00-{trace_id}-{secrets.token_hex(8)}-01"}, separators=(",", ":"))
