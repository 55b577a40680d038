"""The prompt below the running cell for an author's commands to a model's debugger, with the cell's own line numbers,
and the end of a prompt that is no longer visible: its output was cleared, or its page was closed.

ipykernel waits for the line all the same, and JupyterLab refuses to run another cell meanwhile. So, while a prompt
waits, the windows of the JupyterLab extension report whether they show a box for it. Other front ends do not; there an
interrupt ends it.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ...engine.debugging.debug_session import DebugSession, Desk
from ...ipc.link.stub_link import Prompt
from .cell_places import CellLines
from .running_cell import RunningCell, follow_cells

#: Seconds between questions, and the seconds without a box after which the prompt counts as gone.
_ASK_SECONDS = 0.5
_GONE_SECONDS = 4.0
#: The same before any window has answered: on a busy machine the first answer took more than 4 s.
_FIRST_SECONDS = 20.0


class NotebookDesk(Desk):
    """The reader of lines by IPython's `input` while a cell runs, if the front end has input (nbclient has none)."""

    def __init__(
        self, shell: Any, lines: CellLines, places: Callable[[str], str], watch: PromptWatch, cell: RunningCell
    ) -> None:
        """`places` cites cells in a text."""
        self.watch = watch
        self._cell = cell
        self._shell = shell
        self._lines = lines
        self._places = places
        self.began()

    def listen(self) -> None:
        """Follow the shell's cells from now on, in place of any other desk."""
        follow_cells(self._shell, pre_run_cell=self.began, post_run_cell=self.ended)

    def began(self, info: object = None) -> None:
        """Look, as a cell begins, whether its front end has input."""
        self._runs = True
        if hasattr(self._shell, "get_parent"):
            self._asks = bool((self._shell.get_parent() or {}).get("content", {}).get("allow_stdin"))
        else:
            self._asks = sys.stdin is not None and sys.stdin.isatty()

    def ended(self, result: object) -> None:
        self._runs = False

    def can_read(self) -> bool:
        return self._asks

    def reads_here(self) -> bool:
        return self._runs and threading.current_thread() is threading.main_thread()

    def read(self, session: DebugSession, prompt: Prompt) -> str | None:
        print(self._lines.with_cells(prompt.text, prompt.file), end="", flush=True)
        try:
            with self.watch:
                line = input(prompt.prompt)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self.watch.gone or "interrupted") from None
        except EOFError:
            return "EOF"
        except NotImplementedError:  # IPython's StdinNotImplementedError
            return None
        return self._lines.typed(line, prompt.file, prompt.line)

    def say(self, session: DebugSession, text: str) -> None:
        self._cell.write(self._places(text), error=True)


class PromptWatch:
    """The watch that the main thread enters while it waits for a line: `with watch: input()`. If the prompt is not
    visible the thread is interrupted, and `gone` is the reason.

    `ask(True)` asks all windows and returns how many there are; they answer with `seen`. `ask(False)` reports that the
    kernel no longer waits for a line, because until then JupyterLab runs no cell.
    """

    def __init__(self, ask: Callable[[bool], int]) -> None:
        self.gone = ""
        self._ask = ask
        self._lock = threading.Lock()  # guards the rest
        self._ended = threading.Event()
        #: whether a window of this kernel was ever asked for a line
        self._known = False
        self._visible_at = self._looked = 0.0
        self._answered = False  # whether a window has answered since the prompt began

    def seen(self, visible: bool, asked: bool = False) -> None:
        """Note whether a window shows a box, and received this question: the box may have gone before it was seen."""
        with self._lock:
            self._looked = time.monotonic()
            self._answered = True
            self._known = self._known or visible or asked
            if visible:
                self._visible_at = self._looked

    def __enter__(self) -> None:
        self.gone = ""
        with self._lock:
            self._visible_at = self._looked = time.monotonic()
            self._answered = False
            self._ended = ended = threading.Event()
        threading.Thread(target=self._watch, args=(ended,), name="prompt watch", daemon=True).start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._ended.set()

    def _watch(self, ended: threading.Event) -> None:
        windows = self._ask(True)
        while not ended.wait(_ASK_SECONDS):
            windows = max(windows, self._ask(True))
            with self._lock:
                if not ended.is_set() and self._is_unseen(windows):
                    self.gone = "its output was cleared or its page closed"
                    self._ask(False)  # before the cell ends: a user who sees its end may run another cell at once
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                    break

    def _is_unseen(self, windows: int) -> bool:
        """Return whether no window has reported for long that it shows the prompt. A window that reports, but shows no
        box, may belong to another front end than the prompting one."""
        latest = self._visible_at if self._known else self._looked
        patience = _GONE_SECONDS if self._answered else _FIRST_SECONDS
        return bool(windows) and time.monotonic() - latest > patience
