"""Models that do not end by themselves: how long an unload or a stop waits for them, and what remains."""

from __future__ import annotations

import gc
import os
import re
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.serving import Lab, alive, await_endings, eventually, instances, stub_processes
from tritonlab.core.observe.instrument import Instrument
from tritonlab.core.status import CancelledError, ModelError, TritonError
from tritonlab.server.api.model import Model
from tritonlab.server.api.server import UNLOAD_SECONDS

HEAD = """
import ctypes, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
"""
#: How a model does not end: `holds` keeps the interpreter's lock, so that not even another thread of the stub runs.
EXECUTING = {
    "sleeps": HEAD + "    def execute(self, requests):\n        time.sleep(600)\n",
    "spins": HEAD + "    def execute(self, requests):\n        while True: pass\n",
    "holds": HEAD + "    def execute(self, requests):\n        ctypes.PyDLL(None).sleep(600)\n",
    "waits": f"{HEAD}    def execute(self, requests):\n"
    "        self.kept = requests[0].get_response_sender()\n        return [None]\n",
}
FINALIZING = (
    HEAD
    + """
    def execute(self, requests):
        return [pb_utils.InferenceResponse([])]

    def finalize(self):
        HANG
"""
)
EXITED = "Server exited before the request completed"


class WaitReports(Instrument):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def requests_wait(self, model: str, text: str, now: int) -> None:
        self.texts.append(text)


