"""Deaths of stubs: what is made of faulthandler's report, and what real stubs leave when they die."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import Lab, Script, eventually
from tritonlab.core.status import Frame, ModelError, RemoteException
from tritonlab.engine.life.stub_death import CrashReport, blocked_stacks, place_of
from tritonlab.ipc.processes.interpreter import STUB

REPORT = f"""\
Fatal Python error: Segmentation fault

Current thread 0x00007f1c (most recent call first):
  File "/python/ctypes/__init__.py", line 519 in string_at
  File "/m/1/model.py", line 12 in helper
  File "/m/1/model.py", line 20 in execute
  File "{STUB.parent}/_pb_stub/process/model_context.py", line 80 in execute
  File "{STUB.parent}/_pb_stub/process/main_loop.py", line 60 in run

Extension modules: numpy.core._multiarray_umath (total: 1)
""".splitlines()
FRAMES = (
    Frame("/m/1/model.py", 20, "execute"),
    Frame("/m/1/model.py", 12, "helper"),
    Frame("/python/ctypes/__init__.py", 519, "string_at"),
)


def crash(*lines: str) -> CrashReport:
    report = CrashReport()
    for line in lines:
        report.add(line)
    return report


def test_the_frames_are_the_authors_outermost_first() -> None:
    found = crash("a warning before", *REPORT).exception("SIGSEGV")
    assert found == RemoteException("SIGSEGV", "Segmentation fault", FRAMES)


@pytest.mark.parametrize(
    ("text", "signal", "is_it"),
    [
        ("Segmentation fault", "SIGSEGV", True),
        ("Segmentation fault", "SIGABRT", False),
        ("Segmentation fault", "SIGKILL", False),
        ("Segmentation fault", "", False),
        ("Aborted", "SIGABRT", True),
        ("Bus error", "SIGBUS", True),
        ("Floating-point exception", "SIGFPE", True),
        ("Illegal instruction", "SIGILL", True),
        ("none_dealloc: deallocating None", "SIGABRT", True),
        ("none_dealloc: deallocating None", "SIGSEGV", False),
    ],
)
def test_a_report_counts_only_for_its_signal(text: str, signal: str, is_it: bool) -> None:
    """A process that the model forked writes to the same pipe, and the stub lives on."""
    report = crash(f"Fatal Python error: {text}", *REPORT[1:])
    assert (report.exception(signal) is not None) == is_it


def test_the_last_report_counts_and_only_its_first_thread() -> None:
    other = ["Thread 0x1 (most recent call first):", '  File "/m/1/model.py", line 99 in work']
    found = crash(*REPORT, "Fatal Python error: Aborted", "", *REPORT[2:8], "", *other).exception("SIGABRT")
    assert found == RemoteException("SIGABRT", "Aborted", FRAMES)


@pytest.mark.parametrize(
    ("lines", "frames"),
    [
        (["Current thread 0x1 (most recent call first):", "  <no Python frame>"], ()),
        (['  File "x.py", line ??? in f'], (Frame("x.py", 0, "f"),)),
        (['  File "with \\xe9, line 5.py", line 3 in <module>'], (Frame("with \\xe9, line 5.py", 3, "<module>"),)),
        ([], ()),
    ],
)
def test_odd_reports(lines: list[str], frames: tuple[Frame, ...]) -> None:
    found = crash("Fatal Python error: Bus error", *lines).exception("SIGBUS")
    assert found is not None
    assert found.frames == frames


def test_lines_without_a_report_are_not_kept() -> None:
    report = crash(*['  File "x.py", line 3 in f'] * 1000)
    assert report.exception("SIGSEGV") is None
    endless = crash(REPORT[0], *REPORT[3:5] * 1000).exception("SIGSEGV")
    assert endless is not None
    assert len(endless.frames) < 200


def test_the_place_in_a_sentence() -> None:
    whole = RemoteException("SIGSEGV", "", FRAMES)
    assert place_of(whole, "/m/1/model.py") == "/m/1/model.py:12 in helper, which had called string_at"
    assert place_of(RemoteException("SIGSEGV", "", FRAMES[:2]), "/m/1/model.py") == "/m/1/model.py:12 in helper"
    assert place_of(whole, "/elsewhere.py") == "/python/ctypes/__init__.py:519 in string_at"
    assert place_of(RemoteException("SIGSEGV", ""), "/m/1/model.py") == ""


def test_of_blocked_stacks_the_authors_lines_are_kept() -> None:
    ours = f'  File "{STUB.parent}/_pb_stub/process/main_loop.py", line 60 in run'
    assert blocked_stacks(
        [
            "Current thread 0x1 (most recent call first):",
            '  File "/m/1/model.py", line 9 in execute',
            ours,
            "Thread 0x2 (most recent call first):",
            ours,
            '  File "/python/threading.py", line 982 in run',
            "Thread 0x3 (most recent call first):",
            '  File "/m/1/model.py", line 20 in work',
            "",
            "something else",
            "Thread 0x4 (most recent call first):",
            ours,
        ]
    ).splitlines() == [
        "Current thread 0x1 (most recent call first):",
        '  File "/m/1/model.py", line 9 in execute',
        "Thread 0x3 (most recent call first):",
        '  File "/m/1/model.py", line 20 in work',
    ]
    assert blocked_stacks([]) == ""


# -- real stubs

MODEL = """
import ctypes, mmap, os, signal
import numpy as np

