from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tritonlab.core.inference.infer_request import InferenceRequest, RequestEvent
from tritonlab.engine.calls.blocked_calls import (
    NO_WAIT,
    WAITS,
    WAITS_ALONE,
    BlockedCalls,
    BlsCall,
    CircleRefusal,
    Verdict,
)
from tritonlab.engine.life.model_instance import ModelInstance


class FakeInstance:
    """An instance, as far as the graph looks at it."""

    def __init__(self, model: str) -> None:
        self.plan = SimpleNamespace(source=SimpleNamespace(model=model))
        self.stub: Any = SimpleNamespace(link=object())
        self.batch_id = 1
        self.executing: list[InferenceRequest] = []

    def executes(self, request: InferenceRequest) -> bool:
        return request in self.executing


class Model:
    def __init__(self, name: str, count: int = 1) -> None:
        self.name = name
        self.instances = [FakeInstance(name) for _ in range(count)]

    def call(self, callee: Model, waits: int = WAITS_ALONE, instance: int = 0) -> BlsCall:
        """Return a call that waits in the callee's queue."""
        caller = cast(ModelInstance, self.instances[instance])
        request = InferenceRequest(callee.name, {})
        request.advance(RequestEvent.ENQUEUE)
        return BlsCall(caller, self.instances[instance].stub.link, 1, cast(Any, callee), request, waits)

    def run(self, call: BlsCall, instance: int = 0) -> None:
        """Let an instance execute the call."""
        call.request.advance(RequestEvent.EXECUTE)
        self.instances[instance].executing.append(call.request)


@pytest.fixture
def calls() -> BlockedCalls:
    return BlockedCalls()


def refused(verdict: Verdict) -> CircleRefusal:
    assert verdict.refusal is not None
    return verdict.refusal


def suspects(verdict: Verdict) -> list[str]:
    """Return the models that may wait for one another, after a check that nothing is refused."""
    assert verdict.refusal is None
    return sorted(instance.plan.source.model for instance in verdict.suspects)


NOTHING: Verdict = Verdict()


def test_a_call_back_is_the_one_that_is_refused(calls: BlockedCalls) -> None:
    a, b = Model("a"), Model("b")
    first = a.call(b)
    assert calls.enter(first) == NOTHING
    b.run(first)
    second = b.call(a)
    refusal = refused(calls.enter(second))
    assert refusal.call is second
    assert refusal.models == ["a", "b", "a"]
    assert refusal.text.startswith(
        "Model a - Error when running inference: The request would wait for itself: a -> b -> a. "
    )


def test_what_has_ended_holds_nobody(calls: BlockedCalls) -> None:
    a, b = Model("a"), Model("b")
    first = a.call(b)
    calls.enter(first)
    b.run(first)
    calls.leave(first)
    assert calls.enter(b.call(a)) == NOTHING
    calls.leave(first)  # twice is no harm


@pytest.mark.parametrize("gone", ["died", "goes on", "is answered"])
def test_a_caller_that_does_not_wait_any_more_holds_nobody(calls: BlockedCalls, gone: str) -> None:
    a, b = Model("a"), Model("b")
    first = a.call(b)
    calls.enter(first)
    b.run(first)
    if gone == "died":
        a.instances[0].stub = SimpleNamespace(link=object())
    elif gone == "goes on":
        a.instances[0].batch_id = 2
    else:
        first.request.advance(RequestEvent.RELEASE)
    assert calls.enter(b.call(a)) == NOTHING


def test_a_caller_without_a_stub_holds_nobody(calls: BlockedCalls) -> None:
    a = Model("a")
    call = a.call(a)
    a.instances[0].stub = None
    assert calls.enter(call) == NOTHING


def test_a_model_whose_execute_has_returned_may_call_itself(calls: BlockedCalls) -> None:
    """A thread of a decoupled model."""
    a = Model("a")
    a.instances[0].batch_id = 0
    assert calls.enter(a.call(a, NO_WAIT)) == NOTHING


def test_a_request_that_its_execute_left_open_may_be_answered(calls: BlockedCalls) -> None:
    """A decoupled model: `execute` has returned, and another execution of the instance waits."""
    a, b = Model("a"), Model("b")
    first = a.call(b)
    calls.enter(first)
    b.run(first)
    b.instances[0].executing.clear()
    assert calls.enter(b.call(a)) == NOTHING


def test_a_thread_of_the_model_may_answer_in_its_place_unless_it_takes_for_ever(calls: BlockedCalls) -> None:
    a, b = Model("a"), Model("b")
    first = a.call(b)
    calls.enter(first)
    b.run(first)
    second = b.call(a, WAITS)
    assert suspects(calls.enter(second)) == ["a", "b"]
    assert suspects(calls.look(second, patient=False)) == ["a", "b"]
    assert refused(calls.look(second, patient=True)).models == ["a", "b", "a"]


def test_a_call_that_execute_need_not_wait_for_is_suspicious_only(calls: BlockedCalls) -> None:
    a = Model("a")
    call = a.call(a, NO_WAIT)
    assert suspects(calls.enter(call)) == ["a"]
    call.waits = WAITS_ALONE  # the stub has said so
    assert refused(calls.look(call, patient=False)).models == ["a", "a"]
    calls.leave(call)
    assert calls.look(call, patient=True) == NOTHING


def test_where_the_caller_waits_too_the_queued_call_is_refused(calls: BlockedCalls) -> None:
    """The call that executes cannot be taken back, the queued one can."""
    a, b = Model("a"), Model("b")
    first = a.call(b, NO_WAIT)
    assert calls.enter(first) == NOTHING
    b.run(first)
    back = b.call(a)
    assert suspects(calls.enter(back)) == ["a", "b"]
    first.waits = WAITS_ALONE
    refusal = refused(calls.look(first, patient=False))
    assert (refusal.call, refusal.models) == (back, ["a", "b", "a"])


def test_calls_of_a_gather_are_refused_one_by_one(calls: BlockedCalls) -> None:
    a, b = Model("a"), Model("b")
    other, own = a.call(b), a.call(a)
    b.run(other)
    assert calls.enter(other) == NOTHING
    assert refused(calls.enter(own)).models == ["a", "a"]
    calls.leave(own)
    assert calls.look(other, patient=True) == NOTHING


def test_all_instances_must_wait(calls: BlockedCalls) -> None:
    a = Model("a", count=2)
    assert calls.enter(a.call(a, instance=0)) == NOTHING
    assert refused(calls.enter(a.call(a, instance=1))).models == ["a", "a"]


def test_an_instance_that_calls_somebody_else_holds_only_what_needs_it(calls: BlockedCalls) -> None:
    a, b, c = Model("a"), Model("b"), Model("c")
    first, second = a.call(b), b.call(c)
    calls.enter(first)
    b.run(first)
    calls.enter(second)
    c.run(second)
    assert calls.enter(a.call(b)) == NOTHING


def test_a_model_without_instances_is_left_alone(calls: BlockedCalls) -> None:
    assert calls.enter(Model("a").call(Model("ensemble", count=0))) == NOTHING
