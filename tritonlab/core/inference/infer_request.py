"""A client's request: its content (`RequestSpec`), and its way through the server (`InferenceRequest`)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from ..metrics.infer_stats import ExecuteTimes
from ..observe.trace import Trace
from ..plain_facts import plain
from .infer_response import InferenceResponse, ParameterValue
from .tensor import Tensor

SEQUENCE_START = 1
SEQUENCE_END = 2

#: the fields of a request besides model, inputs and callback
SETTINGS = ("request_id", "correlation_id", "flags", "priority", "timeout", "parameters", "requested_outputs")

ResponseCallback = Callable[["InferenceRequest", InferenceResponse], None]


class Leadable(Protocol):
    """A request whose response its waiting thread can read itself (`instances.execution.execution.AnswerLead`)."""

    def lead(self, done: Callable[[], bool], patient: bool = True) -> bool:
        """Read the stub's responses on the caller's thread until `done()`. Returns False if another thread already
        reads them. Without `patient` it also returns once polling no longer pays off.
        """
        ...


class RequestState(enum.IntEnum):  # ints hash in C: three look-ups per request
    INITIALIZED = 0
    PENDING = 1  # in a scheduler's queue
    EXECUTING = 2  # handed to a model instance
    RELEASED = 3  # the final response was delivered


class RequestEvent(enum.IntEnum):
    ENQUEUE = 0
    EXECUTE = 1
    RESCHEDULE = 2
    RELEASE = 3


#: Pairs of state and event; any other pair is a defect of the server and raises.
TRANSITIONS = {
    (RequestState.INITIALIZED, RequestEvent.ENQUEUE): RequestState.PENDING,
    (RequestState.INITIALIZED, RequestEvent.EXECUTE): RequestState.EXECUTING,
    (RequestState.INITIALIZED, RequestEvent.RELEASE): RequestState.RELEASED,
    (RequestState.PENDING, RequestEvent.EXECUTE): RequestState.EXECUTING,
    (RequestState.PENDING, RequestEvent.RELEASE): RequestState.RELEASED,
    (RequestState.EXECUTING, RequestEvent.RESCHEDULE): RequestState.PENDING,
    (RequestState.EXECUTING, RequestEvent.RELEASE): RequestState.RELEASED,
}


class RequestSpec:
    """The content of a request, set by its sender. The server's fields are in `InferenceRequest`, which sets these
    fields too: a second `__init__` would cost each request 0.3 us (measured 2026-11-24), and an object for the fields
    that only the engine uses 0.1 us (2026-11-29).
    """

    __slots__ = (
        "correlation_id",
        "flags",
        "inputs",
        "model_name",
        "model_version",
        "on_response",
        "parameters",
        "priority",
        "request_id",
        "requested_outputs",
        "timeout",
    )

    model_name: str
    #: -1: the latest version served
    model_version: int
    inputs: dict[str, Tensor]
    #: the names of the outputs to send; empty for all
    requested_outputs: Sequence[str]
    request_id: str
    #: the id of its sequence, a number or a text; 0 for none
    correlation_id: int | str
    #: SEQUENCE_START and SEQUENCE_END
    flags: int
    #: 0: the model's default
    priority: int
    #: in microseconds; 0 for none
    timeout: int
    parameters: dict[str, ParameterValue] | None
    #: called once per response, from any thread, the last one with `final`; it must not block
    on_response: ResponseCallback | None

    @property
    def prefix(self) -> str:
        """Return the text that Triton puts before most messages about a request (rule 5.4.1)."""
        return f"[request id: {self.request_id or '<id_unknown>'}] "

    def settings(self) -> dict[str, Any]:
        """Return the SETTINGS by name, as the constructor of `InferenceRequest` takes them, for another request."""
        return {name: getattr(self, name) for name in SETTINGS}

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        names = ("model_name", "model_version", "request_id", "correlation_id", "flags", "priority", "timeout")
        return {name: plain(getattr(self, name)) for name in (*names, "inputs", "parameters", "requested_outputs")}


class InferenceRequest(RequestSpec):
    """A client's request on its way through the server: its content and its state. It needs no lock: it has one owner
    at a time, and schedulers pass it on.

    Times are `Clock.now()` nanoseconds. The sender sets `on_response` before sending; code between client and model
    pushes its own callback (`push`).
    """

    __slots__ = (
        "_callbacks_below",
        "batch_size",
        "cancelled",
        "execute_start",
        "executor",
        "on_cancel",
        "queue_start",
        "reader",
        "request_start",
        "reserved_lead",
        "responded",
        "serial",
        "shape_key",
        "state",
        "trace",
        "waiting_thread",
    )

    #: True in a NullRequest
    null: ClassVar[bool] = False
    #: whether a model or an ensemble made it
    made: ClassVar[bool] = False
    #: whether outputs stay where the model left them, even on a device while all inputs are on the host
    _keeps_device: ClassVar[bool] = False

    def __init__(
        self,
        model_name: str,
        inputs: dict[str, Tensor],
        *,
        model_version: int = -1,
        request_id: str = "",
        correlation_id: int | str = 0,
        flags: int = 0,
        priority: int = 0,
        timeout: int = 0,
        requested_outputs: Sequence[str] = (),
        parameters: dict[str, ParameterValue] | None = None,
        on_response: ResponseCallback | None = None,
    ) -> None:
        self.model_name = model_name
        self.inputs = inputs
        self.model_version = model_version
        self.request_id = request_id
        self.correlation_id = correlation_id
        self.flags = flags
        self.priority = priority
        self.timeout = timeout
        self.requested_outputs = requested_outputs
        self.parameters = parameters
        self.on_response = on_response
        #: linked list of the callbacks below the pushed one: (callback, the rest of the list); None if none was pushed
        self._callbacks_below: tuple[ResponseCallback | None, Any] | None = None
        # -- set after sending, by the sender
        self.cancelled = False
        #: called by `cancel`: an ensemble's request cancels its steps with it
        self.on_cancel: Callable[[], None] | None = None
        # -- set once, by the server, or by the code that makes the request for another one
        self.serial = 0
        #: the trace of the request; None if it is not traced
        self.trace: Trace | None = None
        self.batch_size = 1
        #: the same object for all requests whose inputs have the same names and, per batch size, the same shapes; None
        #: if unknown
        self.shape_key: object = None
        # -- its state
        self.state = RequestState.INITIALIZED
        self.request_start = 0
        self.queue_start = 0
        self.execute_start = 0
        #: the time of the latest response that was not final
        self.responded = 0
        # -- the reader of its responses while it executes: the waiting caller may read the response itself
        self.executor: Leadable | None = None
        #: the id of the sending thread if that thread reads the response itself (`InferenceServer.infer_here`), else 0
        self.waiting_thread = 0
        #: the executor that reserved the response for that thread, until the thread calls `lead`
        self.reserved_lead: Leadable | None = None
        #: the event loop that waits for the answer and should read it (`ipc.link_reader.LoopReader`); None: any thread
        #: may
        self.reader: Any = None

    def advance(self, event: RequestEvent) -> None:
        """Move the request to its next state after `event`. Raises KeyError if the event is illegal in its state."""
        self.state = TRANSITIONS[self.state, event]

    def push(self, callback: ResponseCallback) -> ResponseCallback | None:
        """Send the responses to `callback` from now on. Returns the previous callback, to which it passes them on."""
        below = self.on_response
        self._callbacks_below = below, self._callbacks_below
        self.on_response = callback
        return below

    def pop(self) -> None:
        """Take out the callback that was pushed last."""
        assert self._callbacks_below is not None
        self.on_response, self._callbacks_below = self._callbacks_below

    def let_go(self) -> None:
        """Drop the callbacks after the last response. They mostly refer to the request, whose inputs would otherwise
        live until the garbage collector runs.
        """
        self.on_response = self._callbacks_below = None

    def respond(self, response: InferenceResponse) -> None:
        """Hand one response to the client; the final one releases the request. Called by `core.delivery`."""
        callback = self.on_response
        if response.final:
            self.state = TRANSITIONS[self.state, RequestEvent.RELEASE]
            self.on_response = self._callbacks_below = None  # This is `let_go`, inlined because a call costs time.
        if callback is not None:
            callback(self, response)

    def cancel(self) -> None:
        """Request cancellation: a queued request is dropped; its model must check `is_cancelled` (rule 3.10)."""
        self.cancelled = True
        if self.on_cancel is not None:
            self.on_cancel()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the request, and its state, as JSON values."""
        return {**super().to_dict(), "state": self.state.name, "batch_size": self.batch_size}

    def __repr__(self) -> str:
        state = f"{self.state.name.lower()} | batch {self.batch_size}"
        return f"<InferenceRequest {self.model_name} id={self.request_id!r} [{state}]>"


