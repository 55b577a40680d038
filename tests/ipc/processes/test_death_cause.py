from __future__ import annotations

from types import SimpleNamespace

import pytest

from tritonlab.ipc.processes.death_cause import DeathCause

MB = 1 << 20


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of one number: the processes that this machine, which has 4 GB, has killed for lack of memory."""
    found = [3]
    monkeypatch.setattr("tritonlab.ipc.processes.death_cause.oom_kills", lambda: found[0])
    monkeypatch.setattr("tritonlab.ipc.processes.death_cause.memory_limit", lambda: 4096 * MB)
    monkeypatch.setattr("tritonlab.ipc.processes.death_cause.shared_memory", lambda: (0, 64 * MB))
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
