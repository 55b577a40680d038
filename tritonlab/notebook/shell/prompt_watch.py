"""The end of a prompt that nobody sees any more: its output was cleared, or its page was closed.

ipykernel waits for the line all the same, and JupyterLab refuses to run another cell meanwhile. So, while a prompt
waits, the windows of the JupyterLab extension report whether they show a box for it. Other front ends do not; there an
interrupt ends it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import TracebackType

#: Seconds between questions, and without a box after which nobody types any more.
_ASK_SECONDS = 0.5
_GONE_SECONDS = 4.0
#: The same before any window has answered: on a busy machine the first answer took more than 4 s.
_FIRST_SECONDS = 20.0


class PromptWatch:
    """The watch that the main thread enters while it waits for a line: `with watch: input()`. If nobody sees the prompt
    the thread is interrupted, and `gone` says why.

    `ask(True)` asks all windows and returns how many there are; they answer with `seen`. `ask(False)` reports that the
    kernel waits for no line any more, as JupyterLab runs no cell while it believes so.
    """

    def __init__(self, ask: Callable[[bool], int]) -> None:
        self.gone = ""
        self._ask = ask
        self._lock = threading.Lock()  # guards the rest
        self._ended = threading.Event()
        #: whether a window of this kernel has ever been asked for a line
        self._known = False
        self._visible_at = self._looked = 0.0
        self._answered = False  # whether a window has answered since the prompt began

    def seen(self, visible: bool, asked: bool = False) -> None:
        """Note whether a window shows a box, and whether it knows of this line: the box may have gone
        before it could be seen."""
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
                if not ended.is_set() and self._nobody_sees_it(windows):
                    self.gone = "its output was cleared or its page closed"
                    self._ask(False)  # before the cell ends: who sees that may run another one at once
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                    break

    def _nobody_sees_it(self, windows: int) -> bool:
        """Return whether no window has reported for long that it shows the prompt. A window that reports, but shows no
        box, may belong to another front end than the one that prompts."""
        latest = self._visible_at if self._known else self._looked
        patience = _GONE_SECONDS if self._answered else _FIRST_SECONDS
        return bool(windows) and time.monotonic() - latest > patience
