"""What follows a death, with an instance and a stub that are none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tritonlab.core.infer_request import InferenceRequest
from tritonlab.core.status import ModelError, TritonError, UnavailableError
from tritonlab.instances.payload import Payload
from tritonlab.instances.stub_replacement import StubReplacement


class Died:
    """A stub that has ended."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def unhealthy(self) -> ModelError:
        return ModelError("Stub process 'm_0_0' is not healthy.", reason="It ended.")

    def log(self, stream: str, level: str, text: str) -> None:
        assert (stream, level) == ("server", "ERROR")
        self.lines.append(text)


class Instance:
    """Notes what it and its scheduler are told."""

    def __init__(self, idle: bool = True) -> None:
        self.plan = SimpleNamespace(name="m_0_0")
        self.stopped = False
        self.told: list[Any] = []
        self.failure: TritonError | None = None
        self.events = SimpleNamespace(
            away=lambda instance: idle,
            idle=lambda instance: self.told.append("idle"),
            gone=lambda instance: self.told.append("gone"),
        )
        self.replacement = StubReplacement(self, self.events)  # type: ignore[arg-type]
        self.meanwhile: Payload | None = None

    def start(self) -> None:
        if self.meanwhile is not None:
            self.replacement.hold(self.meanwhile)
        if self.failure is not None:
            raise self.failure
        self.told.append("started")

    def bury(self, payload: Any, requests: Any, error: TritonError) -> None:
        self.told.append(("buried", payload, requests, error.message))

    def give_up(self) -> None:
        self.told.append("given up")

    def execute(self, payload: Payload) -> None:
        self.told.append(payload)

    def refuse(self, payload: Payload, error: TritonError) -> None:
        self.told.append((payload, error.message))

    def dies(self, *, requests: tuple[Any, ...] = (), payload: Any = None, batches: int = 0) -> list[str]:
        """What is logged."""
        self.told.clear()
        stub = Died()
        self.replacement.begin(stub, payload, requests, batches)  # type: ignore[arg-type]
        self.replacement.end(UnavailableError("Server exited"))
        return stub.lines


BURIED = ("buried", None, (), "Stub process 'm_0_0' is not healthy.")


@pytest.mark.parametrize("idle", [True, False])
def test_it_starts_anew_and_is_idle_again_if_it_was(idle: bool) -> None:
    instance = Instance(idle)
    assert instance.dies() == ["Stub process 'm_0_0' is not healthy. It ended."]
    assert instance.told == [BURIED, "started", *["idle"] * idle]
    assert (instance.replacement.count, instance.replacement.last_death) == (1, "It ended.")


def test_after_a_payload_it_is_idle_again() -> None:
    instance = Instance(idle=False)
    payload, requests = object(), (object(),)
    instance.dies(payload=payload, requests=requests)
    assert instance.told == [("buried", payload, requests, BURIED[3]), "started", "idle"]


def test_the_new_stub_executes_what_came_meanwhile() -> None:
    instance = Instance()
    instance.meanwhile = Payload([InferenceRequest("m", {})], 1, "full")
    instance.dies()
    assert instance.told == [BURIED, "started", instance.meanwhile]


def test_if_it_cannot_start_what_came_meanwhile_fails() -> None:
    instance = Instance()
    instance.meanwhile, instance.failure = Payload([InferenceRequest("m", {})], 1, "full"), ModelError("no weights")
    assert instance.dies()[1:] == ["'m_0_0' could not be started again: no weights"]
    assert instance.told == [BURIED, (instance.meanwhile, "Stub process 'm_0_0' is not healthy."), "gone"]
    assert instance.replacement.count == 0


def test_a_stopped_one_says_nothing_of_it() -> None:
    instance = Instance()
    instance.stopped, instance.failure = True, UnavailableError("stopped")
    assert len(instance.dies()) == 1
    assert instance.told == [BURIED, "gone"]


def test_deaths_without_a_request_in_between_are_the_end() -> None:
    instance = Instance()
    for _ in range(2):
        instance.dies()
        assert instance.told[-1] == "idle"
    instance.dies(batches=5)  # it has executed something since
    assert instance.told[-1] == "idle"
    instance.dies(batches=5)
    instance.dies(requests=(object(),), batches=6)
    for _ in range(2):
        instance.dies(batches=6)
        assert instance.told[-1] == "idle"
    said = instance.dies(batches=6)
    assert said[1:] == ["'m_0_0' died 3 times without a request and is not started again."]
    assert instance.told == [BURIED, "given up", "gone"]


def test_the_end_refuses_what_waits() -> None:
    instance = Instance()
    waiting = Payload([InferenceRequest("m", {})], 1, "full")
    instance.replacement.hold(waiting)
    instance.replacement.end(UnavailableError("Server exited"))
    assert instance.told == [(waiting, "Server exited")]
