"""One inference request: what the client asked, and how far it has come."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from .execute_times import ExecuteTimes
from .infer_response import InferenceResponse, ParameterValue
from .status import TritonError
from .tensor import Tensor
from .trace import Trace

SEQUENCE_START = 1
SEQUENCE_END = 2

ResponseCallback = Callable[["InferenceRequest", InferenceResponse], None]


class Leadable(Protocol):
    """What the executor of a request offers to who waits for it (`instances.answer_lead.AnswerLead`)."""

    def lead(self, done: Callable[[], bool], patient: bool = True) -> bool:
        """Lets the caller read the stub's answers until `done()`, or only while polling for them is worth it; False if
        another thread reads them already."""
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


#: Any pair that is not here is a defect of ours and raises.
TRANSITIONS = {
    (RequestState.INITIALIZED, RequestEvent.ENQUEUE): RequestState.PENDING,
    (RequestState.INITIALIZED, RequestEvent.EXECUTE): RequestState.EXECUTING,
    (RequestState.INITIALIZED, RequestEvent.RELEASE): RequestState.RELEASED,
    (RequestState.PENDING, RequestEvent.EXECUTE): RequestState.EXECUTING,
    (RequestState.PENDING, RequestEvent.RELEASE): RequestState.RELEASED,
    (RequestState.EXECUTING, RequestEvent.RESCHEDULE): RequestState.PENDING,
    (RequestState.EXECUTING, RequestEvent.RELEASE): RequestState.RELEASED,
}


class InferenceRequest:
    """Carries what a client asked on its way through the server. Slots, no locks: one owner at a time, handed on by the
    schedulers.

    `timeout` is in microseconds (0 = none), `priority` 0 means the model's default, `model_version` -1 the latest by
    policy.
    `correlation_id` is an int or a string. `requested_outputs` empty means all. Times are `Clock.now()` nanoseconds.
    `on_response` is called once per response, from any thread, the last one with `final`; it must not block. Who
    sends a request sets it before; who stands between the two pushes a callback of its own.
    """

    __slots__ = (
        "batch_size",
        "cancelled",
        "correlation_id",
        "execute_start",
        "executor",
        "flags",
        "inputs",
        "kept",
        "model_name",
        "model_version",
        "on_cancel",
        "on_response",
        "parameters",
        "priority",
        "queue_start",
        "request_id",
        "request_start",
        "requested_outputs",
        "responded",
        "serial",
        "state",
        "timeout",
        "trace",
        "waiter",
        "wrapped",
    )

    #: whether this is a NullRequest
    null: ClassVar[bool] = False

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
        #: what stood below the callbacks that were pushed: (callback, the same for those before), None without any
        self.wrapped: tuple[ResponseCallback | None, Any] | None = None
        self.batch_size = 1
        self.cancelled = False
        #: hears of `cancel`: an ensemble's request hands it on to its steps
        self.on_cancel: Callable[[], None] | None = None
        #: set where it is traced: by the server, or by who makes it for another request
        self.trace: Trace | None = None
        self.state = RequestState.INITIALIZED
        #: while it executes: lets the waiting caller read the answer itself
        self.executor: Leadable | None = None
        #: the thread that sends it, if that reads the answer itself next (`InferenceServer.infer_here`); else 0
        self.waiter = 0
        #: who has kept the answer for that thread, which is to lead then
        self.kept: Leadable | None = None
        self.serial = 0
        self.request_start = 0
        self.queue_start = 0
        self.execute_start = 0
        #: when the last response went out that was not the final one
        self.responded = 0

    def advance(self, event: RequestEvent) -> None:
        """Moves the life cycle on. Raises KeyError for a pair that is not in TRANSITIONS."""
        self.state = TRANSITIONS[self.state, event]

    @property
    def prefix(self) -> str:
        """What Triton puts before most of its messages about a request (rule 5.4.1)."""
        return f"[request id: {self.request_id or '<id_unknown>'}] "

    def push(self, callback: ResponseCallback) -> ResponseCallback | None:
        """Has the responses go to `callback`, which hands them on, as it likes, to what is returned."""
        below = self.on_response
        self.wrapped = below, self.wrapped
        self.on_response = callback
        return below

    def pop(self) -> None:
        """Takes out the callback that was pushed last."""
        assert self.wrapped is not None
        self.on_response, self.wrapped = self.wrapped

    def let_go(self) -> None:
        """No response comes (any more): callbacks mostly lead back to the request, which would stay with its inputs
        until the collector runs."""
        self.on_response = self.wrapped = None

    def respond(self, response: InferenceResponse) -> None:
        """Hands one response to the client; the final one releases the request. Called by `core.delivery`."""
        callback = self.on_response
        if response.final:
            self.state = TRANSITIONS[self.state, RequestEvent.RELEASE]
            self.on_response = self.wrapped = None  # as `let_go`; calls cost
        if callback is not None:
            callback(self, response)

    def respond_error(self, error: TritonError) -> None:
        """Ends the request with `error`."""
        self.respond(InferenceResponse(self.model_name, self.model_version, self.request_id, error=error, final=True))

    def cancel(self) -> None:
        """Asks for cancellation; queued requests are dropped, executing ones must look (rule 3.10)."""
        self.cancelled = True
        if self.on_cancel is not None:
            self.on_cancel()

    def __repr__(self) -> str:
        state = f"{self.state.name.lower()} | batch {self.batch_size}"
        return f"<InferenceRequest {self.model_name} id={self.request_id!r} [{state}]>"


class NullRequest(InferenceRequest):
    """Fills an idle slot of a sequence batch (rule 5.6.7): the model sees it, nobody gets its answer.

    All of them have one serial, so that nothing is left to look up when their execution is over.
    """

    __slots__ = ()
    SERIAL: ClassVar[int] = 0  # what a new request has until the server numbers it
    null = True


class StepRequest(InferenceRequest):
    """What an ensemble asks a composing model: the same as its client asked it, with other inputs (rule 5.7.9).

    `on_executed` gets the times of the execution, which count for the ensemble too.
    """

    __slots__ = ("on_executed", "parent")

    def __init__(
        self,
        parent: InferenceRequest,
        model_name: str,
        model_version: int,
        inputs: dict[str, Tensor],
        requested_outputs: Sequence[str],
        on_response: ResponseCallback,
        on_executed: Callable[[ExecuteTimes], None],
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
        self.trace = parent.trace.child() if parent.trace is not None else None
        self.parent = parent
        self.on_executed = on_executed
