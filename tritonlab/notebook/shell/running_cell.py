"""`RunningCell` lets other threads write below the cell that runs."""

from __future__ import annotations

import contextlib
import contextvars
import sys
from typing import Any


class RunningCell:
    """Writes below the running cell, from any thread. From 6.29 on ipykernel shows what a thread prints below the cell
    that started the thread, which for the server's threads is the first one; but it looks into the context first."""

    def __init__(self) -> None:
        """Takes the running cell as the first one, so it is to be made by a cell, on its thread."""
        self._context = contextvars.copy_context()

    def follow(self, shell: Any) -> None:
        """Follows the shell's cells from now on, in place of any other."""
        for other in list(shell.events.callbacks["pre_run_cell"]):
            if isinstance(getattr(other, "__self__", None), RunningCell):
                shell.events.unregister("pre_run_cell", other)
        shell.events.register("pre_run_cell", self._began)

    def _began(self, info: object) -> None:
        self._context = contextvars.copy_context()

    def write(self, line: str, *, error: bool = False) -> None:
        """Writes a line to the cell's stdout or, for an `error`, its stderr; in one piece, as other threads write,
        too."""
        # of a context only one thread can be in at a time
        self._context.copy().run(_write, line + "\n", error)


def _write(text: str, error: bool) -> None:
    stream = sys.stderr if error else sys.stdout
    if stream is None:
        return  # as Python's own print does
    with contextlib.suppress(OSError, ValueError):  # the stream is closed
        stream.write(text)
