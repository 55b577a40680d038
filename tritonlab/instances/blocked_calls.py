"""Which instance's `execute` is blocked in which BLS calls, and which call is refused because it would wait for itself.

The stub says whether its `execute` waits for a call (`ipc_message.py`, INFER); nothing else is taken for blocked. Calls
from other threads, awaitables nobody awaits and decoupled models whose `execute` has returned are not, so they are
never refused; if they do wait for each other, the watchdog says so.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ..core.infer_request import InferenceRequest, RequestState
from ..ipc.stub_connection import StubConnection
from .model_instance import ModelInstance
from .wait_graph import Call, Instance, Wait, circle_of

#: What the stub says of a call: it need not wait for it; `execute` waits; and no thread could answer in its place.
NO_WAIT, WAITS, WAITS_ALONE = range(3)


class Callee(Protocol):
    """The model version a call is for (`server.model_lifecycle.ModelVersion`)."""

    @property
    def instances(self) -> Sequence[ModelInstance]: ...

    @property
    def rules(self) -> Any: ...  # core.request_rules.RequestRules

    def withdraw(self, request: InferenceRequest) -> bool:
        """Takes a request out of the queue; False if it is not there any more."""
        ...


@dataclass(eq=False, slots=True)
class BlsCall:
    """One INFER of the stub behind `link`, until its final response. `waits`: one of the constants above; `sent`: how
    many responses it has had."""

    caller: ModelInstance
    link: StubConnection
    ident: int
    callee: Callee
    request: InferenceRequest
    waits: int = NO_WAIT
    sent: int = 0
    batch: int = 0


class Refusal(NamedTuple):
    """`call` would wait for itself; `models` as in `wait_graph.Circle`."""

    call: BlsCall
    models: list[str]

    @property
    def text(self) -> str:
        """What the caller's model reads."""
        name = self.call.request.model_name
        return (
            f"Model {name} - Error when running inference: The request would wait for itself: "
            f"{' -> '.join(self.models)}. Every instance of '{name}' that could take it waits, directly or not, for "
            "its answer. Configure more instances, or call the model where nothing waits for the answer."
        )


class BlockedCalls:
    """Guarantees: of calls that close a circle together, exactly the last one is refused."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _calls; a call is noted and looked at in one step
        self._calls: dict[Instance, tuple[BlsCall, ...]] = {}

    def enter(self, call: BlsCall) -> Refusal | None:
        """Notes that the caller's `execute` is blocked in `call` until `leave`; what must be refused, if it would be
        for ever."""
        with self._lock:
            call.batch = call.caller.batch_id
            others = self._calls.get(call.caller, ())
            if call not in others:
                self._calls[call.caller] = (*others, call)
            # mostly some instance of the called model does not wait, and that is all there is to ask
            if not all(instance in self._calls for instance in call.callee.instances):
                return None
            waits = {instance: _wait_of(calls) for instance, calls in self._calls.items()}
            circle = circle_of(call.caller, waits)
            if circle is None:
                return None
            queued = next(step.tag for step in circle.calls if step.executing is None)
            assert isinstance(queued, BlsCall)
            return Refusal(queued, (circle_of(queued.caller, waits) or circle).models)

    def leave(self, call: BlsCall) -> None:
        """The caller has got an answer."""
        with self._lock:
            others = tuple(other for other in self._calls.get(call.caller, ()) if other is not call)
            if others:
                self._calls[call.caller] = others
            else:
                self._calls.pop(call.caller, None)


def _wait_of(calls: Sequence[BlsCall]) -> Wait:
    steps = [step for call in calls if (step := _step(call)) is not None]
    alone = any(call.waits == WAITS_ALONE for call in calls)
    return Wait(calls[0].caller.plan.source.model, steps, alone)


def _step(call: BlsCall) -> Call | None:
    """Where the call is; None if it is answered, or its caller or executor has gone on without it."""
    stub = call.caller.stub
    if stub is None or call.link is not stub.link:
        return None  # the caller died
    if call.batch != call.caller.batch_id:
        return None  # the caller has given it up
    state = call.request.state
    if state is RequestState.EXECUTING:
        executing = next((i for i in call.callee.instances if i.executes(call.request)), None)
        return None if executing is None else Call(executing=executing, tag=call)
    return None if state is RequestState.RELEASED else Call(any_of=call.callee.instances, tag=call)
