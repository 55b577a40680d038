from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.rules import rule
from tests.serving import Lab, eventually
from tritonlab.core.status import UnavailableError
from tritonlab.engine.life.model_stub import ReadinessCheck
from tritonlab.ipc.link.stub_connection import Answer
from tritonlab.stub._pb_stub.wire.ipc_message import ROW
from tritonlab.stub._pb_stub.wire.message_bodies import Failure, IsReady


class FakeMonitor:
    """A monitor socket whose answers a test gives."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def is_ready(self) -> Answer:
        self.answers.append(Answer(ROW[IsReady]))
        return self.answers[-1]

    def await_answer(self, answer: Answer, timeout: float | None = None) -> bool:
        return answer.done()


@pytest.fixture
def monitor() -> FakeMonitor:
    return FakeMonitor()


@pytest.fixture
def check(monitor: FakeMonitor) -> ReadinessCheck:
    return ReadinessCheck(monitor, "m_0_0")  # type: ignore[arg-type]


def refusal(check: ReadinessCheck, monitor: FakeMonitor, settle: Callable[[Answer], None]) -> str:
    query = check.ask()
    settle(monitor.answers[-1])
    with pytest.raises(UnavailableError) as caught:
        check.await_ready(query)
    return caught.value.message


@rule("2.7.2")
@pytest.mark.parametrize(("value", "has"), [(True, True), (None, False)])
def test_true_is_ready_and_so_is_a_model_without_the_method(
    check: ReadinessCheck, monitor: FakeMonitor, value: bool | None, has: bool
) -> None:
    query = check.ask()
    monitor.answers[0].set(value)
    assert check.await_ready(query) is has


@rule("2.7.4")
def test_why_it_is_not_ready(check: ReadinessCheck, monitor: FakeMonitor) -> None:
    not_ready = "Model 'm_0_0' is not ready (user-defined check failed)."
    assert refusal(check, monitor, lambda answer: answer.set(False)) == not_ready
    raised = Failure("ValueError: x")
    assert refusal(check, monitor, lambda answer: answer.set(None, raised)) == "ValueError: x"
    assert refusal(check, monitor, lambda answer: answer.lose()) == "Stub process 'm_0_0' is not healthy."


@rule("2.7.3")
def test_queries_share_a_call_that_runs_and_the_next_one_starts_another(
    check: ReadinessCheck, monitor: FakeMonitor
) -> None:
    first, second = check.ask(), check.ask()
    assert (first.joined, second.joined, len(monitor.answers)) == (False, True, 1)
    monitor.answers[0].set(True)
    assert check.await_ready(first) and check.await_ready(second)
    assert (check.ask().joined, len(monitor.answers)) == (False, 2)


@rule("2.7.3")
def test_one_that_takes_too_long_is_not_ready_and_still_not_run_twice(
    check: ReadinessCheck, monitor: FakeMonitor
) -> None:
    texts = []
    for query in (check.ask(), check.ask()):
        with pytest.raises(UnavailableError) as caught:
            check.await_ready(query, timeout=0)
        texts.append(caught.value.message)
    assert texts == [
        "Timed out waiting for user-defined is_ready() response",
        "Timed out waiting for in-flight is_ready() response",
    ]
    assert len(monitor.answers) == 1


SOURCE = """
import os, time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.directory = args["model_repository"]
        while os.path.exists(self.directory + "/hold"):
            pass

    {method}

    def execute(self, requests):
        if len(requests[0].inputs()) and requests[0].inputs()[0].as_numpy()[0]:
            os._exit(1)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.int32([7]))]) for _ in requests]
"""
CONFIG = """
backend: "python"
input { name: "DIE" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
instance_group { kind: KIND_CPU count: 2 }
"""

#: body of the class -> whether the model is ready, what the log says
METHODS = {
    "plain": ("def is_ready(self):\n        return True", True, ""),
    "async": ("async def is_ready(self):\n        return True", True, ""),
    "static": ("@staticmethod\n    def is_ready():\n        return True", True, ""),
    "absent": ("pass", True, ""),
    "false": (
        "def is_ready(self):\n        return False",
        False,
        "Model 'm_0_0' is not ready (user-defined check failed).",
    ),
    "forgot to return": ("def is_ready(self):\n        pass", False, "is_ready() must return a boolean value"),
    "numpy's bool": (
        "def is_ready(self):\n        return np.bool_(True)",
        False,
        "is_ready() must return a boolean value",
    ),
    "raises": ("def is_ready(self):\n        raise ValueError('no weights')", False, "ValueError: no weights"),
    "async raises": ("async def is_ready(self):\n        raise ValueError('later')", False, "ValueError: later"),
}


@rule("2.7.1", "2.7.2", "2.7.4")
@pytest.mark.parametrize("case", METHODS)
def test_a_models_own_word(lab: Lab, case: str) -> None:
    method, ready, reason = METHODS[case]
    model = lab.load("m", SOURCE.replace("{method}", method), CONFIG)
    before = len(model.logs())
    assert model.ready() is ready
    assert lab.server.ready() is ready
    verbose = [record for record in model.logs()[before:] if record.level == "VERBOSE"]
    assert [record.text.startswith(reason) for record in verbose] == ([] if ready else [True, True])
    assert model(DIE=[0])["OUT"] == 7  # inference goes on unaffected
    lab.server.unload("m")


@rule("2.7.5")
def test_it_is_called_while_the_model_executes(lab: Lab) -> None:
    method = """
    def is_ready(self):
        return not os.path.exists(self.directory + "/busy")
"""
    waits = "while os.path.exists(self.directory + '/busy'):\n            time.sleep(0.001)\n        return ["
    source = SOURCE.replace("{method}", method).replace("return [", waits)
    model = lab.load("busy", source, CONFIG)
    busy = model.directory / "busy"
    busy.touch()
    responses = model.infer(inputs={"DIE": [0]})
    assert model.ready() is False
    busy.unlink()
    eventually(model.ready)  # the first query left one instance's call running, which the next one shares (rule 2.7.3)
    assert next(responses).outputs["OUT"].numpy() == 7
    lab.server.unload("busy")


@rule("2.6.2", "2.6.3")
def test_a_model_with_a_dead_stub_is_not_ready_until_it_is_restarted(lab: Lab) -> None:
    model = lab.load("dies", SOURCE.replace("{method}", "pass"), CONFIG)
    assert model.ready()
    hold = model.directory / "hold"
    hold.touch()
    (response,) = model.infer(raise_on_error=False, inputs={"DIE": [1]})
    assert response.error is not None
    assert response.error.message.endswith("is not healthy.")
    assert (model.ready(), lab.server.ready()) == (False, False)  # one of two instances is enough
    hold.unlink()
    eventually(model.ready)
    assert lab.server.ready()
    assert model(DIE=[0])["OUT"] == 7
    lab.server.unload("dies")
