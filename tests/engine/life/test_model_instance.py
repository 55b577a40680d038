from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.models import ADD_SUB, ADD_SUB_CONFIG
from tests.serving import Lab, Script, alive, eventually, in_threads, instances
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import InvalidArgumentError, ModelError, ModelLoadError, TritonError
from tritonlab.engine.life.instance_state import InstanceState
from tritonlab.engine.life.stub_replacement import LONGEST_PAUSE
from tritonlab.server.api.model import Model
from tritonlab.testing import collect

NOT_HEALTHY = "Stub process 'script_0_0' is not healthy."


# -- a stub that dies


@pytest.mark.parametrize(
    ("code", "reason", "crash"),
    [
        ("os._exit(3)", "exit status 3", None),
        ("os.kill(os.getpid(), signal.SIGKILL)", "signal SIGKILL (Killed)", None),
        ("ctypes.string_at(0)", "signal SIGSEGV (Segmentation fault)", "SIGSEGV"),
        ("os.abort()", "signal SIGABRT (Aborted)", "SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", "signal SIGTERM (Terminated)", None),
    ],
    ids=["_exit", "SIGKILL", "SIGSEGV", "abort", "SIGTERM"],
)
def test_a_dead_stub_fails_its_request_says_why_and_is_replaced(
    script: Script, code: str, reason: str, crash: str | None
) -> None:
    restarts, pid = script.instance.replacement.count, script.pid
    error = script.fails(f"print('before the end'); {code}")
    assert isinstance(error, ModelError)
    assert error.message == NOT_HEALTHY  # Triton's text, rule 2.6.1
    assert error.reason.startswith(f"The stub process of 'script_0_0' ended with {reason}.")
    assert "before the end" in error.log
    assert (error.exception and error.exception.type_name) == crash
    assert script.value("6 * 7") == 42  # the next request waits for the new stub
    assert script.instance.replacement.count == restarts + 1
    assert script.pid != pid
    assert not alive(pid)
    assert script.instance.replacement.last_death == error.reason


def test_readiness_is_false_until_the_stub_is_replaced(lab: Lab) -> None:  # rule 2.6.2
    model, hold = lab.held("slow", "os._exit(1)")
    assert model.ready()
    assert lab.server.ready()
    with pytest.raises(ModelError, match="is not healthy"):
        next(model.infer())
    assert not model.ready()
    assert not lab.server.ready()
    assert model.instances()[0]["state"] == "restarting"
    assert model.state == "READY"  # as the repository index shows it
    hold.unlink()
    eventually(model.ready)
    assert lab.server.ready()
    lab.server.unload(model)


def test_all_requests_of_a_batch_fail_with_errors_of_their_own(lab: Lab) -> None:
    config = 'backend: "python" max_batch_size: 8 dynamic_batching { preferred_batch_size: 4 '
    config += "max_queue_delay_microseconds: 5000000 } instance_group { kind: KIND_CPU }"
    config += 'input { name: "A" data_type: TYPE_FP32 dims: [ 1 ] }'
    model = lab.load("dies", "import os\nclass TritonPythonModel:\n def execute(self, r): os._exit(len(r))\n", config)

    def send(index: int) -> TritonError:
        (response,) = model.infer(inputs={"A": [[1.0]]}, raise_on_error=False)
        assert response.error is not None
        return response.error

    errors = in_threads(4, send)
    assert {error.message for error in errors} == {"Stub process 'dies_0_0' is not healthy."}
    assert {error.reason for error in errors} == {"The stub process of 'dies_0_0' ended with exit status 4."}
    assert len({id(error) for error in errors}) == 4
    lab.server.unload(model)


def test_a_stub_killed_while_idle_is_replaced_once(script: Script) -> None:
    restarts = script.instance.replacement.count
    os.kill(script.pid, signal.SIGKILL)
    eventually(lambda: script.instance.replacement.count == restarts + 1)
    # an instance that its scheduler counted twice would get two batches at once
    assert in_threads(8, lambda index: script.value(str(index))) == list(range(8))
    assert script.instance.replacement.count == restarts + 1


def test_a_request_that_comes_while_the_stub_is_replaced_waits_for_the_new_one(script: Script) -> None:
    restarts = script.instance.replacement.count
    os.kill(script.pid, signal.SIGKILL)
    eventually(lambda: script.instance.state is not InstanceState.READY or script.instance.replacement.count > restarts)
    assert in_threads(8, lambda index: script.value(str(index))) == list(range(8))


