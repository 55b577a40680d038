"""The calls that a window of JupyterLab can make to the kernel: each row of `CALLS` is one Python call that a
notebook can make as well, and answers in JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.status import NotFoundError
from ..authoring.opened_repository import OpenedRepository
from ..authoring.workspace import Workspace
from ..views.card.hanging import kill_pressed
from .comm_config import check, complete, explain
from .comm_overview import logs, overview
from .debugger_desk import NotebookDesk

#: A value that JSON can hold.
JsonAnswer = Any
#: Sends the window what a call has done so far.
Tell = Callable[[JsonAnswer], None]


def _export_choices(workspace: Workspace) -> JsonAnswer:
    return _export_calls().choices(workspace)


def _plan(workspace: Workspace, **options: Any) -> JsonAnswer:
    return _export_calls().plan(workspace, **options)


def _export(workspace: Workspace, *, tell: Tell, **options: Any) -> JsonAnswer:
    return _export_calls().export(workspace, tell=tell, **options)


def _cancel_export(workspace: Workspace, job: str) -> JsonAnswer:
    return _export_calls().cancel_export(workspace, job)


def _zip_export(workspace: Workspace, job: str) -> JsonAnswer:
    return _export_calls().zip_export(workspace, job)


def _export_calls() -> Any:
    from . import comm_export  # with what makes environments and deploy files

    return comm_export


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
    """Note whether a window was opened for the line that a debugger waits for, and show a box for it."""
    desk = workspace.server.debugger.desk
    if isinstance(desk, NotebookDesk):
        desk.watch.seen(shown, asked)


#: name -> call(workspace, **what was given with it)
CALLS: dict[str, Callable[..., JsonAnswer]] = {
    "export_choices": _export_choices,
    "plan": _plan,
    "export": _export,
    "cancel_export": _cancel_export,
    "zip_export": _zip_export,
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
#: The calls that also get `tell`.
TELLING = frozenset({"export"})
