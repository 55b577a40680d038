"""`%triton edit`, which puts the source of a model into the next cell."""

from __future__ import annotations

from typing import Any

from ..authoring.errors import FileError
from ..authoring.model_line import model_line
from ..authoring.workspace import Workspace


def edit(shell: Any, workspace: Workspace, name: str) -> None:
    """Make the next cell one that writes the model as it was written. Raises FileError for one that this notebook has
    no source of.
    """
    draft = workspace.draft(name)
    source = draft.source
    if source is None and draft.is_ensemble:
        shell.set_next_input(f"%%triton_config {name}\n{draft.config.text}")
        return
    if source is None:
        raise FileError(f"this notebook has no source of {name!r}: load it first", fix="load it first")
    line, left_out = model_line(draft)
    if left_out:
        print(f"These files, which load() got, cannot be named in the cell: {', '.join(left_out)}")
    shell.set_next_input(f"{line}\n{source.text()}")
