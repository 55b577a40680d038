"""The cells that write a model of a repository, which its author then edits in the notebook."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ...repository.layout import CONFIG_FILE
from .base_directory import MOST_BYTES, BaseDirectory
from .config_text import ConfigText
from .errors import FileError
from .model_line import joined, shown_path


def imported_cells(
    name: str, base: BaseDirectory, *, version: int | None = None, start: Path | None = None
) -> list[str]:
    """Return the texts of the cells: the config, the helper files, and last the model itself, or the config of an
    ensemble, which loads it. Other files stay where they are.

    version: the one whose files are shown, by default the newest that is served. start: the directory of the notebook,
    from which paths are seen. Raises FileError for a model that no cell can hold.
    """
    where = ["--base", shown_path(base.path, start)]
    if not base.is_python:
        if not _says_something(base, name):
            fix = f"%triton load {name} serves it"
            raise FileError(f"'{name}' has no model.py and no config.pbtxt that a cell could write: {fix}", fix=fix)
        return [_cell(["%%triton_config", name, *where], base, CONFIG_FILE)]
    number = base.newest() if version is None else version
    source = base.model_path(number)
    _check_source(name, base, source)
    helpers = [
        _cell(["%%triton_file", name, os.path.relpath(file, str(number))], base, file) for file in base.texts(number)
    ]
    config = [_cell(["%%triton_config", name], base, CONFIG_FILE)] if _says_something(base, name) else []
    chosen = [] if number == base.newest() else ["--version", str(number)]
    return [*config, *helpers, _cell(["%%triton_model", name, *where, *chosen], base, source)]


def left_in_place(base: BaseDirectory, *, version: int | None = None) -> list[str]:
    """Return the files of the model that no cell of `imported_cells` writes, sorted."""
    number = base.newest() if version is None else version
    written = {CONFIG_FILE, *([base.model_path(number), *base.texts(number)] if base.is_python else [])}
    return sorted({*base.tree.files, *base.tree.links} - written)


def _cell(words: list[str], base: BaseDirectory, file: str) -> str:
    return f"{joined(words)}\n{base.original(file).text}"


def _says_something(base: BaseDirectory, name: str) -> bool:
    return (
        base.has_config and base.can_be_cell(CONFIG_FILE) and ConfigText(base.config_text(), model=name).says_something
    )


def _check_source(name: str, base: BaseDirectory, source: str) -> None:
    if source not in base.tree.files:
        versions = ", ".join(_versions_with_source(base)) or "none"
        fix = f"versions with a {base.model_file}: {versions}"
        raise FileError(f"'{name}' has no {source}; {fix}", field=source, fix=fix)
    if not base.can_be_cell(source):
        fix = f"edit the file where it is, {base.path / source}: it is loaded again when it changes"
        raise FileError(
            f"{source} of '{name}' is empty, not a text, or has more than {MOST_BYTES:,} bytes: {fix}", fix=fix
        )


def _versions_with_source(base: BaseDirectory) -> Iterator[str]:
    return (str(version) for version in base.versions if base.model_path(version) in base.tree.files)
