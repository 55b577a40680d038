"""`Trace`, the record of one request, and `TraceTree`, the traces of a request and of the requests made for it. They
become the entries of Triton's trace file (rule 5.14.4).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from ..inference.data_type import DataType
from ..inference.infer_response import InferenceResponse
from ..inference.tensor import Tensor
from ..metrics.infer_stats import ExecuteTimes
from .trace_settings import TraceSetting

Entry = dict[str, Any]


class Traced(Protocol):
    """The fields of a request that are read for its trace (`infer_request.InferenceRequest`)."""

    model_name: str
    request_id: str
    inputs: dict[str, Tensor]
    request_start: int
    queue_start: int
    execute_start: int


class Trace:
    """The record of one request, through the tracer's hooks. A request has one owner at a time, so only its end needs a
    lock.

    `context` is, in mode opentelemetry, the JSON text of the headers that continue the trace (rule 1.11.1).
    """

    __slots__ = (
        "_executions",
        "_head",
        "_inputs",
        "_outputs",
        "_running",
        "_span",
        "_stamps",
        "_version",
        "context",
        "ident",
        "parent_id",
        "tree",
    )

    def __init__(self, tree: TraceTree, ident: int, parent_id: int, context: str | None) -> None:
        self.tree = tree
        self.ident = ident
        self.parent_id = parent_id
        self.context = context
        self._head: Entry = {}
        self._version = -1
        self._span = (0, 0)
        #: for each execution: when it was queued, when it started, and its times once it has ended
        self._executions: list[tuple[int, int, ExecuteTimes | None]] = []
        self._inputs: list[Entry] = []
        self._outputs: list[Entry] = []
        #: times that a frontend stamped: name, nanoseconds
        self._stamps: list[tuple[str, int]] = []
        #: how many parts are still open: the request, its executions, the frontend that sends its responses
        self._running = 1

    def child(self) -> Trace:
        """Make the trace of a request made by this request's model or ensemble."""
        return self.tree.new(self)

    def wire(self) -> list[Any]:
        """Return the form for the stub, which returns it when a request has this trace as its parent."""
        return [self.ident, self.context]

    # -- the events of the request, in their order

    def hold(self) -> None:
        """Keep the trace open until one more call of `release`: a frontend still has to stamp its response's time."""
        with self.tree.lock:
            self._running += 1

    def stamp(self, name: str, ns: int) -> None:
        """Add a time of a frontend: `HTTP_RECV_START`, `GRPC_SEND_END`. `ns`: nanoseconds."""
        self._stamps.append((name, ns))

    def take(self, request: Traced) -> None:
        """Note that an execution starts."""
        self.tree.join(self)
        with self.tree.lock:
            self._running += 1
        self._executions.append((request.queue_start, request.execute_start, None))
        if len(self._executions) == 1:
            self._queued(request)

    def _queued(self, request: Traced) -> None:
        if "TENSORS" in self.tree.setting.level:
            self._inputs = self._tensors("TENSOR_QUEUE_INPUT", request.inputs)

    def executed(self, times: ExecuteTimes) -> None:
        """Note that the execution that was taken last has ended."""
        queued, started, _ = self._executions[-1]
        self._executions[-1] = queued, started, times
        self.release()

    def answered(self, response: InferenceResponse) -> None:
        """Note that a response is sent."""
        self._version = response.model_version
        if "TENSORS" in self.tree.setting.level:
            self._outputs += self._tensors("TENSOR_BACKEND_OUTPUT", response.outputs)

    def ended(self, request: Traced, now: int) -> None:
        """Note that the request has its final response."""
        self.tree.join(self)
        if not self._executions:  # part of an ensemble, never out of the queue, or answered from the response cache
            self._executions.append((request.queue_start or request.request_start, 0, None))
            self._queued(request)
        self._span = request.request_start, now
        self._head = {"model_name": request.model_name, "model_version": self._version}
        if request.request_id:
            self._head["request_id"] = request.request_id
        if self.parent_id:
            self._head["parent_id"] = self.parent_id
        self.release()

    def release(self) -> None:
        with self.tree.lock:
            self._running -= 1
            ended = self._running == 0
        if ended:
            self.tree.leave(self)

    # -- the entries of the file

    def entries(self) -> list[Entry]:
        """Return the entries in Triton's order: the frontend's first receipt first, its last response last."""
        level = self.tree.setting.level
        begin, end = self._span
        found: list[Entry] = []
        if "TIMESTAMPS" in level:
            found += [_timestamp(name, ns) for name, ns in self._stamps if "_RECV_" in name]
            found += [self._head, _timestamp("REQUEST_START", begin)]
            found += [_timestamp("QUEUE_START", queued) for queued, _, _ in self._executions[:1]]
        found += [*self._inputs, *self._outputs]
        if "TIMESTAMPS" in level:
            for number, (queued, started, times) in enumerate(self._executions):
                found += [_timestamp("QUEUE_START", queued)] if number else []
                found += _computing(started, times) if times is not None else []
            found += [_timestamp("REQUEST_END", end)]
            found += [_timestamp(name, ns) for name, ns in self._stamps if "_RECV_" not in name]
        return [{"id": self.ident, **entry} for entry in found]

    @staticmethod
    def _tensors(activity: str, tensors: Mapping[str, Tensor]) -> list[Entry]:
        return [{"activity": activity, "tensor": _tensor(name, tensor)} for name, tensor in tensors.items()]


