"""The load that a card belongs to, and the load of another cell that replaces it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..authoring.workspace import Workspace

if TYPE_CHECKING:
    from ..authoring.written_model import LoadReport


class OwnLoad:
    """The last load of a model, or the one that goes on, when it is made: that of the cell that shows a card.

    A load of another cell replaces a failed one at once. A good one goes on with what was loaded, so it is replaced
    when another source (for the cell of a config, another config) serves, or when nothing does. A button's load is of
    no cell and replaces nothing.
    """

    def __init__(self, workspace: Workspace, name: str, of_config: bool) -> None:
        self._workspace = workspace
        self._name = name
        self._of_config = of_config
        report = workspace.report(name)
        load = workspace.loading(name) or report
        self._cell = load.cell if load is not None else ""
        self._written = self._written_now()
        self._has_failed = report is not None and report.cell == self._cell and report.error is not None

    def replaced_by(self) -> str:
        """Return the cell whose load has replaced this one, "In[3]"; "" if none has."""
        report, progress = self._look(), self._workspace.loading(self._name)
        if not self._cell:
            return ""
        if self._has_failed and progress is not None and self._is_other(progress.cell):
            return progress.cell
        if report is None or not self._is_other(report.cell):
            return ""
        keeps = report.error is not None and report.ready_at > 0
        goes_on = not self._has_failed and (keeps or self._written_now() is self._written)
        return "" if goes_on else report.cell

    def failed_before(self) -> str:
        """Return a sentence for the card of a failed load, about what serves all the same; "" if it did not fail."""
        report = self._look()
        if not self._has_failed or report is None or report.error is not None:
            return ""
        since = time.strftime("%H:%M:%S", time.localtime(report.ready_at))
        return f"The load of this cell failed; what serves was loaded later, at {since}."

    def _look(self) -> LoadReport | None:
        report = self._workspace.report(self._name)
        if report is not None and report.cell == self._cell and report.error is not None:
            self._has_failed = True
        return report

    def _is_other(self, cell: str) -> bool:
        return cell not in ("", self._cell)

    def _written_now(self) -> object:
        draft = self._workspace.draft(self._name)
        return draft.cell_config if self._of_config else draft.source
