"""`BlockedCalls`, the record of the BLS calls in which each instance's `execute` waits. Calls that would wait for
themselves are refused.

With each call the stub reports whether `execute`, on the main thread, waits for it. A call that would then wait for
ever is refused before it begins. If threads, futures or coroutines stand between `execute` and calls that might wait
for one another, the stubs are queried a moment later (WAITS), and again until this is settled. Nothing else counts as
blocked: calls that are never awaited, in threads that are never joined, or of decoupled models whose `execute` has
returned are never refused.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ...core.inference.infer_request import InferenceRequest, ModelRequest, RequestState
from ...core.status import TritonError
from ...ipc.link.stub_link import StubLink
from ..life.model_instance import ModelInstance
from .wait_graph import Instance, InstanceWait, UnansweredCall, circle_of, stuck_instances

#: The stub's report on a call: `execute` need not wait for it, waits for it, or waits and no other thread could answer
#: meanwhile.
NO_WAIT, WAITS, WAITS_ALONE = range(3)


class Callee(Protocol):
    """The model version that a call is for (`server.models.model_lifecycle.ModelVersion`)."""

    @property
    def instances(self) -> Sequence[ModelInstance]: ...

    @property
    def rules(self) -> Any: ...  # core.request_rules.RequestRules

    def withdraw(self, request: InferenceRequest, error: TritonError) -> bool:
        """Take a request out of the queue and end it with `error`. Returns False if it is no longer queued."""
        ...


@dataclass(eq=False, slots=True)
class BlsCall:
    """One INFER of the stub behind `link`, until its final response. `waits` is one of the constants above; `sent` is
    the number of its responses; `batch` is the caller's execution that made it, 0 outside of any.
    """

    caller: ModelInstance
    link: StubLink
    ident: int
    callee: Callee
    request: ModelRequest
    waits: int = NO_WAIT
    sent: int = 0
    batch: int = 0


class CircleRefusal(NamedTuple):
    """A `call` that would wait for itself; `models` is as in `wait_graph.Circle`."""

    call: BlsCall
    models: list[str]

    @property
    def text(self) -> str:
        """The error text for the calling model."""
        name = self.call.request.model_name
        return (
            f"Model {name} - Error when running inference: The request would wait for itself: "
            f"{' -> '.join(self.models)}. Every instance of '{name}' that could take it waits, directly or not, for "
            "its answer. Configure more instances, or call the model where nothing waits for the answer."
        )


class Verdict(NamedTuple):
    """The call to refuse, `refusal`, and instances that may wait for each other, `suspects`: their stubs know more."""

    refusal: CircleRefusal | None = None
    suspects: Sequence[ModelInstance] = ()


_NOTHING = Verdict()


class BlockedCalls:
    """The unanswered BLS calls of running `execute` calls.

    Guarantees: exactly the last call that closes a circle is refused.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _calls; a call is noted and examined in one step
        self._calls: dict[Instance, list[BlsCall]] = {}

    def enter(self, call: BlsCall) -> Verdict:
        """Note a new call, until `leave`, and return whether it closes a circle."""
        with self._lock:
            call.batch = call.caller.batch_id
            self._calls.setdefault(call.caller, []).append(call)
            # Usually some instance of the called model waits for no call, and then no circle exists.
            for instance in call.callee.instances:
                if instance not in self._calls:
                    return _NOTHING
            return self._verdict(call, patient=False)

    def look(self, call: BlsCall, *, patient: bool) -> Verdict:
        """Examine a call again. `patient`: it waits so long that no thread answers in place of a blocked `execute`."""
        with self._lock:
            return self._verdict(call, patient)

    def leave(self, call: BlsCall) -> None:
        """Forget a call that is answered."""
        with self._lock:
            calls = self._calls.get(call.caller, [])
            if call in calls:
                calls.remove(call)
            if not calls:
                self._calls.pop(call.caller, None)

    def _verdict(self, call: BlsCall, patient: bool) -> Verdict:
        waits = {i: wait for i, calls in self._calls.items() if (wait := _wait_of(calls, patient)) is not None}
        circle = circle_of(call.caller, waits)
        if circle is not None:
            queued = next(step.tag for step in circle.calls if step.executing is None)
            assert isinstance(queued, BlsCall)
            return Verdict(CircleRefusal(queued, (circle_of(queued.caller, waits) or circle).models))
        possible = {i: wait for i, calls in self._calls.items() if (wait := _possible_wait_of(calls)) is not None}
        stuck = stuck_instances(possible)
        if call.caller not in stuck:
            return _NOTHING
        return Verdict(suspects=[calls[0].caller for instance, calls in self._calls.items() if instance in stuck])


def _wait_of(calls: Sequence[BlsCall], patient: bool) -> InstanceWait | None:
    """Return the wait that is certain; None if there is none."""
    certain = [call for call in calls if call.waits]
    steps = [step for call in certain if (step := _step(call)) is not None]
    alone = patient or any(call.waits == WAITS_ALONE for call in certain)
    return InstanceWait(calls[0].caller.plan.source.model, steps, alone) if steps else None


def _possible_wait_of(calls: Sequence[BlsCall]) -> InstanceWait | None:
    """Return the wait that would exist if `execute` waited for all of the calls."""
    steps = [step for call in calls if (step := _step(call)) is not None]
    return InstanceWait(calls[0].caller.plan.source.model, steps) if steps else None


def _step(call: BlsCall) -> UnansweredCall | None:
    """Return the place of the call; None if it is answered, or its caller or executor has continued without it."""
    stub = call.caller.stub
    if stub is None or call.link is not stub.link:
        return None  # the caller died
    if not call.batch or call.batch != call.caller.batch_id:
        return None  # no `execute` is waiting for it
    state = call.request.state
    if state is RequestState.EXECUTING:
        executing = next((i for i in call.callee.instances if i.executes(call.request)), None)
        return None if executing is None else UnansweredCall(executing=executing, tag=call)
    return None if state is RequestState.RELEASED else UnansweredCall(any_of=call.callee.instances, tag=call)