class TritonPythonModel:
    def execute(self, requests):
        self.inner(requests[0].request_id())

    def inner(self, how):
        if how == "segv" and not print("before"):
            ctypes.string_at(0)
        if how == "abort":
            os.abort()
        if how == "bus":
            with open("cut", "w+b") as file:
                os.ftruncate(file.fileno(), 8192)
                mapped = mmap.mmap(file.fileno(), 8192)
                os.ftruncate(file.fileno(), 0)
            os.unlink("cut")
            return mapped[4096]
        if how.startswith("MB "):
            self.kept = np.ones(int(how[3:]) << 17)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def dying(lab: Lab) -> Script:
    return Script(lab.load("dying", MODEL, 'backend: "python" instance_group { kind: KIND_CPU }'))


def died(script: Script, how: str) -> ModelError:
    eventually(script.model.ready)
    (response,) = script.model.infer(request_id=how, raise_on_error=False)
    assert isinstance(response.error, ModelError)
    assert response.error.message == "Stub process 'dying_0_0' is not healthy."
    return response.error


def test_a_crash_says_in_which_line_of_the_model(dying: Script) -> None:
    file = dying.instance.plan.source.path
    error = died(dying, "segv")
    assert error.reason == (
        "The stub process of 'dying_0_0' ended with signal SIGSEGV (Segmentation fault). "
        f"Python was at {file}:11 in inner, which had called string_at."
    )
    assert error.exception is not None
    assert error.exception.type_name == "SIGSEGV"
    assert error.exception.frames[:2] == (Frame(file, 7, "execute"), Frame(file, 11, "inner"))
    assert error.exception.frames[2].function == "string_at"
    assert len(error.exception.frames) == 3
    assert error.log[-1] == "before"  # not the report that is shown as the exception


def test_an_abort_too_and_the_instance_remembers_it(dying: Script) -> None:
    error = died(dying, "abort")
    assert error.exception is not None
    assert error.exception.type_name == "SIGABRT"
    eventually(lambda: dying.model.instances()[0]["restarts"] == 2)
    assert dying.model.instances()[0]["last_death"] == error.reason
    assert any(record.text.endswith(error.reason) for record in dying.model.logs() if record.stream == "server")


def test_a_kill_leaves_no_place(dying: Script) -> None:
    error = died(dying, "kill")
    # what may follow tells of memory: other processes on this machine may have run out of it meanwhile
    assert error.reason.startswith("The stub process of 'dying_0_0' ended with signal SIGKILL (Killed).")
    assert "Python was at" not in error.reason
    assert "memory" in error.reason
    assert error.exception is None


def test_a_kill_from_outside_is_reported_as_one(dying: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tritonlab.ipc.processes.child_process.oom_kills", lambda: 0)  # whatever else this machine does
    eventually(dying.model.ready)
    dying.instance.stub.process.cause._oom_kills = 0  # type: ignore[union-attr]
    restarts = dying.model.instances()[0]["restarts"]
    os.kill(dying.pid, signal.SIGKILL)
    eventually(lambda: dying.model.instances()[0]["restarts"] == restarts + 1)
    text = dying.model.instances()[0]["last_death"]
    assert text.startswith(
        "The stub process of 'dying_0_0' ended with signal SIGKILL (Killed). Nothing shows that memory"
    )
    assert any(record.text.endswith(text) for record in dying.model.logs() if record.stream == "server")


def test_a_bus_error_says_what_was_not_there(dying: Script) -> None:
    error = died(dying, "bus")
    assert "SIGBUS (Bus error). Python was at " in error.reason
    assert error.reason.endswith("the file system or memory is full.") or "/dev/shm is full" in error.reason


@pytest.fixture
def small_group() -> Iterator[Path]:
    """Yield a memory cgroup of 200 MB."""
    group = Path("/sys/fs/cgroup/memory/tritonlab_test")
    if not group.parent.is_dir():
        group = Path("/sys/fs/cgroup/tritonlab_test")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        limit = group / ("memory.limit_in_bytes" if "memory" in group.parts else "memory.max")
        try:
            limit.write_text(str(200 << 20))
        except OSError as error:
            pytest.skip(f"a cgroup's memory cannot be limited here: {error}")
        yield group
    finally:
        with contextlib.suppress(OSError):
            eventually(lambda: not (group / "cgroup.procs").read_text())
            os.rmdir(group)


def test_a_stub_that_ran_out_of_memory(dying: Script, small_group: Path) -> None:
    eventually(dying.model.ready)
    (small_group / "cgroup.procs").write_text(str(dying.pid))
    assert "The operating system has killed a process for lack of memory" in died(dying, "MB 400").reason


def test_a_stub_that_c_code_blocks_shows_its_stack_all_the_same(script: Script) -> None:
    def blocked() -> str:
        text = script.model.stacks(timeout=0.2)["script_0_0"]
        return text if text.startswith("C code holds the interpreter's lock (the GIL).\n") else ""

    responses = script.infer("ctypes.PyDLL(None).sleep(3)\nreturn [answer(OUT=np.float32([1]))]")
    text = eventually(blocked)  # it may not have come to the sleep at first
    assert f'  File "{script.instance.plan.source.path}", line ' in text
    assert "_pb_stub" not in text
    assert next(responses).outputs["OUT"].numpy() == [1.0]  # and goes on


def test_a_crash_of_a_forked_process_is_not_the_stubs(script: Script) -> None:
    code = "pid = os.fork()\nif pid == 0: ctypes.string_at(0)\nos.waitpid(pid, 0)\nos.kill(os.getpid(), signal.SIGKILL)"
    error = script.fails(code)
    assert isinstance(error, ModelError)
    assert error.reason.startswith("The stub process of 'script_0_0' ended with signal SIGKILL (Killed).")
    assert "Python was at" not in error.reason
    assert error.exception is None
    assert any("Segmentation fault" in line for line in error.log)
