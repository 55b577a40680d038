from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import psutil
import pytest

from tests.serving import alive, eventually, open_descriptors
from tritonlab.ipc.processes.child_process import ChildProcess, DeathCause

MB = 1 << 20
SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def start() -> Iterator[Callable[[str], ChildProcess]]:
    started: list[ChildProcess] = []

    def start(code: str) -> ChildProcess:
        null = os.open(os.devnull, os.O_RDWR)
        started.append(
            ChildProcess.start(
                [sys.executable, "-S", "-c", code], environment={}, stdout=null, stderr=null, inherited=()
            )
        )
        os.close(null)
        return started[-1]

    yield start
    for child in started:
        child.kill()
        child.close()


def test_a_process_that_ends_by_itself(start: Callable[[str], ChildProcess]) -> None:
    child = start("raise SystemExit(3)")
    assert child.wait(60)
    assert (child.returncode, child.exit_reason(), child.exit_signal()) == (3, "exit status 3", "")


def test_a_process_that_runs_has_no_end(start: Callable[[str], ChildProcess]) -> None:
    child = start(SLEEP)
    assert not child.wait(0)
    assert (child.returncode, child.exit_reason()) == (None, "no exit yet")


def test_a_killed_process_says_so(start: Callable[[str], ChildProcess]) -> None:
    child = start(SLEEP)
    child.kill()
    assert (child.exit_reason(), child.exit_signal()) == ("signal SIGKILL (Killed)", "SIGKILL")


def test_a_signal_without_a_name(start: Callable[[str], ChildProcess]) -> None:
    number = signal.SIGRTMIN + 3
    child = start(f"import os; os.kill(os.getpid(), {number})")
    assert child.wait(60)
    assert (child.exit_reason(), child.exit_signal()) == (f"signal {number}", f"signal {number}")


def test_a_process_leads_its_own_session(start: Callable[[str], ChildProcess]) -> None:
    assert os.getsid(start(SLEEP).pid) != os.getsid(0)


def test_what_it_forked_is_terminated_and_killed_with_it(start: Callable[[str], ChildProcess]) -> None:
    child = start(f"import os; os.fork(); {SLEEP}")
    eventually(lambda: len(psutil.Process(child.pid).children()) == 1)
    (forked,) = psutil.Process(child.pid).children()
    child.terminate()
    assert child.wait(60)
    eventually(lambda: not alive(forked.pid))
    assert child.exit_signal() == "SIGTERM"


def test_a_signal_goes_to_the_process_alone(start: Callable[[str], ChildProcess]) -> None:
    child = start(f"import os; os.fork(); {SLEEP}")
    eventually(lambda: len(psutil.Process(child.pid).children()) == 1)
    (forked,) = psutil.Process(child.pid).children()
    child.send_signal(signal.SIGTERM)
    assert child.wait(60)
    assert alive(forked.pid)
    child.kill()
    eventually(lambda: not alive(forked.pid))


def test_a_closed_process_is_not_signalled(start: Callable[[str], ChildProcess]) -> None:
    before = open_descriptors()
    child = start("pass")
    assert child.wait(60)
    child.close()
    child.close()
    child.send_signal(signal.SIGTERM)
    eventually(lambda: open_descriptors() <= before)


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of one number: the processes that this machine, which has 4 GB, has killed for lack of memory."""
    found = [3]
    monkeypatch.setattr("tritonlab.ipc.processes.child_process.oom_kills", lambda: found[0])
    monkeypatch.setattr("tritonlab.ipc.processes.child_process.memory_limit", lambda: 4096 * MB)
    monkeypatch.setattr("tritonlab.ipc.processes.child_process.shared_memory", lambda: (0, 64 * MB))
    return found


def of(signal: str, peak: int = 0) -> DeathCause:
    return DeathCause(SimpleNamespace(exit_signal=lambda: signal, peak=peak))  # type: ignore[arg-type]


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"])
def test_a_kill_from_outside(kills: list[int], signal: str) -> None:
    cause = of(signal, 100 * MB)
    assert cause.is_kill()
    assert cause.words().startswith("Nothing shows that memory ran out (it had used up to 100 MB of 4.0 GB): somebody")


def test_a_kill_for_lack_of_memory(kills: list[int]) -> None:
    cause = of("SIGKILL")
    kills[0] += 1
    assert not cause.is_kill()
    assert cause.words().startswith("The operating system has killed a process for lack of memory")
    assert not of("SIGKILL", 3000 * MB).is_kill()
    assert of("SIGKILL", 3000 * MB).words() == "Memory probably ran out: it had used up to 2.9 GB of 4.0 GB."


def test_a_full_shared_memory(kills: list[int]) -> None:
    assert not of("SIGBUS").is_kill()
    assert of("SIGBUS").words().startswith("/dev/shm is full (64 MB)")


@pytest.mark.parametrize("signal", ["", "SIGSEGV", "SIGABRT"])
def test_what_the_model_did_itself(kills: list[int], signal: str) -> None:
    assert not of(signal, 3000 * MB).is_kill()
    assert of(signal, 3000 * MB).words() == ""
