"""The pane of a failure under the cell whose request failed, below the traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.observe.failure_capsule import FailureCapsule
from .running_cell import follow_cells


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
