from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.serving import alive, eventually, open_descriptors
from tritonlab.ipc.processes.child_process import ChildProcess

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
