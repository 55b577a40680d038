"""Other threads write below the cell that runs."""

from __future__ import annotations

import contextvars
import threading
from types import SimpleNamespace

import pytest
from IPython.core.events import EventManager, available_events

from tritonlab.notebook.shell.running_cell import RunningCell

CELL = contextvars.ContextVar("CELL", default="none")


class Out:
    """A stream that knows the cell of who writes, as ipykernel's does."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str]] = []

    def write(self, text: str) -> None:
        self.written.append((CELL.get(), text))


def test_what_a_thread_writes_is_of_the_cell_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    shell, out, err = SimpleNamespace(events=EventManager(None, available_events)), Out(), Out()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    RunningCell().follow(shell)  # by the extension, loaded before
    CELL.set("first")
    cell = RunningCell()
    cell.follow(shell)
    assert len(shell.events.callbacks["pre_run_cell"]) == 1
    goes, ended = threading.Semaphore(0), threading.Semaphore(0)

    def write() -> None:
        for number in range(3):
            goes.acquire()
            cell.write(f"line {number}", error=number == 2)
            ended.release()

    thread = threading.Thread(target=write)
    thread.start()
    for name in ("", "second", "third"):
        if name:
            CELL.set(name)
            shell.events.trigger("pre_run_cell", None)
        goes.release()
        ended.acquire()
    thread.join()
    assert out.written == [("first", "line 0\n"), ("second", "line 1\n")]
    assert err.written == [("third", "line 2\n")]


def test_threads_write_at_a_time() -> None:
    """A context can be entered by one thread only."""
    cell, together = RunningCell(), threading.Barrier(4)
    failed: list[BaseException] = []

    def write() -> None:
        together.wait()
        try:
            for _ in range(200):
                cell.write("")
        except RuntimeError as error:
            failed.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
