"""This command says what everything waits for, and why what failed has failed."""

from __future__ import annotations

from ...core.explained import Explained
from ...server.observe.why import Reason, Why
from ..authoring.workspace import Workspace
from .results import Text


def why(workspace: Workspace, name: str | None) -> Text:
    """Returns the sentences of `server.why()`, and those about cells that never reached the server. The model of that
    name, if one is given, is known."""
    told = workspace.server.why(name)
    known = {reason.model for reason in told.reasons if reason.kind == "load"}
    names = [name] if name is not None else workspace.names()
    unread = [reason for each in names if each not in known for reason in _of_cell(workspace, each)]
    whole = Why([*unread, *told.reasons], told.calm)
    return Text(whole.text(), whole.to_dict())


def _of_cell(workspace: Workspace, name: str) -> list[Reason]:
    """Returns why the last load of a model failed before the server heard of it: its config cannot be read, mostly."""
    report = workspace.report(name)
    error = report.error if report is not None else None
    if report is None or not isinstance(error, Explained):
        return []
    first = str(error).strip().partition("\n")[0].rstrip(".")
    serves = " The version from before serves on." if report.ready_at else ""
    text = f"the last load of model '{name}' failed: {first}.{serves}"
    return [Reason("load", name, text, where=error.where, fix=error.fix)]
