from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from tests.serving import Lab, Script, eventually
from tritonlab.server.observe import idle_memory
from tritonlab.server.observe.idle_memory import IdleMemory

MB = 1 << 20


class Machine:
    """Processes with some private memory; one that gives memory back ends with 10 MB."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
        self.bytes = {os.getpid(): 50 * MB, **dict.fromkeys(pids, 10 * MB)}
        self.calls: list[int] = []
        self.stubs = [FakeStub(self, pid) for pid in pids]
        self.memory = IdleMemory(lambda: self.stubs)
        for reader in ("private", "_share"):
            monkeypatch.setattr(idle_memory, reader, lambda pid: self.bytes.get(pid, 0))
        monkeypatch.setattr(idle_memory, "trim_heap", lambda: self.give_back(os.getpid()))

    def give_back(self, pid: int) -> None:
        self.calls.append(pid)
        self.bytes[pid] = min(self.bytes[pid], 50 * MB if pid == os.getpid() else 10 * MB)

    def look(self) -> list[int]:
        """Let the server look, and return the ids of the processes that it called."""
        self.calls.clear()
        self.again = self.memory.look()
        for thread in threading.enumerate():
            if thread.name == "idle memory":
                thread.join()
        return self.calls


class FakeStub:
    """A stub. `used`: the bytes in its regions that somebody still reads; `free`: others that have memory."""

    def __init__(self, machine: Machine, pid: int) -> None:
        self.pid = pid
        self.used = self.free = 0
        self.answers = True
        self._machine = machine

    def region_memory(self) -> int:
        return self.used + self.free

    def give_back(self, timeout: float) -> bool:
        if self.answers:
            self.free = 0
            self._machine.give_back(self.pid)
        else:
            self._machine.calls.append(self.pid)
        return self.answers


def test_processes_that_have_grown_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1, 2)
    machine.look()  # what they begin with
    machine.bytes[2] = 500 * MB
    assert machine.look() == [2]
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
    assert machine.look() == [2]


def test_it_looks_again_until_nothing_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1)
    machine.look()
    assert machine.again
    machine.look()
    assert not machine.again


def test_memory_of_an_answer_that_is_still_read_is_requested_until_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1, 2)
    machine.look()
    stub = machine.stubs[0]
    stub.used = 500 * MB
    for _ in range(3):
        assert machine.look() == [1]
    assert machine.memory.use().given_back == 0
    stub.used, stub.free = 0, 500 * MB
    assert machine.look() == [1] and machine.again
    assert machine.memory.use().given_back == 500 * MB
    assert machine.look() == [] and not machine.again


def test_a_stub_that_does_not_answer_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1)
    machine.look()
    machine.stubs[0].answers, machine.bytes[1] = False, 500 * MB
    assert machine.look() == [1] and machine.look() == [1]
    machine.stubs[0].answers = True
    assert machine.look() == [1] and machine.bytes[1] == 10 * MB
    assert machine.look() == []


def test_this_process_is_settled_when_no_endpoint_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.look()
    is_busy, kept = True, 500 * MB
    machine.memory.endpoints.append(lambda: is_busy)
    monkeypatch.setattr(idle_memory, "trim_heap", lambda: machine.calls.append(os.getpid()))
    machine.bytes[os.getpid()] = kept
    assert machine.look() == machine.look() == [os.getpid()]
    is_busy = False
    assert machine.look() == [os.getpid()]
    assert machine.look() == []


def test_memory_that_went_by_itself_is_not_there_for_the_next_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1)
    machine.bytes[1] = 10 * MB
    machine.look()
    machine.stubs[0].give_back = lambda timeout: bool(machine.calls.append(1)) or True  # type: ignore[method-assign]
    machine.bytes[1] = 500 * MB  # kept by the author
    assert machine.look() == [1]
    machine.bytes[1] = 20 * MB
    assert machine.look() == []
    machine.bytes[1] = 100 * MB
    assert machine.look() == [1]


def test_the_readings_of_this_process_are_true() -> None:
    share, resident = idle_memory._share(os.getpid()), idle_memory.resident(os.getpid())
    assert 0 < share <= resident + MB
    before = idle_memory.private(os.getpid())
    array = np.ones(64 * MB, np.uint8)
    assert 0 < before < idle_memory.private(os.getpid()) - array.nbytes // 2 < resident + array.nbytes
    assert idle_memory._share(2**22 + 1) == idle_memory.resident(2**22 + 1) == idle_memory.private(2**22 + 1) == 0


# -- real stubs


def test_memory_of_an_array_that_the_notebook_keeps_comes_back_after_it(lab: Lab, script: Script) -> None:
    memory, process = lab.server.core.idle_memory, script.instance.stub.process  # type: ignore[union-attr]
    output = script("return [answer(OUT=np.ones(16 << 20, np.float32))]")["OUT"]
    memory.give_back([process])
    assert process.region_memory() >= output.nbytes
    assert memory.look()  # as it takes memory
    del output
    eventually(lambda: memory.look() is False)
    assert process.region_memory() < 16 * MB


def test_memory_of_an_input_that_the_model_keeps_comes_back_after_it(lab: Lab, script: Script) -> None:
    memory, process = lab.server.core.idle_memory, script.instance.stub.process  # type: ignore[union-attr]
    sent = np.ones(16 << 20, np.float32)
    script("self.kept['x'] = tensor(request, 'X').as_numpy(); return [answer(OUT=[])]", X=sent)
    memory.give_back([process])
    assert process.region_memory() >= sent.nbytes and memory.look()
    script("self.kept.clear(); return [answer(OUT=[])]")
    eventually(lambda: memory.look() is False)
    assert process.region_memory() < 16 * MB


def test_a_stub_that_is_slow_to_answer_gives_back_later(
    lab: Lab, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, process = lab.server.core.idle_memory, script.instance.stub.process  # type: ignore[union-attr]
    monkeypatch.setattr(idle_memory, "_PATIENCE", 0.0)  # seconds; each stub is slower
    script("return [answer(OUT=np.ones(16 << 20, np.float32))]")
    memory.give_back([process])
    monkeypatch.undo()
    eventually(lambda: memory.look() is False)
    assert process.region_memory() < 16 * MB