def test_death_under_load_answers_every_request(script: Script) -> None:
    before = script.instance.replacement.count
    failed: list[str] = []

    def send(index: int) -> None:
        while script.instance.replacement.count == before:
            try:
                assert script.value("1") == 1
            except ModelError as error:
                failed.append(error.message)

    script.infer("threading.Timer(0.02, os._exit, (1,)).start(); return [answer()]")
    in_threads(6, send)
    assert set(failed) <= {"Stub process 'script_0_0' is not healthy."}
    assert script.value("2") == 2
    assert script.instance.replacement.count == before + 1
    assert script.instance.inflight == {}


def test_with_two_instances_the_other_one_goes_on(lab: Lab) -> None:  # rule 2.6.3
    model = lab.load("pair", ADD_SUB, ADD_SUB_CONFIG.replace("KIND_CPU", "KIND_CPU count: 2"))
    first, second = instances(model)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: first.state is not InstanceState.READY or first.replacement.count)
    for _ in range(20):
        assert model(INPUT0=[1.0], INPUT1=[2.0])["OUTPUT0"] == [3.0]
    eventually(model.ready)
    assert [first.replacement.count, second.replacement.count] == [1, 0]
    lab.server.unload(model)


def test_a_model_that_cannot_start_again_is_tried_again_until_it_can(lab: Lab) -> None:
    marker = lab.repository / "started_once"
    model = lab.load(
        "once",
        f"""
import os

class TritonPythonModel:
    def initialize(self, args):
        os.mkdir({str(marker)!r})  # works once

    def execute(self, requests):
        os._exit(5)
""",
    )
    with pytest.raises(ModelError, match="not healthy"):
        next(model.infer())
    eventually(lambda: instances(model)[0].state is InstanceState.FAILED)
    with pytest.raises(ModelError) as raised:
        next(model.infer())
    assert raised.value.message == "Stub process 'once_0' is not healthy."
    assert "exit status 5" in raised.value.reason
    assert not model.ready()
    assert any("could not be started again: FileExistsError" in record.text for record in model.logs())
    marker.rmdir()
    eventually(model.ready)
    (instance,) = model.instances()
    assert (instance["state"], instance["failure"], instance["next_try"], instance["restarts"]) == (
        "ready",
        "",
        None,
        1,
    )
    with pytest.raises(ModelError, match="not healthy"):  # it gets requests again
        next(model.infer())
    lab.server.unload(model)


def test_a_stub_that_is_killed_while_it_starts_is_replaced_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tritonlab.ipc.processes.child_process.oom_kills", lambda: 0)  # whatever else this machine does
    kills = lab.repository / "kills"
    kills.mkdir()
    model = lab.load(
        "killed",
        f"""
import os, signal
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        for name in os.listdir({str(kills)!r}):
            os.remove(os.path.join({str(kills)!r}, name))
            os.kill(os.getpid(), signal.SIGKILL)

    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for _ in requests]
""",
    )
    for number in range(3):
        (kills / str(number)).touch()
    (instance,) = instances(model)
    assert instance.pid is not None
    os.kill(instance.pid, signal.SIGKILL)
    eventually(lambda: instance.state is not InstanceState.READY or instance.replacement.count)
    in_threads(8, lambda index: next(model.infer()))  # wait for the fourth start, and none of them fails
    assert instance.replacement.count == 1
    assert sum(record.text.endswith("Next try at once.") for record in model.logs()) == 3
    lab.server.unload(model)


def test_a_model_whose_own_threads_kill_it_starts_after_pauses(lab: Lab) -> None:
    model = lab.load(
        "suicidal",
        """
import os, threading

class TritonPythonModel:
    def initialize(self, args):
        threading.Timer(0.1, os._exit, (7,)).start()  # not before it is READY, also on a busy machine

    def execute(self, requests):
        return []
""",
    )
    instance = instances(model)[0]
    facts = eventually(
        lambda: next((one for one in model.instances() if one["next_try"]), None)  # read at once: it tries again soon
    )
    assert (
        "it died 3 times without a request in between. The stub process of 'suicidal_0' ended with exit status 7."
        in (facts["failure"])
    )
    assert 0 < facts["next_try"] <= 1
    assert instance.replacement.count >= 2
    with pytest.raises(ModelError, match="not healthy"):
        next(model.infer())
    eventually(lambda: instance.replacement.count >= 3)
    lab.server.unload(model)


@pytest.fixture
def failing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> tuple[Model, Path]:
    """Return a model whose stub has died and cannot start before the file is gone; it pauses for longer than a test
    takes.
    """
    monkeypatch.setattr("tritonlab.engine.life.stub_replacement.FIRST_PAUSE", LONGEST_PAUSE)
    name = "paused"
    broken = lab.repository / f"{name}.broken"
    source = f"""
import os

class TritonPythonModel:
    def initialize(self, args):
        if os.path.exists({str(broken)!r}):
            raise RuntimeError("no weights")

    def execute(self, requests):
        os._exit(1)
"""
    model = lab.load(name, source)
    broken.touch()
    with pytest.raises(ModelError):
        next(model.infer())
    eventually(lambda: (model.instances()[0]["next_try"] or 0) > 10)
    return model, broken


