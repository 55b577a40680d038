"""`breakpoint()` in a model's cell, in a real kernel: typed lines, interrupts, front ends without input, the end of the
kernel.
"""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from tests.kernels import start_kernel
from tests.models import CALL_STOPS, STOPS
from tests.serving import alive, eventually, stub_processes
from tritonlab.notebook.shell import debugger_desk
from tritonlab.notebook.shell.debugger_desk import CellLines, PromptWatch

PAUSED = "import time\nwhile not stops.server.debugger.words(): time.sleep(0.01)"
#: seconds in which a notebook has to be usable again: 10 on a machine that does nothing else, which CI's is not
CLEAN = 30.0


def locate(file: str, line: int) -> tuple[str, int]:
    return ("cell", line + 2) if file == "/m/1/model.py" else (file, line)


@pytest.fixture
def lines() -> CellLines:
    return CellLines(locate, {"cell": "Cell In[3]"}.__getitem__)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("> /m/1/model.py(7)execute()\n-> x = 1\n", "> Cell In[3](9)execute()\n-> x = 1\n"),
        ("Breakpoint 1 at /m/1/model.py:7\n", "Breakpoint 1 at Cell In[3]:9\n"),
        ("> /lib/numpy.py(7)f()\n", "> /lib/numpy.py(7)f()\n"),
        ("  7  ->\tx = 1\n 98 B->\ty = 7\t\n", "  9  ->\tx = 1\n100 B->\ty = 7\t\n"),
        ("7\n{'a': 12}\n", "7\n{'a': 12}\n"),
    ],
)
def test_places_and_listings_are_the_cells(lines: CellLines, printed: str, expected: str) -> None:
    assert lines.with_cells(printed, "/m/1/model.py") == expected


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("b 9", "b 7"),
        ("break 9, x > 3", "break 7, x > 3"),
        ("l 5, 12", "l 3, 10"),
        ("until 9", "until 7"),
        ("b 1", "b 1"),
        ("clear 9", "clear 9"),
        ("p 9", "p 9"),
        ("b other.py:9", "b other.py:9"),
        ("n", "n"),
    ],
)
def test_line_numbers_that_are_typed_are_the_cells(lines: CellLines, typed: str, meant: str) -> None:
    assert lines.typed(typed, "/m/1/model.py", 7) == meant
    assert lines.typed(typed, "/lib/numpy.py", 7) == typed


