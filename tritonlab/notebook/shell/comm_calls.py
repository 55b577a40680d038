"""The calls that a window of JupyterLab can make to the kernel: each row of `CALLS` is one Python call that a
notebook can make as well, and answers in JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...core.status import NotFoundError
from ...export.needed_models import needed_models
from ...export.report import ExportPlan
from ...export.repository import export, plan_export
from ...repository.place import repository_path
from ..authoring.opened_repository import OpenedRepository
from ..authoring.workspace import Workspace
from ..views.card.hanging import kill_pressed
from .comm_config import check, complete, explain
from .comm_overview import logs, overview
from .debugger_desk import NotebookDesk

#: A value that JSON can hold.
JsonAnswer = Any

#: Where paths of the notebook's server begin, seen from the kernel: the notebook's directory, if nobody moved since.
_START = Path.cwd()


def _plan(workspace: Workspace, models: Sequence[str], directory: str, alone: bool = False) -> JsonAnswer:
    """Return what `export` would do with each model, and with those that they need; nothing is written."""
    return {
        "directory": str(repository_path(directory)),
        "models": [
            {"name": name, "needed_by": user, **_plan_facts(plan_export(workspace.server.model(name), directory))}
            for name, user in _with_needed(workspace, models, alone)
        ],
    }


def _with_needed(workspace: Workspace, models: Sequence[str], alone: bool) -> Iterator[tuple[str, str]]:
    """Return each model once, with the one that needs it, "" for those that were requested."""
    seen = set(models)
    yield from ((name, "") for name in models)
    for name in () if alone else models:
        for needed in needed_models(workspace.server.model(name)).loaded:
            if needed.name not in seen:
                seen.add(needed.name)
                yield needed.name, name


def _plan_facts(plan: ExportPlan) -> dict[str, Any]:
    kinds = {kind: list(getattr(plan, kind)) for kind in ("added", "changed", "removed", "unchanged", "warnings")}
    return {"path": str(plan.path), "exists": plan.path.exists(), "differs": plan.differs, **kinds}


def _export(
    workspace: Workspace, model: str, directory: str, overwrite: bool = False, alone: bool = False
) -> JsonAnswer:
    """Write the model, and those it needs, as a repository (`tritonlab.export`)."""
    report = export(workspace.server.model(model), directory, overwrite=overwrite, alone=alone)
    return {
        "repository": str(report.repository),
        "relative": os.path.relpath(report.repository, _START),
        "models": [
            {
                "name": each.path.name,
                "path": str(each.path),
                "files": list(each.plan.files),
                "changed": each.plan.differs,
                "backup": str(each.backup) if each.backup is not None else "",
                "warnings": list(each.plan.warnings),
            }
            for each in report.reports
        ],
        "tree": report.tree(),
        "commands": list(report.commands()),
    }


def _cells(workspace: Workspace, model: str) -> JsonAnswer:
    """Return the texts of the cells that write a model of a repository that was opened (`opened[model].to_cells()`)."""
    for opened in workspace.repositories.values():
        if isinstance(opened, OpenedRepository) and model in opened:
            return {"cells": opened[model].to_cells()}
    raise NotFoundError(f"'{model}' is not a model of a repository that was opened")


def _load(workspace: Workspace, name: str) -> JsonAnswer:
    """Load a model from its last draft, or the model of that name in the repository
    (`tritonlab.load(name)`)."""
    if workspace.draft(name).loadable:
        workspace.load(name)
    else:
        workspace.server.load(name)
    return {"name": name, "state": workspace.server.model(name).state}


def _unload(workspace: Workspace, name: str) -> JsonAnswer:
    """Start unloading a model, without waiting (`server.unload(name, wait=False)`)."""
    if name not in workspace.names():
        raise NotFoundError(f"'{name}' is not a model of this notebook")
    workspace.unload(name, wait=False)
    return {"name": name}


def _stop(workspace: Workspace, name: str) -> JsonAnswer:
    """End a load, also that of the cell that runs, as `workspace.stop_loading(name)` does; what served before goes
    on."""
    workspace.stop_loading(name)
    return {"name": name}


def _kill(workspace: Workspace, name: str) -> JsonAnswer:
    """End what drains or hangs, as `server.kill(name)` does."""
    return {"name": name, "killed": kill_pressed(workspace.server, name)}


def _cancel(workspace: Workspace, serial: int) -> JsonAnswer:
    """Ask for the cancellation of a request in flight, as `server.cancel(serial)` does."""
    return {"serial": serial, "cancelled": workspace.server.cancel(serial)}


def _typing(workspace: Workspace, shown: bool, asked: bool = False) -> None:
    """Hear whether a window was asked for the line that a debugger waits for, and show a box for it."""
    desk = workspace.server.debugger.desk
    if isinstance(desk, NotebookDesk):
        desk.watch.seen(shown, asked)


#: name -> call(workspace, **what was given with it)
CALLS: dict[str, Callable[..., JsonAnswer]] = {
    "plan": _plan,
    "export": _export,
    "cells": _cells,
    "load": _load,
    "unload": _unload,
    "stop": _stop,
    "kill": _kill,
    "cancel": _cancel,
    "overview": overview,
    "typing": _typing,
    "logs": logs,
    "check": check,
    "complete": complete,
    "explain": explain,
}
