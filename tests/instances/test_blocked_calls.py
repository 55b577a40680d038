from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tritonlab.core.infer_request import InferenceRequest, RequestEvent
from tritonlab.instances.blocked_calls import WAITS, WAITS_ALONE, BlockedCalls, BlsCall
from tritonlab.instances.model_instance import ModelInstance


class FakeInstance:
    """What the graph looks at."""

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
        """A call that waits in the callee's queue."""
        caller = cast(ModelInstance, self.instances[instance])
        request = InferenceRequest(callee.name, {})
        request.advance(RequestEvent.ENQUEUE)
        return BlsCall(caller, self.instances[instance].stub.link, 1, cast(Any, callee), request, waits)

    def run(self, call: BlsCall, instance: int = 0) -> None:
        """Has an instance execute the call."""
        call.request.advance(RequestEvent.EXECUTE)
        self.instances[instance].executing.append(call.request)


@pytest.fixture
def calls() -> BlockedCalls:
    return BlockedCalls()


def models_of(refusal: Any) -> list[str]:
    assert refusal is not None
    return list(refusal.models)


def test_a_call_back_is_the_one_that_is_refused(calls: BlockedCalls) -> None:
    a, b = Model("a"), Model("b")
    first = a.call(b)
    assert calls.enter(first) is None
    b.run(first)
    second = b.call(a)
    refusal = calls.enter(second)
    assert refusal is not None
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
    assert calls.enter(b.call(a)) is None
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
    assert calls.enter(b.call(a)) is None


def test_a_caller_without_a_stub_holds_nobody(calls: BlockedCalls) -> None:
    a = Model("a")
    call = a.call(a)
    a.instances[0].stub = None
    assert calls.enter(call) is None


def test_a_request_that_its_execute_left_open_may_be_answered(calls: BlockedCalls) -> None:
    """A decoupled model: `execute` has returned, and another execution of the instance waits."""
    a, b = Model("a"), Model("b")
    first = a.call(b)
    calls.enter(first)
    b.run(first)
    b.instances[0].executing.clear()
    assert calls.enter(b.call(a)) is None


def test_a_thread_of_the_model_may_answer_in_its_place(calls: BlockedCalls) -> None:
    a, b = Model("a"), Model("b")
    first = a.call(b)
    calls.enter(first)
    b.run(first)
    assert calls.enter(b.call(a, WAITS)) is None


def test_a_coroutine_that_waits_later_has_the_queued_call_refused(calls: BlockedCalls) -> None:
    """`b` called back before `a` awaited: the call that executes cannot be taken back, the queued one can."""
    a, b = Model("a"), Model("b")
    first = a.call(b)
    b.run(first)
    back = b.call(a)
    assert calls.enter(back) is None
    refusal = calls.enter(first)
    assert refusal is not None
    assert (refusal.call, refusal.models) == (back, ["a", "b", "a"])


def test_calls_of_a_gather_are_refused_one_by_one(calls: BlockedCalls) -> None:
    a, b = Model("a"), Model("b")
    other, own = a.call(b), a.call(a)
    b.run(other)
    assert calls.enter(other) is None
    assert models_of(calls.enter(own)) == ["a", "a"]
    calls.leave(own)
    assert calls.enter(other) is None  # told again, and no longer stuck


def test_all_instances_must_wait(calls: BlockedCalls) -> None:
    a = Model("a", count=2)
    assert calls.enter(a.call(a, instance=0)) is None
    assert models_of(calls.enter(a.call(a, instance=1))) == ["a", "a"]


def test_a_model_without_instances_is_left_alone(calls: BlockedCalls) -> None:
    assert calls.enter(Model("a").call(Model("ensemble", count=0))) is None