class Kernel:
    """A kernel with one front end that types."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager, self.client = manager, client

    def run(self, code: str, answer: Callable[[str], str | None] | None = None) -> str:
        """Run a cell and return all its output. `answer` types a line for each prompt, or does something else; without
        it the front end takes no input.
        """
        ident = self.client.execute(code, allow_stdin=answer is not None)
        texts, end = [], time.monotonic() + 60
        while time.monotonic() < end:
            try:
                prompt = self.client.get_stdin_msg(timeout=0)["content"]["prompt"]
                line = answer(prompt) if answer is not None else None
                if line is not None:
                    self.client.input(line)
            except queue.Empty:
                pass
            try:
                message = self.client.get_iopub_msg(timeout=0.02)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") != ident:
                continue
            content = message["content"]
            texts.append(content.get("text") or "\n".join(content.get("traceback", ())))
            texts.append(content.get("data", {}).get("text/plain", ""))
            if content.get("execution_state") == "idle":
                return "".join(texts)
        raise AssertionError("the cell does not end: " + "".join(texts))


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")), "NO_COLOR": "1"}
    manager, client = start_kernel(environment)
    found = Kernel(manager, client)
    found.run("%colors nocolor\n%load_ext tritonlab")
    found.run(STOPS)
    yield found
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def typing(*lines: str) -> Callable[[str], str]:
    left = list(lines)
    return lambda prompt: left.pop(0)


def test_lines_are_typed_under_the_cell_that_sent_the_request(kernel: Kernel) -> None:
    output = kernel.run(CALL_STOPS, typing("p x", "l", "b 9", "c", "clear 1", "x = x * 10", "c"))
    assert "(8)execute()\n-> x = x + 1\n" in output
    assert "> Cell In[" in output
    assert "  8  ->\t        x = x + 1" in output
    assert "]:9\n" in output  # where the breakpoint is
    assert "[20.0, 30.0]" in output


def test_an_interrupt_ends_the_cell_and_the_debugger(kernel: Kernel) -> None:
    began = time.monotonic()
    output = kernel.run(CALL_STOPS, lambda prompt: kernel.manager.interrupt_kernel())
    assert "the debugger of 'stops_0' was left at Cell In[" in output
    assert ", line 8" in output
    assert "[2.0, 3.0]" in kernel.run(CALL_STOPS, typing("c"))
    assert time.monotonic() - began < CLEAN


def test_a_front_end_without_input_gets_a_snapshot(kernel: Kernel) -> None:
    output = kernel.run(CALL_STOPS)
    assert "'stops_0' is at a breakpoint and goes on, because nobody can type here.\n  Cell In[" in output
    assert ", line 8, in execute\n    x = x + 1\n" in output
    assert "x = float32[2] [1, 2]" in output
    assert "[2.0, 3.0]" in output


def test_a_request_of_a_thread_is_typed_to_in_a_cell_of_its_own(kernel: Kernel) -> None:
    asks = "import threading; thread = threading.Thread(target=lambda: print(stops(IN=[5])['OUT'])); thread.start()"
    kernel.run(asks, typing())
    kernel.run(PAUSED, typing())
    assert "[6.]" in kernel.run("%triton debug stops", typing("p x", "c")) + kernel.run("thread.join()")
    assert "model 'stops' is not paused" in kernel.run("%triton debug stops")


def test_a_queue_timeout_says_who_is_paused(kernel: Kernel) -> None:
    kernel.run("thread = threading.Thread(target=lambda: stops(IN=[5])); thread.start()", typing())
    kernel.run(PAUSED, typing())
    limit = "from tritonlab.core.status import UnavailableError\nraise UnavailableError('Request timeout expired')"
    output = kernel.run(limit, typing())
    assert "Hint: 'stops_0' is paused in the debugger at Cell In[" in output
    assert kernel.run("%triton debug", typing("c")) is not None
    kernel.run("thread.join()")


def test_postmortem_looks_at_the_exception_in_the_cells_lines(kernel: Kernel) -> None:
    kernel.run(STOPS.replace("stops", "fails").replace("breakpoint()", "x.nope"))
    assert "AttributeError" in kernel.run("fails(IN=[1, 2])", typing())
    output = kernel.run("%triton postmortem", typing("p x", "q"))
    assert "AttributeError: 'numpy.ndarray' object has no attribute 'nope'\n> Cell In[" in output
    assert "(7)execute()\n-> x.nope" in output
    assert "array([1., 2.], dtype=float32)" in output
    output = kernel.run("%triton postmortem fails")
    assert ", line 7, in execute\n    x.nope\n" in output
    assert "  x = float32[2] [1, 2]" in output
    kernel.run("%triton load fails")
    assert "no exception of 'fails' is alive" in kernel.run("%triton postmortem fails", typing())


def test_a_restart_of_the_kernel_ends_a_paused_model(tmp_path: Path) -> None:
    manager, client = start_kernel({**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    own = Kernel(manager, client)
    try:
        own.run("%load_ext tritonlab")
        own.run(STOPS)
        client.execute(CALL_STOPS, allow_stdin=True)
        client.get_stdin_msg(timeout=30)
        pid = manager.provisioner.pid
        stubs = stub_processes(pid)
        began = time.monotonic()
        manager.restart_kernel()
        client.wait_for_ready(timeout=30)
        assert time.monotonic() - began < CLEAN
        eventually(lambda: not any(alive(stub.pid) for stub in stubs))
        own.run("%load_ext tritonlab")
        own.run(STOPS)
        assert "[2.0, 3.0]" in own.run(CALL_STOPS, typing("c"))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_nbclient_runs_a_notebook_with_a_forgotten_breakpoint(tmp_path: Path) -> None:
    cells = ["%load_ext tritonlab", STOPS, CALL_STOPS]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    began = time.monotonic()
    nbclient.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = notebook.cells[2].outputs
    assert time.monotonic() - began < 2 * CLEAN  # the start of a kernel, and of a stub, included
    assert any("is at a breakpoint and goes on" in output.get("text", "") for output in outputs)
    assert any(output.get("data", {}).get("text/plain") == "[2.0, 3.0]" for output in outputs)


class Clock:
    """A stand-in for the module `time`."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(debugger_desk, "time", clock)
    monkeypatch.setattr(PromptWatch, "_watch", lambda self, over: None)  # no thread
    return clock


def test_a_box_that_was_visible_and_is_not_any_more_is_gone(clock: Clock) -> None:
    watch = PromptWatch(lambda waits: 1)
    with watch:
        watch.seen(True)
        for _ in range(9):
            clock.now += 0.5
            watch.seen(False)
        assert watch._is_unseen(1)
        assert not watch._is_unseen(0)


def test_a_box_that_went_before_it_was_seen_is_gone(clock: Clock) -> None:
    watch = PromptWatch(lambda waits: 1)
    with watch:
        watch.seen(False, asked=False)  # the question for the line is still on its way
        for _ in range(9):
            clock.now += 0.5
            watch.seen(False, asked=True)
        assert watch._is_unseen(1)


def test_a_window_of_a_front_end_without_the_prompt_ends_nothing(clock: Clock) -> None:
    watch = PromptWatch(lambda waits: 1)
    with watch:
        for _ in range(99):
            clock.now += 0.5
            watch.seen(False, asked=False)
        assert not watch._is_unseen(1)


def test_windows_that_have_not_answered_yet_may_only_be_slow(clock: Clock) -> None:
    watch = PromptWatch(lambda waits: 1)
    with watch:
        clock.now += 10
        assert not watch._is_unseen(1)
        watch.seen(True)
        assert not watch._is_unseen(1)
    with watch:  # the next prompt, after a box that was seen
        clock.now += 10
        assert not watch._is_unseen(1)
        clock.now += 11
        assert watch._is_unseen(1)