def test_a_load_does_not_wait_for_the_next_try(lab: Lab, failing: tuple[Model, Path]) -> None:
    model, broken = failing
    instance = instances(model)[0]
    assert not lab.server.ready()
    with pytest.raises(ModelLoadError, match="no weights"):
        lab.server.load("paused")
    assert instances(model) == [instance]  # the next try is still to come
    broken.unlink()
    lab.server.load("paused")
    assert model.ready()
    assert instances(model) != [instance]
    eventually(lambda: instance.state is InstanceState.STOPPED)
    lab.server.unload(model)


def test_an_unload_does_not_wait_for_the_next_try(lab: Lab, failing: tuple[Model, Path]) -> None:
    model, _ = failing
    instance = instances(model)[0]
    started = time.monotonic()
    lab.server.unload(model)
    assert time.monotonic() - started < 9  # it is to come after more than 10 s
    assert instance.state is InstanceState.STOPPED
    assert instance.replacement.next_try is None


def test_a_model_can_be_unloaded_while_its_stub_is_replaced(lab: Lab) -> None:
    model, hold = lab.held("slow_to_return", "os._exit(1)")
    instance = instances(model)[0]
    dead = instance.pid
    with pytest.raises(ModelError):
        next(model.infer())
    eventually(lambda: instance.pid != dead, timeout=60)  # the new one initializes, and would for ever
    assert instance.pid is not None
    lab.server.unload(model)
    assert hold.exists()
    assert instance.state is InstanceState.STOPPED
    assert not alive(instance.pid)


def test_a_model_that_forked_dies_with_its_children(script: Script) -> None:
    """A child keeps the dead stub's end of the socket open: only a look at the process itself tells."""
    child = int(script.text("os.fork() or time.sleep(600)"))
    assert alive(child)
    error = script.fails("os._exit(9)")
    assert isinstance(error, ModelError)
    assert "exit status 9" in error.reason
    eventually(lambda: not alive(child))


# -- a request that cannot be sent


def test_a_field_that_cannot_be_sent_fails_its_request_only(script: Script) -> None:
    code = {"CODE": [b"return [answer(OUT=np.float32([1]))]"]}
    request = script.model.create_request(inputs=code)
    request.request_id = object()  # type: ignore[assignment]
    responses = collect(request)
    script.model.server.core.infer(request)  # past the checks of the API
    (response,) = responses
    assert isinstance(response.error, InvalidArgumentError)
    assert "the request cannot be sent to the model" in response.error.message
    assert script.value("2") == 2
    assert script.instance.stub is not None
    assert script.instance.stub.link.region.used == 0


# -- who waits reads the answer itself


def request_here(script: Script, code: str) -> tuple[InferenceRequest, list[int]]:
    """Return a request for `infer_here`, and the threads on which its answer comes."""
    threads: list[int] = []
    request = script.model.create_request(inputs={"CODE": [code.encode()]})
    request.on_response = lambda request, response: threads.append(threading.get_ident())
    return request, threads


def test_who_waits_reads_the_answer(script: Script) -> None:
    def reader() -> int:
        request, threads = request_here(script, "return [answer(OUT=np.float32([1]))]")
        script.model.server.core.infer_here(request)
        eventually(lambda: bool(threads))
        return threads[0]

    assert threading.get_ident() in [reader() for _ in range(50)]


def test_who_has_waited_in_vain_leaves_the_answer_to_others(script: Script, tmp_path: Path) -> None:
    wait = f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.005)"
    request, threads = request_here(script, f"{wait}\nreturn [answer(OUT=np.float32([1]))]")
    script.model.server.core.infer_here(request)
    assert not threads
    (tmp_path / "go").touch()
    eventually(lambda: bool(threads))
    assert threads != [threading.get_ident()]


def test_who_waits_for_what_was_never_sent_leaves_the_link_to_others(script: Script) -> None:
    request, threads = request_here(script, "return [answer(OUT=np.float32([1]))]")
    request.request_id = object()  # type: ignore[assignment]
    script.model.server.core.infer_here(request)
    assert threads == [threading.get_ident()]
    assert script.value("2") == 2


# -- what an instance is made of


def test_repr_tells_the_state(script: Script) -> None:
    assert repr(script.instance) == f"<ModelInstance script_0_0 [ready | 0 in flight | pid {script.pid}]>"