@contextmanager
def within(low: float, high: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert low <= time.monotonic() - started < high


def executing(lab: Lab, name: str) -> tuple[Model, list[TritonError], int]:
    """Return a model that executes a request, the list that gets its error, and its process id."""
    model = lab.load(name, EXECUTING[name])
    errors: list[TritonError] = []

    def send() -> None:
        (response,) = model.infer(raise_on_error=False)
        assert response.error is not None
        errors.append(response.error)

    threading.Thread(target=send, daemon=True).start()
    (instance,) = instances(model)
    eventually(lambda: instance.inflight)
    assert instance.pid is not None
    return model, errors, instance.pid


def gone(model: Model, pid: int) -> None:
    """Assert that nothing is left of a model, and that it can be loaded again."""
    assert not alive(pid)
    assert (model.state, model.reason) == ("UNAVAILABLE", "unloaded")
    await_endings()


@pytest.mark.parametrize("name", EXECUTING)
def test_an_unload_waits_for_its_timeout(lab: Lab, name: str) -> None:
    model, errors, pid = executing(lab, name)
    with within(0.5, 30):
        lab.server.unload(model, timeout=0.5)
    gone(model, pid)
    eventually(lambda: [error.message for error in errors] == [EXITED])
    lab.server.load(name)
    assert model.ready()
    lab.server.unload(model)


@pytest.mark.timeout(60)
def test_an_unload_without_a_timeout_waits_as_long_as_a_notebooks(lab: Lab) -> None:
    model, errors, pid = executing(lab, "sleeps")
    with within(UNLOAD_SECONDS, 50):
        lab.server.unload(model)
    gone(model, pid)
    eventually(lambda: [error.message for error in errors] == [EXITED])


def test_a_clients_unload_waits_for_ever_as_in_triton(lab: Lab) -> None:
    model, _, pid = executing(lab, "sleeps")
    lab.server.core.control.unload("sleeps", wait=False)
    (draining,) = lab.server.draining("sleeps")
    assert draining["ends_in"] is None
    lab.server.kill(model)
    gone(model, pid)


def test_a_forked_child_cannot_end_the_versions_of_its_parent(lab: Lab) -> None:
    model, _, pid = executing(lab, "sleeps")
    lab.server.core.control.unload("sleeps", wait=False)
    child = os.fork()
    if child == 0:
        try:
            os._exit(len(lab.server.kill(model)) + len(lab.server.draining()))
        finally:
            os._exit(255)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(lab.server.draining("sleeps")) == 1
    lab.server.kill(model)
    gone(model, pid)


@pytest.mark.parametrize("hang", ["time.sleep(600)", "ctypes.PyDLL(None).sleep(600)"])
def test_a_finalize_that_hangs_is_ended_too(lab: Lab, hang: str) -> None:
    model = lab.load("finalizes", FINALIZING.replace("HANG", hang))
    (pid,) = [instance.pid for instance in instances(model)]
    assert pid is not None
    with within(0.5, 30):
        lab.server.unload(model, timeout=0.5)
    gone(model, pid)


def test_what_is_waited_for_is_reported(lab: Lab) -> None:
    reports = WaitReports()
    lab.server.instruments.add(reports)
    try:
        model, _, pid = executing(lab, "sleeps")
        lab.server.unload(model, timeout=2.5)
        waits = f"waits for 1 unanswered request of 'sleeps_0' (pid {pid})."
        ends = r"It is ended in [01] s; an interrupt ends it now\."
        (text,) = reports.texts
        assert re.fullmatch(re.escape(f"'sleeps' is being unloaded and {waits} ") + ends, text)
        assert lab.server.logs("sleeps")[-1].text == reports.texts[0]
        model = lab.load("finalizes", FINALIZING.replace("HANG", "time.sleep(600)"))
        lab.server.unload(model, timeout=2.5)
        assert "waits for the finalize of 'finalizes_0' (pid " in reports.texts[-1]
    finally:
        lab.server.instruments.remove(reports)


def test_one_that_ends_in_time_ends_as_ever(lab: Lab) -> None:
    marker = lab.repository / "finalized"
    model = lab.load("ends", FINALIZING.replace("HANG", f"time.sleep(0.2); open({str(marker)!r}, 'w').close()"))
    with within(0.2, 19):
        lab.server.unload(model, timeout=20)
    assert marker.exists()


def interrupted(function: Callable[[], Any]) -> None:
    """Interrupt a call while it runs, and assert that it returns at once."""
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with within(0.4, 60), pytest.raises(KeyboardInterrupt):
        function()
    timer.join()


def test_an_interrupted_unload_ends_it_now(lab: Lab) -> None:
    model, errors, pid = executing(lab, "sleeps")
    interrupted(lambda: lab.server.unload(model, timeout=600))
    gone(model, pid)
    eventually(lambda: len(errors) == 1)
    lab.server.load("sleeps")
    lab.server.unload(model)


def test_without_a_timeout_an_interrupt_ends_only_the_waiting(lab: Lab) -> None:
    model, errors, pid = executing(lab, "waits")
    interrupted(lambda: lab.server.unload(model, timeout=None))
    assert alive(pid)
    assert model.state == "UNLOADING"
    lab.server.unload(model, timeout=0.1)  # nothing serves any more, and what ends is of an earlier call
    gone(model, pid)
    eventually(lambda: len(errors) == 1)


def test_what_a_reload_took_out_of_service_is_ended_with_the_model(lab: Lab) -> None:
    model, errors, pid = executing(lab, "spins")
    lab.load("spins", EXECUTING["sleeps"])
    assert alive(pid)
    lab.server.unload(model, timeout=0.5)
    gone(model, pid)
    eventually(lambda: len(errors) == 1)


def test_an_interrupted_stop_leaves_no_process(tmp_path: Path) -> None:
    lab = Lab(tmp_path, warm=0)
    before = {process.pid for process in stub_processes()}
    executing(lab, "holds")
    executing(lab, "sleeps")
    interrupted(lambda: lab.server.stop(600))
    eventually(lambda: {process.pid for process in stub_processes()} <= before)  # other servers have some, too
    assert not lab.server.live()
    lab.server.stop()


def test_what_a_reload_replaced_is_listed_and_killed_by_hand(lab: Lab) -> None:
    model, errors, pid = executing(lab, "holds")
    assert lab.server.draining() == [] == lab.server.kill(model, serving=False)
    lab.load("holds", EXECUTING["sleeps"])
    (found,) = lab.server.draining("holds")
    assert (found["model"], found["version"], found["pids"], found["ends_in"]) == ("holds", 1, [pid], None)
    assert found["awaits"] == f"1 unanswered request of 'holds_0' (pid {pid})"
    assert 0 <= time.time() - found["since"] < 60
    with within(0, 60):
        assert [each["pids"] for each in lab.server.kill("holds")] == [[pid]]
    assert not alive(pid) and model.ready()
    assert lab.server.draining() == []
    eventually(lambda: [error.message for error in errors] == [EXITED])
    lab.server.unload(model)


@pytest.mark.parametrize("name", ["spins", "holds", "waits"])
def test_a_process_that_hangs_while_it_serves_is_killed_by_hand_and_replaced(lab: Lab, name: str) -> None:
    model, errors, pid = executing(lab, name)
    (killed,) = lab.server.kill(name)
    assert (killed["model"], killed["version"], killed["pids"]) == (name, 1, [pid])
    assert killed["awaits"] == f"1 unanswered request of '{name}_0' (pid {pid})"
    eventually(lambda: len(errors) == 1)
    assert f"Stub process '{name}_0' is not healthy" in errors[0].message
    assert isinstance(errors[0], ModelError) and "It was killed on request" in errors[0].reason
    assert "somebody" not in errors[0].reason
    eventually(lambda: model.ready() and instances(model)[0].pid not in (None, pid))
    assert not alive(pid) and lab.server.kill(name) == []  # which leaves an idle one alone


def test_what_was_cancelled_does_not_hang_the_next_process(lab: Lab) -> None:
    """Stop, the same again, Stop, and then `%triton kill`: the second request has no client any more."""
    lab.server.unload("holds")
    model, _, pid = executing(lab, "holds")
    second = model.create_request()
    answers = model.infer(second, raise_on_error=False)
    second.cancel()
    lab.server.kill("holds")
    assert isinstance(next(answers).error, CancelledError)
    eventually(lambda: model.ready() and instances(model)[0].pid not in (None, pid))
    assert lab.server.core.requests("holds") == []


def test_what_a_reload_replaced_is_ended_after_the_stated_time(tmp_path: Path) -> None:
    lab = Lab(tmp_path, warm=0, drain_seconds=2.5)
    reports = WaitReports()
    lab.server.instruments.add(reports)
    try:
        model, errors, pid = executing(lab, "spins")
        lab.load("spins", EXECUTING["sleeps"])
        (found,) = lab.server.draining()
        assert 0 < found["ends_in"] <= 2.5
        eventually(lambda: not alive(pid))
        eventually(lambda: len(errors) == 1)
        killed = f"'spins' version 1 did not end in 2.5 s and is killed: it waits for {found['awaits']}."
        assert reports.texts == [killed]
        assert model.ready()
    finally:
        lab.server.stop()


def test_what_a_reload_replaced_is_gone_from_memory_once_it_has_ended(tmp_path: Path) -> None:
    """Also before the time is over that it had: every edit of a cell replaces a version, however quick they are."""
    lab = Lab(tmp_path, warm=0, drain_seconds=600)
    try:
        lab.load("edited", EXECUTING["sleeps"])
        replaced = weakref.ref(lab.server.core.find("edited"))
        lab.load("edited", EXECUTING["spins"])

        def gone() -> bool:
            gc.collect()
            return replaced() is None

        eventually(gone)
    finally:
        lab.server.stop()


def test_an_unload_that_nobody_waits_for_has_its_time_too(lab: Lab) -> None:
    model, errors, pid = executing(lab, "waits")
    lab.server.unload(model, wait=False, timeout=3)
    assert model.state == "UNLOADING" and lab.server.draining("waits")
    eventually(lambda: not alive(pid))
    eventually(lambda: len(errors) == 1 and not lab.server.draining())
