"""These commands debug a model: one types to a model that is paused, one looks at the last exception of a model."""

from __future__ import annotations

import os

from ...server.api.debugging import EditorAttach, follow_pauses
from ...server.api.server import Server
from ..authoring.errors import OptionError
from ..authoring.workspace import Workspace


def debug(workspace: Workspace, name: str | None, *, vscode: bool) -> EditorAttach | None:
    """Type to a paused model until it goes on; without a name, to the one that paused first. `vscode`: lets an editor
    attach to the model instead."""
    if vscode:
        return _editor(workspace, name)
    if name is None:
        follow_pauses(workspace.server.debugger, None)
    else:
        model = workspace.server.model(name)
        model.config()  # raises for one that is not loaded
        model.debug()
    return None


def _editor(workspace: Workspace, name: str | None) -> EditorAttach:
    """Let an editor attach to a model, at the author's own file if the model is not from a cell."""
    if name is None:
        raise OptionError("name a model: %triton debug NAME --vscode")
    model = workspace.server.model(name)
    served = model.directory / str(model.metadata()["versions"][-1]) / model.config()["default_model_filename"]
    origin, _ = workspace.sources.locate(str(served), 1)
    local = os.path.dirname(os.path.abspath(origin)) if os.path.basename(origin) == served.name else ""
    return model.attach(local)


def postmortem(server: Server, name: str | None) -> None:
    """Type to a debugger that looks at the last exception of a model; without a name, of the one that failed last."""
    if name is None:
        failures = [server.model(each).failures for each, _ in server.models()]
        last = max((each[-1].to_dict() for each in failures if each), key=lambda each: each["time_ns"], default=None)
        if last is None:
            raise OptionError("no model has failed")
        name = last["model"]
    server.model(name).postmortem()
