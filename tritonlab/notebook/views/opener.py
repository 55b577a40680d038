"""The openers of the playground and the views of records. They import its module when a form is first opened: together
these modules would make `import tritonlab` a third longer.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from .card.model_states import ModelStates

if TYPE_CHECKING:
    from ...record.recording import Recording
    from ...server.api.model import Model
    from ..authoring.workspace import Workspace
    from .playground.playground import Playground
    from .record.record_view import RecordView
    from .record.timeline import Profile


def open_playground(workspace: Workspace, model: Model) -> Playground:
    """Return a form that sends requests to `model` and has the fields of its config, also after a reload. Raises
    ModuleNotFoundError without ipywidgets."""
    try:
        from .playground.playground import Playground
    except ModuleNotFoundError as error:
        if error.name != "ipywidgets":
            raise
        raise ModuleNotFoundError("the playground needs ipywidgets: pip install 'tritonlab[lab]'") from None

    is_ours = model.server is workspace.server  # the ports of another server are not this notebook's
    shell = workspace.shell
    form = Playground(model, shell.describe_error, lambda: workspace.ports.endpoints if is_ours else None, shell.cite)
    ModelStates.for_server(model.server).follow_form(form, model.name)
    return form


def open_view(
    subject: Model | Recording | str | PathLike[str],
    kind: str = "timeline",
    model: str = "",
    profile: Profile | None = None,
) -> RecordView:
    """Return a view of `subject`, as `record.opening.open_view` does."""
    from .record import opening

    return opening.open_view(subject, kind, model=model, profile=profile)
