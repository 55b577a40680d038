"""The playground of a model, which is imported with the twenty modules of its form only when it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...authoring.errors import DescribeError
from ..card.model_states import ModelStates

if TYPE_CHECKING:
    from ....server.api.model import Model
    from ...authoring.workspace import Workspace
    from .playground import Playground


def open_playground(workspace: Workspace, model: Model, describe_error: DescribeError | None = None) -> Playground:
    """Return a form that sends requests to `model` and has the fields of its config, also after a reload.
    `describe_error`: the workspace's if left out. Raises ModuleNotFoundError without ipywidgets."""
    from .playground import Playground

    form = Playground(
        model, describe_error or workspace.describe_error, lambda: workspace.ports.endpoints, workspace.cite
    )
    ModelStates.for_server(model.server).follow_form(form.renew, model.name)
    return form
