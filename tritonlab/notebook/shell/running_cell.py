"""The notebook's cells as they run: `follow_cells` calls an object when one begins and ends, `RunningCell` lets other
threads write below the one that runs, `FailureNotice` looks whether it failed."""

from __future__ import annotations

import contextlib
import contextvars
import sys
from collections.abc import Callable
from typing import Any

from ...core.observe.failure_capsule import FailureCapsule


def follow_cells(shell: Any, **callbacks: Callable[[Any], object]) -> None:
    """Let IPython call methods of an object at events, such as `pre_run_cell`, in place of those of any other
    object of its class: the extension may be loaded again."""
    for event, callback in callbacks.items():
        kind = type(getattr(callback, "__self__", None))
        for other in list(shell.events.callbacks[event]):
            if type(getattr(other, "__self__", None)) is kind:
                shell.events.unregister(event, other)
        shell.events.register(event, callback)


class RunningCell:
    """The writer below the running cell, from any thread. From 6.29 on ipykernel shows what a thread prints below the
    cell that started the thread, which for the server's threads is the first one; but it looks into the context
    first."""

    def __init__(self) -> None:
        """Take the running cell as the first one, so it is to be made by a cell, on its thread."""
        self._context = contextvars.copy_context()

    def follow(self, shell: Any) -> None:
        """Follow the shell's cells from now on, in place of any other."""
        follow_cells(shell, pre_run_cell=self._began)

    def _began(self, info: object) -> None:
        self._context = contextvars.copy_context()

    def write(self, line: str, *, error: bool = False) -> None:
        """Write a line to the cell's stdout or, for an `error`, its stderr; in one piece, as other threads write,
        too."""
        # of a context only one thread can be in at a time
        self._context.copy().run(_write, line + "\n", error)


class FailureNotice:
    """The look, after each cell of a shell, whether it failed. `show` shows the pane of a capsule."""

    def __init__(self, show: Callable[[FailureCapsule], None]) -> None:
        self._show = show

    def ended(self, result: Any) -> None:
        capsule = getattr(result.error_in_exec, "capsule", None)
        if isinstance(capsule, FailureCapsule):
            self._show(capsule)

    def listen_to(self, shell: Any) -> None:
        """Look at each cell of the shell from now on, in place of any other notice."""
        follow_cells(shell, post_run_cell=self.ended)


def _write(text: str, error: bool) -> None:
    stream = sys.stderr if error else sys.stdout
    if stream is None:
        return  # as Python's own print does
    with contextlib.suppress(OSError, ValueError):  # the stream is closed
        stream.write(text)
