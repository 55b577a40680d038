"""`NotebookShell`, the IPython shell in which a workspace is used."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.explained import Explained, Explanation
from ...core.observe.failure_capsule import FailureCapsule
from ...server.api.failures import KeptFailure
from ..authoring.cells import cell_label, running_label
from ..authoring.hints import hint
from ..authoring.workspace import NoShell, Workspace
from ..views.card.failure_pane import FailurePane
from ..views.kernel_status import kernel_status
from ..views.widget import in_kernel
from .cell_places import CellLines, CellPlaces, Places
from .comm import listen
from .debugger_desk import NotebookDesk, PromptWatch
from .running_cell import PrintedLines, RunningCell, WaitingNotice, show_failures
from .tracebacks import Tracebacks, install

if TYPE_CHECKING:
    from ...ipc.processes.stub_log import LogRecord


class NotebookShell(NoShell):
    """The cells of `shell`: they are cited instead of lines of models' files, and events of the models of the last
    followed workspace are shown below the running cell. `workspace` returns the notebook's workspace, a new one after
    `tritonlab.reset()`.
    """

    def __init__(self, shell: Any, workspace: Callable[[], Workspace]) -> None:
        self._shell = shell
        self._workspace = workspace
        # weak, so that the shell does not keep an ended server with all its records
        self._followed: Callable[[], Workspace | None] = lambda: None
        self._places = CellPlaces(self._locate, self._label, self._earlier)
        cell = RunningCell()
        self.printed = PrintedLines(cell, self.cite_for, lambda text: hint(text, lambda name: None))
        self._tracebacks = Tracebacks(shell, workspace, self._places, self.printed.has_shown)
        install(self._tracebacks)
        cell.follow(shell)
        self._notice = WaitingNotice(self._places, cell)
        self._windows = listen(workspace)
        watch = PromptWatch(self._windows.request_prompt)
        lines = CellLines(self._locate, self._label)
        self._desk = NotebookDesk(shell, lines=lines, places=self._places, watch=watch, cell=cell)
        self._desk.listen()
        self.printed.follow(shell)
        kernel_status.cell_runs = self.printed.cell_runs
        show_failures(shell, self._show_failure)

    def follow(self, workspace: Workspace) -> None:
        self._followed = weakref.ref(workspace)
        instruments = workspace.server.instruments
        instruments.replace(self._notice)
        instruments.replace(self.printed)
        workspace.server.debugger.desk = self._desk
        self._windows.follow(workspace)

    def describe_error(self, error: BaseException) -> str:
        return self._tracebacks.text(error)

    def explain(self, error: Explained) -> Explanation:
        return self._tracebacks.explain(error)

    def cite(self, text: str) -> str:
        return self._places(text)

    def cite_for(self, record: LogRecord) -> Places:
        """Return the function that cites cells for the version that wrote the line: an older version has other lines.
        It does not wait for a load."""
        workspace = self._followed()
        if workspace is None:
            return self._places
        locate = workspace.sources.of_process(record.pid)
        if locate is not None:
            return self._places.reading(locate)
        report = workspace.report(record.model)  # a process that was started since then runs the serving version
        return self._places if report is None or record.time_ns >= report.ready_at * 1e9 else str

    def running_cell(self) -> str:
        return running_label(self._shell)

    def _locate(self, file: str, line: int) -> tuple[str, int]:
        return self._workspace().sources.locate(file, line)

    def _earlier(self, file: str, line: int) -> list[tuple[str, int]]:
        return self._workspace().sources.earlier(file, line)

    def _label(self, origin: str) -> str:
        return cell_label(self._shell, origin)

    def _show_failure(self, capsule: FailureCapsule) -> None:
        workspace = self._workspace()
        model = workspace.server.model(capsule.model)
        if in_kernel() and any(failure.capsule is capsule for failure in model.failures):  # else another server's
            FailurePane(KeptFailure(model, capsule), self.cite, lambda: workspace.ports.endpoints).show()
