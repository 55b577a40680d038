"""`import_repository`, which writes a model repository as a notebook."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from ...core.plain_facts import few_lines
from ...core.quoting import markdown_code
from ...core.status import AlreadyExistsError
from ...core.whole_file import write_file
from ...repository.model_repository_manager import ModelRepositoryManager
from .base_directory import BaseDirectory, models_in_order
from .errors import FileError
from .model_cells import imported_cells, left_in_place, shown_path
from .opened_repository import repository_in

#: For each model, how many of the files that stay in place a notebook names.
_MOST_NAMED = 8


@dataclass(frozen=True)
class ImportedNotebook:
    """A notebook that was written. `in_cells`: the models that its cells write; `left`: the models that it serves in
    place, with the reason."""

    path: Path
    in_cells: tuple[str, ...]
    left: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {"path": str(self.path), "in_cells": list(self.in_cells), "left": dict(self.left)}

    def __str__(self) -> str:
        lines = [str(self.path), f"in cells: {', '.join(self.in_cells) or 'no model'}"]
        return "\n".join([*lines, *(f"left in the repository: {name}; {why}" for name, why in self.left.items())])

    def __repr__(self) -> str:
        return few_lines(str(self))


def import_repository(
    directory: str | PathLike[str], notebook: str | PathLike[str] | None = None, *, overwrite: bool = False
) -> ImportedNotebook:
    """Write a notebook (.ipynb) that has the models of a repository in cells: for each Python model its config, helper
    files and model.py, for each ensemble its config, after the models that it needs; and last a cell that exports all
    of it. No model is loaded.

    Weights and other files stay in place and are named; models of other backends are served from there. Unedited files
    are exported equal byte for byte. Equal repositories give notebooks that are equal byte for byte.

    notebook: its path, by default `<directory>.ipynb`. Raises FileError for a directory that is not a repository,
    AlreadyExistsError for an existing notebook unless `overwrite` is set.
    """
    root = repository_in(directory)
    path = (
        Path(os.path.abspath(Path(notebook).expanduser()))
        if notebook is not None
        else root.with_name(f"{root.name}.ipynb")
    )
    if path.exists() and not overwrite:
        raise AlreadyExistsError(f"{path} is there already: overwrite=True replaces it, or name another notebook")
    bases = {name: BaseDirectory.read(root / name) for name in ModelRepositoryManager([root]).names()}
    cells, left = _cells_of(bases, path.parent)
    where = shown_path(root, path.parent)
    in_cells = [name for name in models_in_order(bases) if name in cells]
    failing = _failing(bases, left)
    sources = [
        ("markdown", _title(root.name, where, bases, left), ()),
        *_opening(where, left),
        *(cell for name in in_cells for cell in _of_model(name, bases[name], cells[name], name in failing)),
        *_exporting(where),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps(_document(sources), ensure_ascii=False, indent=1) + "\n")
    return ImportedNotebook(path, tuple(in_cells), left)


#: Kind, text, and tags of a cell.
_Source = tuple[str, str, Sequence[str]]


def _cells_of(bases: Mapping[str, BaseDirectory], start: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the texts of each model's cells, and the models without cells with the reason."""
    cells: dict[str, list[str]] = {}
    left: dict[str, str] = {}
    for name, base in bases.items():
        if not (base.is_python or base.is_ensemble):
            left[name] = f"it is of {base.kind}" if base.kind else "its config cannot be read"
            continue
        try:
            cells[name] = imported_cells(name, base, start=start)
        except FileError as error:
            left[name] = str(error)
    return cells, left


def _title(name: str, where: str, bases: Mapping[str, BaseDirectory], left: Mapping[str, str]) -> str:
    where_it_is = {each: "stays in the repository" if each in left else "in the cells below" for each in bases}
    rows = [f"| {markdown_code(each)} | {_kind(base)} | {where_it_is[each]} |" for each, base in bases.items()]
    return "\n".join(
        [
            f"# {markdown_code(name)}",
            "",
            f"The models of the repository {markdown_code(where)}, written by tritonlab.",
            "Run the cells from top to bottom; edit one and run it again. Files that no cell writes, such as weights,",
            "stay there and are used from there.",
            "The last cell writes the whole repository again: what you have not edited is the same, byte for byte.",
            "",
            "| model | kind | where it is |",
            "|---|---|---|",
            *rows,
        ]
    )


def _kind(base: BaseDirectory) -> str:
    named = base.kind.removeprefix("backend ")
    return base.kind or "unknown" if named == base.kind else f"backend {markdown_code(named)}"


def _opening(where: str, left: Mapping[str, str]) -> Iterator[_Source]:
    yield "code", "import tritonlab\n\n%load_ext tritonlab", ()
    why = (
        "serves the models that stay in the repository"
        if left
        else "finds the repository; its models are in cells below"
    )
    yield "code", f"# {why}\nopened = tritonlab.open({where!r}, models={list(left)!r})\nopened", ()


def _failing(bases: Mapping[str, BaseDirectory], left: Mapping[str, str]) -> set[str]:
    """Return the models in cells that may not load here: their config cannot be read, or they are ensembles around such
    a model or around a model of another backend."""
    failing = {name for name, base in bases.items() if base.refusal is not None}
    for name in models_in_order(bases):
        if bases[name].is_ensemble and any(other in failing or other in left for other in bases[name].needs()):
            failing.add(name)
    return failing


def _of_model(name: str, base: BaseDirectory, cells: Sequence[str], is_failing: bool) -> Iterator[_Source]:
    lines = [f"## {markdown_code(name)}"]
    if staying := left_in_place(base):
        more = len(staying) - _MOST_NAMED
        named = ", ".join(map(markdown_code, staying[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
        lines += ["", f"Used from the repository: {named}."]
    if base.refusal is not None:
        why = " ".join(str(base.refusal.detail or base.refusal.reason).split())
        lines += ["", f"Its config cannot be read yet, so it does not load: {markdown_code(why)}"]
    yield "markdown", "\n".join(lines), ()
    # Run All goes on after it
    tags = ("raises-exception",) if is_failing else ()
    yield from (("code", cell, tags) for cell in cells)


def _exporting(where: str) -> Iterator[_Source]:
    yield "markdown", "## Export\n\nThe whole repository, with what was edited above.", ()
    yield "code", f"opened.export({(where.rstrip('/') + '_exported')!r}, overwrite=True)", ()


def _document(sources: Sequence[_Source]) -> dict[str, Any]:
    cells = []
    for number, (kind, text, tags) in enumerate(sources, start=1):
        metadata = {"tags": list(tags)} if tags else {}
        made = {
            "cell_type": kind,
            "id": f"cell-{number:03}",
            "metadata": metadata,
            "source": text.splitlines(keepends=True),
        }
        cells.append({**made, "execution_count": None, "outputs": []} if kind == "code" else made)
    kernelspec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernelspec}, "nbformat": 4, "nbformat_minor": 5}
