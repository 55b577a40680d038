"""This module shows the pane of a failure under the cell whose request failed, below the traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.failure_capsule import FailureCapsule


class FailureNotice:
    """Is called after each cell of a shell. `show` shows the pane of a capsule."""

    def __init__(self, show: Callable[[FailureCapsule], None]) -> None:
        self._show = show

    def __call__(self, result: Any) -> None:
        capsule = getattr(result.error_in_exec, "capsule", None)
        if isinstance(capsule, FailureCapsule):
            self._show(capsule)

    def listen_to(self, shell: Any) -> None:
        """Is called from now on, in place of any other notice."""
        for other in list(shell.events.callbacks["post_run_cell"]):
            if isinstance(other, FailureNotice):
                shell.events.unregister("post_run_cell", other)
        shell.events.register("post_run_cell", self)
