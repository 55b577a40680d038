"""`%triton why`: what everything waits for, and why what failed has failed."""

from __future__ import annotations

from ...core.explained import Explained
from ...server.observe.why import Reason, Why, failed_load
from ..authoring.workspace import Workspace
from .results import Text


def why(workspace: Workspace, name: str | None) -> Text:
    """Return the sentences of `server.why()`; of a load that a cell started, the cell's own error. Raises the client's
    NotFoundError for an unknown name."""
    if name is not None and name not in workspace.names():
        workspace.server.model(name).config()
    waits = workspace.server.why(name).cited(workspace.cite)
    names = [name] if name is not None else workspace.names()
    cells = {each: reason for each in names if (reason := failed_load_of(workspace, each)) is not None}
    others = [reason for reason in waits.reasons if reason.kind != "load" or reason.model not in cells]
    whole = Why([*cells.values(), *others], waits.calm)
    return Text(whole.text(), whole.to_dict())


def failed_load_of(workspace: Workspace, name: str) -> Reason | None:
    """Return why the last load of a model by a cell failed, perhaps before the server heard of it."""
    report = workspace.report(name)
    error = report.error if report is not None else None
    if report is None or not isinstance(error, Exception) or not isinstance(error, Explained):
        return None
    return failed_load(name, error, serves=bool(report.ready_at)).cited(workspace.cite)