class TraceTree:
    """A client's request and all requests made for it, which are counted and written as one trace."""

    def __init__(
        self,
        setting: TraceSetting,
        new: Callable[[TraceTree, Trace | None], Trace],
        on_join: Callable[[Trace], None],
        on_leave: Callable[[Trace], None],
    ) -> None:
        """`new(tree, parent)` makes a trace. `on_join` is called after a trace's first hook, `on_leave` at its end."""
        self.setting = setting
        self.lock = threading.Lock()  # guards all fields below, and the number of open parts of each trace
        self.open: set[Trace] = set()
        self.done: list[Trace] = []
        self._new = new
        self._on_join = on_join
        self._on_leave = on_leave

    def new(self, parent: Trace | None) -> Trace:
        return self._new(self, parent)

    def join(self, trace: Trace) -> None:
        """Add the trace. Its first hook calls it, so that a request refused earlier has no trace, as on Triton."""
        with self.lock:
            if trace in self.open:
                return
            self.open.add(trace)
        self._on_join(trace)

    def leave(self, trace: Trace) -> None:
        with self.lock:
            self.open.discard(trace)
            self.done.append(trace)
        self._on_leave(trace)

    def finished(self) -> list[Trace]:
        """Return and forget all traces once none is open, newest first, as Triton writes them."""
        with self.lock:
            if self.open:
                return []
            done, self.done = self.done, []
        return sorted(done, key=lambda trace: -trace.ident)


def _timestamp(name: str, ns: int) -> Entry:
    return {"timestamps": [{"name": name, "ns": ns}]}


def _computing(started: int, times: ExecuteTimes) -> list[Entry]:
    input_end = started + times.compute_input
    output_start = input_end + times.compute_infer
    return [
        _timestamp("COMPUTE_START", started),
        _timestamp("COMPUTE_INPUT_END", input_end),
        _timestamp("COMPUTE_OUTPUT_START", output_start),
        _timestamp("COMPUTE_END", output_start + times.compute_output),
    ]


def _tensor(name: str, tensor: Tensor) -> Entry:
    return {
        "name": name,
        "data": ",".join(_values(tensor)),
        "shape": ",".join(map(str, tensor.shape)),
        "dtype": tensor.datatype.name,
    }


def _values(tensor: Tensor) -> list[str]:
    """Return the elements as a C++ stream prints them, with three differences on purpose: bytes are numbers (Triton
    prints them raw), quotes in strings are escaped (they break Triton's JSON), and FP16 and BF16 are printed (Triton
    leaves them out)."""
    tensor = tensor.to_host()
    if tensor.datatype is DataType.BF16:
        array = (tensor.data.reshape(-1).astype(np.uint32) << 16).view(np.float32)
    else:
        array = tensor.numpy().reshape(-1)
    if tensor.datatype is DataType.BYTES:
        return ['"' + element.decode("utf-8", "backslashreplace") + '"' for element in array]
    if array.dtype.kind == "f":
        return [f"{value:g}" for value in array.tolist()]
    return [str(int(value)) for value in array.tolist()]
