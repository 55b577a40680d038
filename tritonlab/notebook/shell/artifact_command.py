"""`%triton artifact`, which keeps what was made in the notebook with the model that needs it."""

from __future__ import annotations

from typing import Any

from ..authoring.artifact import artifact_of
from ..authoring.cells import user_namespace
from ..authoring.errors import ExpressionError, OptionError
from ..authoring.workspace import Workspace
from ..views.card.card_display import LoadingCard
from .results import Text
from .variables import bind

_USAGE = "%triton artifact NAME weights.pt=expression"


def artifact(shell: Any, workspace: Workspace, line: str) -> Text:
    """Write the value of an expression beside model.py, and load the model again if it is there already. Raises
    OptionError, FileError, and what a load does."""
    name, _, rest = line.strip().partition(" ")
    path, equals, expression = (part.strip() for part in rest.partition("="))
    if not name or not path or not equals or not expression:
        raise OptionError(f"write {_USAGE}", fix=_USAGE)
    try:
        value = eval(expression, dict(user_namespace()))
    except Exception as error:
        raise ExpressionError.from_exception(expression, error) from None
    stored = artifact_of(path, value)
    written = workspace.write_file(name, path, stored.data)
    if workspace.draft(name).loadable:
        with LoadingCard(workspace, name, quiet=True):
            bind(shell, workspace.load(name, if_changed=True))
    text = f"{written} of {name} has {len(stored.data):,} bytes; the model reads it with {stored.reader}"
    where = "path is os.path.join(os.path.dirname(__file__), ...)"
    return Text(f"{text}, where {where}", {"model": name, "path": written, "bytes": len(stored.data)})
