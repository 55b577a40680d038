"""The progress of work for which a cell or a terminal waits: its step, the time left, what it has found, and Stop."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from html import escape
from typing import Any, NamedTuple

from ...core.plain_facts import plain
from .ticker import TICKER, Ticker
from .widget import LiveView, in_kernel

#: Seconds between two looks.
_EVERY = 0.25
#: The most characters of a line in a terminal, and the characters of its bar.
_WIDTH, _BAR = 110, 20


class WorkStep(NamedTuple):
    """The current step. `figures`: name and value of what was found so far."""

    text: str
    figures: tuple[tuple[str, str], ...] = ()


class Work:
    """One piece of work that takes about `seconds`. `stopping` is set by Stop; the work reads it between its steps.

    Any thread may call any method.
    """

    def __init__(self, title: str, seconds: float, step: WorkStep, clock: Callable[[], float] = time.monotonic) -> None:
        self.title = title
        self.stopping = threading.Event()
        self._seconds = seconds
        self._clock = clock
        self._began = clock()
        self._step = step

    def begin(self, text: str, *figures: tuple[str, str]) -> None:
        """Report the next step; without `figures` the earlier ones stay."""
        self._step = WorkStep(text, figures or self._step.figures)

    @property
    def spent(self) -> float:
        return self._clock() - self._began

    def progress(self) -> dict[str, Any]:
        """Return `share`, the part of the time that is over; `text`; and `figures`."""
        left = max(self._seconds - self.spent, 0.0)
        time_left = f"about {left:.0f} s left" if left >= 1 else "nearly done"
        step = self._step
        share = min(self.spent / self._seconds, 1.0)
        return {"share": share, "text": f"{step.text} · {self.spent:.0f} s, {time_left}", "figures": [*step.figures]}

    def line(self) -> str:
        """Return the progress in one line, for a terminal."""
        found = self.progress()
        full = round(found["share"] * _BAR)
        figures = "".join(f" · {name} {value}" for name, value in found["figures"])
        return f"{self.title}: [{'#' * full}{'.' * (_BAR - full)}] {found['text']}{figures}"


class WorkView(LiveView):
    """A running piece of work in a cell."""

    MODULE = "loadPanel.js"

    def __init__(self, work: Work, ticker: Ticker = TICKER) -> None:
        self._work, self._ticker = work, ticker
        self._looked = 0.0
        self._ended = ""
        super().__init__(title=work.title, form=None, running=True, html="", problem="")
        ticker.add(self)

    def on_message(self, content: Any) -> None:
        if content.get("do") == "stop":
            self._work.stopping.set()

    def tick(self) -> None:
        now = time.monotonic()
        if now - self._looked >= _EVERY:
            self._looked = now
            self.send({"kind": "progress", **self._work.progress()})

    def failed(self, error: Exception) -> None:
        self.update(problem=f"This view has stopped: {type(error).__name__}: {error}")

    def end(self, failed: bool = False) -> None:
        """End the live form; the cell shows the result, or the error if the work has `failed`."""
        word = "stopped" if self._work.stopping.is_set() else "failed" if failed else "done"
        self._ended = f"{self._work.title}: {word} after {self._work.spent:.1f} s"
        self._ticker.remove(self)
        self.close()

    def text(self) -> str:
        return self._ended or self._work.line()

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = plain({"title": self._work.title, "running": not self._ended, **self._work.progress()})
        return found

    def html(self) -> str:
        return f"<div class='tl-panel'><div class='tl-text tl-dim'>{escape(self.text())}</div></div>"


@contextmanager
def shown_work(work: Work) -> Iterator[Work]:
    """Show the work meanwhile: in a notebook with Stop, in a terminal as one line that changes, else not at all."""
    with ExitStack() as ends:
        if "IPython" in sys.modules and in_kernel():
            view = WorkView(work)
            view.show()
            ends.push(lambda error, *_: view.end(failed=error is not None))
        elif sys.stdout is not None and sys.stdout.isatty():
            ends.callback(TerminalLine(work.line).end)
        yield work


class TerminalLine:
    """One line of a terminal that shows the text of `line` until `end`."""

    def __init__(self, line: Callable[[], str]) -> None:
        self._line = line
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(_EVERY):
            self._write(self._line())

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self._write("", "\r")

    @staticmethod
    def _write(text: str, end: str = "") -> None:
        width = min(_WIDTH, shutil.get_terminal_size().columns - 1)  # a longer line would stay when the next is written
        print(f"\r{text[:width]:<{width}}", end=end, flush=True)
