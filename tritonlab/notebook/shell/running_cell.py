"""The running cell and the lines below it: output of models, reasons why requests wait, and the pane of a failure."""

from __future__ import annotations

import contextlib
import contextvars
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...core.observe.failure_capsule import FailureCapsule
from ...core.observe.instrument import Instrument
from ...core.quoting import magic_line
from ...engine.life.stub_death import is_stub_frame
from .cell_places import Places
from .logs import LogLine

if TYPE_CHECKING:
    from ...ipc.processes.stub_log import LogRecord

#: The most lines shown below one cell; a load test of a model that prints writes thousands.
MOST = 100
#: Characters of a line that are shown.
_LONGEST = 2000
#: The first and the last line that Python writes about an exception in a thread.
_THREAD_FAILS = re.compile(r"Exception in thread ")
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:: |$)")
#: Ends colours, which would continue in the cell's own output.
_PLAIN = "\x1b[0m"


def follow_cells(shell: Any, **callbacks: Callable[[Any], object]) -> None:
    """Make IPython call functions at events, such as `pre_run_cell`. They replace functions of the same names, also
    methods of other objects, because the extension may be loaded again."""
    for event, callback in callbacks.items():
        for other in list(shell.events.callbacks[event]):
            if getattr(other, "__qualname__", "") == callback.__qualname__:
                shell.events.unregister(event, other)
        shell.events.register(event, callback)


class RunningCell:
    """The writer below the running cell, from any thread. From 6.29 on ipykernel shows a thread's output below the cell
    that started the thread, for the server's threads the first cell; but the context takes precedence."""

    def __init__(self) -> None:
        """Take the running cell as the first one; so a cell must make this object, on its thread."""
        self._context = contextvars.copy_context()

    def follow(self, shell: Any) -> None:
        """Follow the shell's cells from now on, in place of any other."""
        follow_cells(shell, pre_run_cell=self._began)

    def _began(self, info: object) -> None:
        self._context = contextvars.copy_context()

    def write(self, line: str, *, error: bool = False) -> None:
        """Write a line to the cell's stdout or, for an `error`, its stderr; in one piece, since other threads write."""
        # only one thread at a time can be in a context
        self._context.copy().run(_write, line + "\n", error)


def _write(text: str, error: bool) -> None:
    stream = sys.stderr if error else sys.stdout
    if stream is None:
        return  # as Python's own print does
    with contextlib.suppress(OSError, ValueError):  # the stream is closed
        stream.write(text)


@dataclass(eq=False)
class _Cell:
    """The number of lines below one cell. `info` is IPython's description of it."""

    info: object
    lines_shown: int = 0
    left: dict[str, int] = field(default_factory=dict)  # model -> lines that were not shown
    texts: set[str] = field(default_factory=set)  # the lines, without the models' names


class PrintedLines(Instrument):
    """The lines below the running cell, each after the model's name, because it is from another process, and the faults
    of a model's outputs. Output during a load is on the card; output for which no cell waits is in the log.

    The lines of a request are read before its answer is delivered, so they come before the cell's own output about
    it.
    """

    def __init__(
        self,
        cell: RunningCell,
        places: Callable[[LogRecord], Places],
        advise: Callable[[str], str] = lambda text: "",
    ) -> None:
        """places: returns the function that cites cells for the version that wrote a record; it must not wait for a
        load. advise: returns a line of advice for an exception of a thread, `<type>: <text>`, or ""."""
        self._cell = cell
        self._places = places
        self._advise = advise
        self._lock = threading.Lock()  # guards everything below
        #: the running cells, each run by the one before; the first stands for the cell that runs as this object is made
        self._cells = [_Cell(self)]
        self._quiet = 0  # the number of callers that suppress output
        self._failing: set[str] = set()  # the models whose thread is writing its traceback

    def log(self, record: LogRecord) -> None:
        if not record.serials or record.level == "VERBOSE" or record.in_error or is_stub_frame(record.text):
            return
        with self._lock:
            if not self._cells or self._quiet:
                return
            cell = self._cells[-1]
            if cell.lines_shown == MOST:
                cell.left[record.model] = cell.left.get(record.model, 0) + 1
                return
            cell.lines_shown += 1
            cell.texts.add(record.text)
            if _THREAD_FAILS.match(record.text):
                self._failing.add(record.model)
            raised = record.model in self._failing and _RAISED.match(record.text) is not None
            if raised:
                self._failing.discard(record.model)
        logged = f"{record.level} " if record.stream in ("log", "server") and record.level != "INFO" else ""
        text = LogLine.from_record(record, self._places(record)).text
        text = text.rstrip().rpartition("\r")[2]  # a progress bar writes itself over, and would write over the name
        text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
        text += _PLAIN * ("\x1b[" in text)
        self._cell.write(f"{record.model} | {logged}{text}", error=record.level != "INFO")
        if raised and (advice := self._advise(record.text)):
            self._cell.write(f"{record.model} | Hint: {advice}", error=record.level != "INFO")

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Show nothing meanwhile, so that a cell which answers programs with JSON has no other output."""
        with self._lock:
            self._quiet += 1
        try:
            yield
        finally:
            with self._lock:
                self._quiet -= 1

    def has_shown(self, line: str) -> bool:
        """Return whether `line` stands below the cell that runs."""
        with self._lock:
            return bool(self._cells) and line in self._cells[-1].texts

    def cell_runs(self) -> bool:
        with self._lock:
            return bool(self._cells)

    def follow(self, shell: Any) -> None:
        """Follow the shell's cells from now on, in place of any other."""
        follow_cells(shell, pre_run_cell=self._began, post_run_cell=self._ended)

    def _began(self, info: object) -> None:
        with self._lock:
            self._cells = [*(cell for cell in self._cells if cell.info is not self), _Cell(info)]

    def _ended(self, result: object) -> None:
        info = getattr(result, "info", None)  # a cancelled cell has no result
        with self._lock:
            ended = [cell for cell in self._cells if info is None or cell.info in (info, self)][-1:]
            self._cells = [cell for cell in self._cells if cell not in ended]
        for model, count in ended[0].left.items() if ended else ():
            command = magic_line("%triton", "logs", model)
            self._cell.write(f"{model} | … {count:,} more line{'s' * (count > 1)}: {command}")


class WaitingNotice(Instrument):
    """Reports of requests that wait for long, printed below the running cell, where the author waits, too."""

    def __init__(self, places: Places, cell: RunningCell) -> None:
        self._places = places
        self._cell = cell

    def requests_wait(self, model: str, text: str, now: int) -> None:
        self._cell.write(self._places(text), error=True)


def show_failures(shell: Any, show: Callable[[FailureCapsule], None]) -> None:
    """Call `show` with the capsule of each cell that fails from now on, in place of any other such function."""

    def show_failure(result: Any) -> None:
        capsule = getattr(result.error_in_exec, "capsule", None)
        if isinstance(capsule, FailureCapsule):
            show(capsule)

    follow_cells(shell, post_run_cell=show_failure)
