"""`RunningCapture`, the capture of the requests of a server in this process."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from ...core.inference.infer_request import InferenceRequest, RequestState
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor
from ...core.observe.instrument import Instrument
from ...core.process_bound import ProcessBound
from ...core.status import NotFoundError, TritonError
from ...core.unknown_option import did_you_mean
from ...core.version import VERSION
from ...exchanges.exchange import Arrival, Exchange, first_error
from ...notebook.views.theme import stored_html
from ...server.api.model import Model
from ...server.api.server import Server
from .capture_file import CapturedRequest
from .capture_rules import CaptureRules
from .capture_writer import REQUEST_BYTES, CaptureReport, CaptureWriter

NO_ROOM = "no memory was left for requests in flight"
OPEN_AT_END = "not answered when the capture ended"
_GPU = "a tensor on a GPU could not be read"
#: Seconds for the rest of the file when the server or the process ends.
_END_SECONDS = 5.0


class _OpenRequest:
    """A captured request in flight, with copies of its tensors: a client may change its memory after the answer.

    inputs: None until a hook has copied them
    """

    def __init__(self, request: InferenceRequest, at_ns: int) -> None:
        self.settings = {"model_version": request.model_version, **request.settings()}
        self.inputs: dict[str, Tensor] | None = None
        self.at_ns = at_ns
        self.byte_size = 0
        self.begun = request.request_start
        self.arrivals: list[Arrival] = []


class RunningCapture(Instrument, ProcessBound):
    """A capture of the requests of clients of a server in this process. `stop()`, the end of a `with` block or of the
    server ends it; a cell shows how many requests it has.

    Requests that models and ensembles make are part of the answer, and not captured; nor are those that the server
    refuses before they are queued.
    """

    _elsewhere = "pickle its `report`"

    def __init__(
        self, server: Server, path: str | os.PathLike[str], models: Sequence[str], rules: CaptureRules
    ) -> None:
        """Begin to write to a new file. `models`: the only ones, all if empty. Raises as `CaptureWriter` does."""
        core = server.core
        self._find: Callable[..., Any] = core.find
        self._instruments, self._clock = core.instruments, core.clock
        self._models = frozenset(models)
        facts = {"source": "server", "server": f"tritonlab {VERSION}", "began": core.clock.wall() / 1e9}
        self._writer = CaptureWriter(path, {**facts, "models": sorted(models)}, rules)
        self._began = core.clock.now()
        self._lock = threading.Lock()  # guards the two fields below, and the requests
        self._open: dict[int, _OpenRequest | None] = {}
        self._open_bytes = 0
        self._instruments.add(self)
        atexit.register(self.stop, _END_SECONDS)

    def stop(self, seconds: float = 30.0) -> CaptureReport:
        """End the capture, write the rest within `seconds`, and return the report. Safe to call twice."""
        self._instruments.remove(self)
        with self._lock:
            count = sum(each is not None for each in self._open.values())
            self._open, self._open_bytes = {}, 0
        if count:
            self._writer.leave_out(OPEN_AT_END, count)
        atexit.unregister(self.stop)
        return self._writer.close(seconds)

    @property
    def report(self) -> CaptureReport:
        """The counts up to half a second ago."""
        return self._writer.report

    @property
    def is_running(self) -> bool:
        return any(each is self for each in self._instruments)

    def __enter__(self) -> RunningCapture:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def to_dict(self) -> dict[str, Any]:
        """Return the state and the report as JSON values."""
        return {"running": self.is_running, **self.report.to_dict()}

    def __repr__(self) -> str:
        state = "captures" if self.is_running else "has captured"
        return "\n".join([f"{state} {', '.join(sorted(self._models)) or 'all models'}", *self.report.lines()])

    def _repr_html_(self) -> str:
        first, *others = repr(self).split("\n")
        lines = "".join(f"<div class='{_tone(line)}'>{escape(line)}</div>" for line in others)
        return stored_html(f"<div class='tl-panel'><b>{escape(first)}</b>{lines}</div>")

    # -- hooks, on the server's threads

    def request_queued(self, request: InferenceRequest, now: int) -> None:
        self._find_or_open(request)

    def response_sent(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        opened = self._find_or_open(request)  # it is new if it is from the cache, or faster than `request_queued`
        if opened is None:
            return
        outputs = self._copies(request, response.outputs)
        if outputs is None:
            return
        copy = replace(response, outputs=outputs, parameters=dict(response.parameters))
        opened.arrivals.append(Arrival(copy, now - opened.begun))
        with self._lock:
            self._hold(opened, outputs)
        if response.final:
            self._drop(request)
            captured = InferenceRequest(request.model_name, opened.inputs or {}, **opened.settings)
            exchange = Exchange(captured, tuple(opened.arrivals), first_error(opened.arrivals))
            self._writer.add(CapturedRequest(exchange, opened.at_ns), opened.byte_size)

    def request_released(self, request: InferenceRequest, now: int) -> None:
        with self._lock:
            opened = self._open.pop(request.serial, None)
            self._open_bytes -= opened.byte_size if opened is not None else 0

    def server_stopped(self) -> None:
        self.stop(_END_SECONDS)

    def _is_ours(self, request: InferenceRequest) -> bool:
        """Return whether a request is a client's, to a captured model, and came after the capture began."""
        if request.made or request.null or not request.serial or request.request_start < self._began:
            return False
        return not self._models or request.model_name in self._models

    def _find_or_open(self, request: InferenceRequest) -> _OpenRequest | None:
        """Return a request with copies of its inputs; None if it is left out. Each request is chosen and counted once,
        by the hook that is called first; the other one may run at the same time."""
        if not self._is_ours(request):
            return None
        with self._lock:
            if request.serial in self._open:
                opened = self._open[request.serial]
            elif request.state is RequestState.RELEASED:
                return None  # it was answered before `request_queued`
            else:
                at_ns = request.request_start - self._began
                opened = _OpenRequest(request, at_ns) if self._writer.chooses(at_ns, request) else None
                self._open[request.serial] = opened
        if opened is None or opened.inputs is not None:
            return opened
        inputs: Mapping[str, Tensor] = request.inputs
        with contextlib.suppress(TritonError):  # it is being unloaded
            inputs = self._find(request.model_name, request.model_version).rules.as_sent(inputs)
        copies = self._copies(request, inputs)
        if copies is None:
            return None
        with self._lock:
            if opened.inputs is None and self._open.get(request.serial) is opened:
                opened.inputs = copies
                self._hold(opened, copies)
        return opened if opened.inputs is not None else None

    def _copies(self, request: InferenceRequest, tensors: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
        """Return copies in host memory; None, counted, if there is no room for them."""
        size = sum(tensor.byte_size for tensor in tensors.values())
        if self._open_bytes + size > self._writer.rules.queue_bytes:
            self._drop(request, NO_ROOM)
            return None
        try:
            return {name: _copy(tensor) for name, tensor in tensors.items()}
        except TritonError:
            self._drop(request, _GPU)
            return None

    def _hold(self, opened: _OpenRequest, tensors: Mapping[str, Tensor]) -> None:
        size = REQUEST_BYTES + sum(tensor.byte_size for tensor in tensors.values())
        opened.byte_size += size
        self._open_bytes += size

    def _drop(self, request: InferenceRequest, reason: str = "") -> None:
        """Free the memory of a request in flight, whose further responses are not captured, and count it as left out
        for a reason."""
        with self._lock:
            if (opened := self._open.get(request.serial)) is not None:
                self._open[request.serial] = None
                self._open_bytes -= opened.byte_size
                if reason:
                    self._writer.leave_out(reason)


def _copy(tensor: Tensor) -> Tensor:
    host = tensor.to_host()
    return Tensor(host.datatype, host.shape, host.data.copy() if host is tensor else host.data)


def _tone(line: str) -> str:
    return "tl-warn" if line.startswith("lost") else "tl-dim" if line.startswith("left out") else "tl-text"


def capture(
    server: Callable[[], Server],
    path: str | os.PathLike[str],
    models: Model | str | Sequence[Model | str] | None,
    rules: Mapping[str, Any],
) -> RunningCapture:
    """Do the work of `tritonlab.capture`."""
    given = [] if models is None else [models] if isinstance(models, (Model, str)) else list(models)
    names = [each if isinstance(each, str) else each.name for each in given]
    found = server()
    known = sorted({row["name"] for row in found.index()})
    for name in names:
        if name not in known:
            near = did_you_mean(name, known)
            raise NotFoundError(
                f"no model '{name}' to capture: {near or 'the server has ' + (', '.join(known) or 'none')}"
            )
    return RunningCapture(found, path, names, CaptureRules(**rules))