def place_outputs(
    request: InferenceRequest,
    outputs: dict[str, Tensor],
    to_host: Callable[[InferenceRequest, Tensor], Tensor],
) -> dict[str, Tensor]:
    """Return outputs, some of them in GPU memory, at the place for their sender: on the GPU if an input was sent there,
    else in host memory, copied by `to_host`. Raises InternalError.
    """
    if request._keeps_device or any(tensor.memory_type for tensor in request.inputs.values()):
        return outputs
    return {name: to_host(request, tensor) for name, tensor in outputs.items()}


class NullRequest(InferenceRequest):
    """The filler of an idle slot of a sequence batch (rule 5.6.7). The model sees it, but its response goes nowhere.

    All null requests share one serial number, so that none is looked up after its execution.
    """

    __slots__ = ()
    SERIAL: ClassVar[int] = 0  # the serial of every request until the server numbers it
    null = True


class ClientRequest(InferenceRequest):
    """The request of a client that may want outputs in its own GPU memory: they stay where the model left them."""

    __slots__ = ()
    _keeps_device = True


class ModelRequest(InferenceRequest):
    """A request that a model makes (BLS). `memory` is the preferred memory of its outputs, type (0 GPU, 1 CPU) and
    device; if None, they stay where the callee left them (rule 1.12.2). `caller` is the calling instance and the number
    of its execution, 0 outside of any.
    """

    __slots__ = ("caller", "memory")
    _keeps_device = True
    made = True
    memory: Sequence[int] | None
    caller: tuple[str, int]


class StepRequest(InferenceRequest):
    """The request of an ensemble to a composing model: its client's request with other inputs (rule 5.7.9).

    `on_executed` is called with the times of the execution, which also count for the ensemble. `step` is the step's
    number in the ensemble.
    """

    __slots__ = ("on_executed", "parent", "step")
    _keeps_device = True
    made = True

    def __init__(
        self,
        parent: InferenceRequest,
        model_name: str,
        model_version: int,
        inputs: dict[str, Tensor],
        requested_outputs: Sequence[str],
        on_response: ResponseCallback,
        on_executed: Callable[[ExecuteTimes], None],
        step: int = 0,
    ) -> None:
        super().__init__(
            model_name,
            inputs,
            model_version=model_version,
            request_id=parent.request_id,
            correlation_id=parent.correlation_id,
            flags=parent.flags,
            priority=parent.priority,
            timeout=parent.timeout,
            requested_outputs=requested_outputs,
            parameters=parent.parameters,
            on_response=on_response,
        )
        self.cancelled = parent.cancelled
        self.reader = parent.reader
        self.trace = parent.trace.child() if parent.trace is not None else None
        self.parent = parent
        self.on_executed = on_executed
        self.step = step
