from __future__ import annotations

import os
import threading

import pytest

from tritonlab.server.observe import idle_memory
from tritonlab.server.observe.idle_memory import IdleMemory

MB = 1 << 20


class Machine:
    """Processes with some memory; what gives back ends with 10 MB."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
        self.bytes = {os.getpid(): 50 * MB, **dict.fromkeys(pids, 10 * MB)}
        self.asked: list[int] = []
        self.stubs = [FakeStub(self, pid) for pid in pids]
        self.memory = IdleMemory(lambda: self.stubs)
        for reader in ("resident", "_share"):
            monkeypatch.setattr(idle_memory, reader, lambda pid: self.bytes.get(pid, 0))
        monkeypatch.setattr(idle_memory, "trim_heap", lambda: self.give_back(os.getpid()))

    def give_back(self, pid: int) -> None:
        self.asked.append(pid)
        self.bytes[pid] = min(self.bytes[pid], 50 * MB if pid == os.getpid() else 10 * MB)

    def look(self) -> list[int]:
        """Which processes gave back."""
        self.asked.clear()
        self.memory.look()
        for thread in threading.enumerate():
            if thread.name == "idle memory":
                thread.join()
        return self.asked


class FakeStub:
    def __init__(self, machine: Machine, pid: int) -> None:
        self.pid = pid
        self._machine = machine

    def give_back(self, timeout: float) -> None:
        self._machine.give_back(self.pid)


def test_processes_that_have_grown_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1, 2)
    machine.look()  # what they begin with
    machine.bytes[2] = 500 * MB
    assert machine.look() == [2, os.getpid()]
    use = machine.memory.use()
    assert (use.kernel, use.models, use.processes, use.given_back) == (50 * MB, 20 * MB, 2, 490 * MB)
    assert use.given_back_at > 0


def test_who_has_not_grown_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1)
    machine.look()
    machine.bytes[1] += 15 * MB
    assert machine.look() == []
    machine.bytes[os.getpid()] += 16 * MB
    assert machine.look() == [os.getpid()]


def test_a_process_that_has_ended_has_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1, 2)
    machine.look()
    del machine.bytes[1]
    machine.bytes[2] = 100 * MB
    assert machine.look() == [2, os.getpid()]


def test_the_readings_of_this_process_are_true() -> None:
    share, resident = idle_memory._share(os.getpid()), idle_memory.resident(os.getpid())
    assert 0 < share <= resident + MB
    assert idle_memory._share(2**22 + 1) == idle_memory.resident(2**22 + 1) == 0
