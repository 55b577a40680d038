"""The replacement of a stub after its death, with stand-ins for the instance and the stub."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import ModelError, TritonError, UnavailableError
from tritonlab.engine.execution.execution import Death
from tritonlab.engine.execution.payload import Payload
from tritonlab.engine.life.stub_replacement import RestartPolicy, StubReplacement, pause_after
from tritonlab.testing import FakeTimer, MockClock

SECOND = 1_000_000_000


class Died:
    """A stub that has ended."""

    def __init__(self, was_killed: bool = False) -> None:
        self._was_killed = was_killed

    def unhealthy(self) -> ModelError:
        return killed(ModelError("Stub process 'm_0_0' is not healthy.", reason="It ended."), self._was_killed)


def killed(error: ModelError, was_killed: bool = True) -> ModelError:
    """Mark an error as that of a stub that was killed from outside."""
    error.was_killed = was_killed
    return error


class Instance:
    """An instance that records what happens to it and its scheduler."""

    name = "m_0_0"

    def __init__(self, idle: bool = True) -> None:
        self.idle_before = idle
        self.stopped = False
        self.failed = False
        self.events: list[Any] = []
        self.logged: list[str] = []
        self.failure: Exception | None = None
        self.failures: list[Exception] = []  # of the next starts
        self.clock = MockClock()
        self.timer = FakeTimer(self.clock)
        events = SimpleNamespace(
            away=lambda: self.idle_before,
            idle=lambda: self.events.append("idle"),
            gone=lambda: self.events.append("gone"),
            ready=lambda: self.events.append("ready"),
        )
        self.replacement = StubReplacement(self, self, events, self.clock, self._later)
        self.meanwhile: Payload | None = None

    def _later(self, ns: int, function: Callable[[], None]) -> None:
        self.timer.call_at(self.clock.now() + ns, function)

    def start(self) -> None:
        if self.meanwhile is not None:
            assert self.replacement.hold(self.meanwhile)
        if self.failures:
            self.failed = True
            raise self.failures.pop(0)
        if self.failure is not None:
            self.failed = True
            raise self.failure
        self.events.append("started")

    def bury(self, death: Death, error: TritonError) -> None:
        self.events.append(("buried", death.execution, death.requests, error.message))

    def give_up(self) -> None:
        self.failed = True
        self.events.append("given up")

    def try_again(self) -> bool:
        assert self.failed
        self.failed = False
        return not self.stopped

    def execute(self, payload: Payload) -> None:
        self.events.append(payload)

    def refuse(self, payload: Payload, error: TritonError) -> None:
        self.events.append((payload, error.message))

    def say(self, text: str) -> None:
        self.logged.append(text)

    def dies(
        self, *, requests: tuple[Any, ...] = (), payload: Any = None, worked: bool = False, was_killed: bool = False
    ) -> list[str]:
        """Let the stub die and return what is logged."""
        self.events.clear()
        self.logged.clear()
        self.replacement.begin(Death(Died(was_killed), payload, requests, worked))  # type: ignore[arg-type]
        self.replacement.join()
        return self.logged

    def passes(self, ns: int) -> list[Any]:
        """Let the time pass and return what happens to the instance and its scheduler."""
        self.events.clear()
        self.logged.clear()
        self.timer.advance(ns)
        self.replacement.join()
        return self.events


BURIED = ("buried", None, (), "Stub process 'm_0_0' is not healthy.")


@pytest.mark.parametrize("idle", [True, False])
def test_it_starts_again_and_is_idle_if_it_was(idle: bool) -> None:
    instance = Instance(idle)
    assert instance.dies() == ["Stub process 'm_0_0' is not healthy. It ended."]
    assert instance.events == [BURIED, "started", *["idle"] * idle]
    assert (instance.replacement.count, instance.replacement.last_death) == (1, "It ended.")


def test_after_a_payload_it_is_idle_again() -> None:
    instance = Instance(idle=False)
    payload, requests = object(), (object(),)
    instance.dies(payload=payload, requests=requests)
    assert instance.events == [("buried", payload, requests, BURIED[3]), "started", "idle"]


def test_the_new_stub_executes_what_came_meanwhile() -> None:
    instance = Instance()
    instance.meanwhile = Payload([InferenceRequest("m", {})], 1, "full")
    instance.dies()
    assert instance.events == [BURIED, "started", instance.meanwhile]


def test_the_new_stub_does_not_execute_what_was_cancelled_meanwhile() -> None:
    instance = Instance()
    waiting = instance.meanwhile = Payload([InferenceRequest("m", {})], 1, "full")
    waiting.requests[0].cancel()
    instance.dies()
    assert instance.events == [BURIED, "started", (waiting, "Request cancelled"), "idle"]


def test_if_it_cannot_start_what_came_meanwhile_fails() -> None:
    instance = Instance()
    waiting = instance.meanwhile = Payload([InferenceRequest("m", {})], 1, "full")
    instance.failure = ModelError("no weights")
    assert instance.dies()[1:] == [
        "'m_0_0' does not run: it could not be started again: no weights. Next try in 0.5 s."
    ]
    assert instance.events == [BURIED, (waiting, "Stub process 'm_0_0' is not healthy."), "gone"]
    assert instance.replacement.count == 0
    assert not instance.replacement.hold(waiting)  # a late one: the scheduler gives it no more


def test_a_start_that_fails_is_tried_again_for_as_long_as_it_takes() -> None:
    instance = Instance()
    instance.failure = ModelError("killed")
    instance.dies(requests=(object(),))
    replacement = instance.replacement
    tries = []
    for _ in range(12):
        assert replacement.next_try is not None
        assert replacement.failure == "it could not be started again: killed."
        tries.append((replacement.next_try - instance.clock.now()) / 1e9)
        assert instance.passes(replacement.next_try - instance.clock.now() - 1) == []
        assert instance.logged == []
        assert instance.passes(1) == []  # the scheduler knows already that it is gone
        assert len(instance.logged) == 1
    assert tries == [0.25, 0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    instance.failure = None
    assert instance.passes(60 * SECOND) == ["started", "ready"]
    assert (replacement.count, replacement.failure, replacement.next_try) == (1, "", None)
    assert instance.timer.deadlines == []


def test_a_failure_that_is_none_of_the_models_is_tried_again_too(caplog: pytest.LogCaptureFixture) -> None:
    instance = Instance()
    instance.failure = RuntimeError("can't start new thread")
    instance.dies()
    assert "could not be started again" in caplog.text
    instance.failure = None
    assert instance.passes(SECOND // 2) == ["started", "ready"]


def test_once_it_has_executed_something_the_pauses_are_short_again() -> None:
    instance = Instance()
    instance.failure = ModelError("killed")
    instance.dies()
    instance.passes(100 * SECOND)
    instance.failure = None
    instance.passes(60 * SECOND)
    assert instance.events[-1] == "ready"
    instance.failure = ModelError("killed")
    instance.dies(requests=(object(),))
    assert instance.replacement.next_try == instance.clock.now() + SECOND // 4


def test_a_stopped_one_says_nothing_of_it() -> None:
    instance = Instance()
    instance.stopped, instance.failure = True, UnavailableError("stopped")
    assert len(instance.dies()) == 1
    assert instance.events == [BURIED, "gone"]
    assert instance.timer.deadlines == []


def test_one_stopped_while_it_starts_is_not_handed_to_its_scheduler() -> None:
    instance = Instance()
    instance.stopped = True
    instance.dies()
    assert instance.events == [BURIED, "started"]  # it has killed its stub and is not idle
    assert instance.replacement.count == 0


def test_the_end_during_a_pause_is_the_end() -> None:
    instance = Instance()
    instance.failure = ModelError("killed")
    instance.dies()
    instance.replacement.end(UnavailableError("Server exited"))
    assert instance.replacement.next_try is None
    assert instance.passes(600 * SECOND) == []


def test_a_pause_does_not_keep_the_instance() -> None:
    instance = Instance()
    instance.failure = ModelError("killed")
    instance.dies()
    timer, there = instance.timer, weakref.ref(instance.replacement)
    instance.replacement.end(UnavailableError("Server exited"))
    instance.failure = None
    del instance
    gc.collect()
    assert there() is None
    timer.advance(SECOND)


def test_deaths_without_a_request_in_between_are_followed_by_pauses() -> None:
    instance = Instance()
    for _ in range(2):
        instance.dies()
        assert instance.events[-1] == "idle"
    instance.dies(worked=True)  # it has executed something since
    assert instance.events[-1] == "idle"
    instance.dies()
    instance.dies(requests=(object(),), worked=True)
    for _ in range(2):
        instance.dies()
        assert instance.events[-1] == "idle"
    lines = instance.dies()
    text = "it died 3 times without a request in between. It ended."
    assert lines[1:] == [f"'m_0_0' does not run: {text} Next try in 1 s."]
    assert instance.events == [BURIED, "given up", "gone"]
    assert instance.passes(SECOND) == ["started", "ready"]
    assert instance.dies()[-1].endswith("Next try in 2 s.")


def test_one_that_is_killed_while_it_starts_starts_again_at_once() -> None:
    instance = Instance()
    waiting = instance.meanwhile = Payload([InferenceRequest("m", {})], 1, "full")
    instance.failures = [killed(ModelError("not healthy", reason="SIGKILL")) for _ in range(3)]
    lines = instance.dies(requests=(object(),), was_killed=True)
    text = "'m_0_0' does not run: it could not be started again: not healthy. SIGKILL. Next try at once."
    assert lines[1:] == [text] * 3
    assert instance.events[1:] == ["started", waiting]  # nobody was refused, and the scheduler heard nothing of it
    assert (instance.replacement.count, instance.replacement.next_try) == (1, None)
    assert instance.timer.deadlines == []


def test_one_that_is_killed_whenever_it_starts_is_held_back() -> None:
    instance = Instance()
    waiting = instance.meanwhile = Payload([InferenceRequest("m", {})], 1, "full")
    instance.failure = killed(ModelError("not healthy", reason="SIGKILL"))
    lines = instance.dies(requests=(object(),), was_killed=True)
    assert [line.rpartition(". ")[2] for line in lines[1:]] == ["Next try at once."] * 8 + ["Next try in 0.25 s."]
    assert instance.events[1:] == [(waiting, "Stub process 'm_0_0' is not healthy."), "gone"]
    assert instance.replacement.next_try == instance.clock.now() + SECOND // 4
    instance.passes(SECOND // 4)
    assert instance.replacement.next_try == instance.clock.now() + SECOND // 2


def test_one_that_is_killed_and_is_to_leave_starts_no_more() -> None:
    instance = Instance()
    instance.stopped, instance.failure = True, killed(ModelError("not healthy"))
    instance.dies()
    assert instance.events == [BURIED, "gone"]
    assert instance.timer.deadlines == []


def test_kills_without_a_request_in_between_are_followed_by_a_start_at_once() -> None:
    instance = Instance()
    for _ in range(8):
        instance.dies(was_killed=True)
        assert instance.events[-1] == "idle"


def test_one_that_lived_long_starts_at_once() -> None:
    instance = Instance()
    for _ in range(5):
        instance.clock.advance(60 * SECOND)
        instance.dies()
        assert instance.events[-1] == "idle"


def test_the_end_refuses_what_waits() -> None:
    instance = Instance()
    waiting = Payload([InferenceRequest("m", {})], 1, "full")
    instance.replacement.hold(waiting)
    instance.replacement.end(UnavailableError("Server exited"))
    assert instance.events == [(waiting, "Server exited")]


def died(
    policy: RestartPolicy, *, has_requests: bool = False, has_worked: bool = False, is_killed: bool = False
) -> float:
    """Return the seconds until the next start."""
    return policy.after_death(has_requests=has_requests, has_worked=has_worked, is_killed=is_killed) / SECOND


def test_the_pauses_grow_and_are_bounded() -> None:
    assert [pause_after(failures) / 1e9 for failures in (1, 2, 3, 8, 9, 10, 1000)] == [0.25, 0.5, 1, 32, 60, 60, 60]


def test_a_stub_that_dies_again_and_again_is_held_back() -> None:
    policy = RestartPolicy()
    assert [died(policy) for _ in range(5)] == [0, 0, 1, 2, 4]


@pytest.mark.parametrize("has_requests", [True, False])
def test_one_that_works_is_not_held_back(has_requests: bool) -> None:
    policy = RestartPolicy()
    for _ in range(20):
        assert died(policy, has_requests=has_requests, has_worked=not has_requests) == 0


def test_a_start_that_fails_is_held_back_at_once() -> None:
    policy = RestartPolicy()
    pauses = [policy.after_failed_start(is_killed=False) / SECOND for _ in range(3)]
    assert pauses == [0.25, 0.5, 1]


def test_one_that_is_killed_is_held_back_only_after_many_kills() -> None:
    policy = RestartPolicy()
    assert [died(policy, is_killed=True) for _ in range(4)] == [0] * 4
    assert [policy.after_failed_start(is_killed=True) for _ in range(4)] == [0] * 4  # starts count with them
    assert [policy.after_failed_start(is_killed=True) / SECOND for _ in range(3)] == [0.25, 0.5, 1]
    assert died(policy, has_requests=True, is_killed=True) == 0
    assert policy.after_failed_start(is_killed=True) == 0


def test_a_kill_does_not_count_for_what_the_model_did_before() -> None:
    policy = RestartPolicy()
    assert [died(policy) for _ in range(3)] == [0, 0, 1]
    assert died(policy, is_killed=True) == 0
    assert died(policy) == 2
