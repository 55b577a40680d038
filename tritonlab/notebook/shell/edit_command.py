"""`%triton edit`, which puts the source of a model into the next cell."""

from __future__ import annotations

from typing import Any

from ..authoring.base_directory import BaseDirectory
from ..authoring.errors import FileError
from ..authoring.model_cells import imported_cells, joined, model_line, shown_path
from ..authoring.workspace import Workspace


def edit(shell: Any, workspace: Workspace, name: str) -> None:
    """Make the next cell one that writes the model as it was written, or as it lies in a repository that was opened.
    Raises FileError for one that this notebook has no source of.
    """
    draft = workspace.draft(name)
    source = draft.source
    if source is None and draft.is_ensemble:
        base = f" --base {joined([shown_path(draft.base.path)])}" if draft.base is not None else ""
        shell.set_next_input(f"%%triton_config {name}{base}\n{draft.config.text}")
        return
    directory = next((path / name for path in workspace.repositories if (path / name).is_dir()), None)
    if source is None and directory is not None:
        *others, cell = imported_cells(name, BaseDirectory.read(directory))
        shell.set_next_input(cell)
        if others:
            print(f"What this cell does not write counts as it is in {directory}; cells for that, too, are\n")
            print("\n".join(other.partition("\n")[0] for other in others))
        return
    if source is None:
        raise FileError(f"this notebook has no source of {name!r}: load it first", fix="load it first")
    line, left_out = model_line(draft)
    if left_out:
        print(f"These files, which load() got, cannot be named in the cell: {', '.join(left_out)}")
    shell.set_next_input(f"{line}\n{source.text()}")
