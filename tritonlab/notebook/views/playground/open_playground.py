"""The playground of a model, which is imported with the twenty modules of its form only when it is opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ....server.api.model import Model
    from ...authoring.workspace import Workspace
    from .playground import Playground

#: The author's traceback of an error as plain text, "" if there is none.
DescribeError = Callable[[BaseException], str]


def open_playground(workspace: Workspace, model: Model, describe_error: DescribeError | None = None) -> Playground:
    """Return a form that sends requests to `model`. `describe_error`: the workspace's if left out. Raises
    ModuleNotFoundError without ipywidgets."""
    from .playground import Playground

    return Playground(model, describe_error or workspace.describe_error, lambda: workspace.ports.endpoints)
