"""The texts of cells that write a model: of one cell for a whole draft, or of the cells for a repository's model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from google.protobuf import text_format

from ...core.quoting import magic_line
from ...repository.layout import CONFIG_FILE
from ...repository.model_names import name_fault
from ...repository.model_tree import Omission
from .base_directory import MOST_BYTES, BaseDirectory
from .cell_text import cell_head
from .config_options import ConfigOptions
from .config_text import ConfigText
from .draft import Draft
from .errors import FileError
from .source_map import ModelFile

_LINKS = (Omission.OUTSIDE, Omission.DANGLING)
#: What to do about a model that no cell can hold.
_ELSEWHERE = "rename it, or leave the model in the repository, from where it is served"
#: How many directories up a relative path may lead.
_FAR = 2


def model_line(draft: Draft) -> tuple[str, list[str]]:
    """Return the head of the cell with the options, config and files that were given with the last source, and the
    names of files that it cannot give: they were given as bytes, or lie elsewhere under another name.
    """
    words = ["%%triton_model", draft.name, *_options(draft.options)]
    if draft.base is not None:
        words += ["--base", shown_path(draft.base.path)]
    config = draft.given_config
    if config.says_something:
        in_one_line = str(text_format.MessageToString(config.message, as_one_line=True))
        words += ["--config", config.source if Path(config.source).is_file() else in_one_line]
    paths = {name: path for name, file in draft.given_files.items() if (path := _path(name, file))}
    if paths:
        words += ["--file", *paths.values()]
    if draft.version != (draft.base.newest() if draft.base is not None else 1):
        words += ["--version", str(draft.version)]
    return cell_head(*words), [name for name in draft.given_files if name not in paths]


def config_line(draft: Draft) -> str:
    """Return the head of the cell of a model that has only a config and, of another backend, a file."""
    words = ["%%triton_config", draft.name]
    if draft.base is not None:
        words += ["--base", shown_path(draft.base.path)]
    if draft.config_files:
        words += ["--file", *(str(file.content) for file in draft.config_files.values())]
    return cell_head(*words)


def shown_path(path: Path, start: Path | None = None) -> str:
    """Return the path as a cell names it: relative to `start`, the directory of the notebook, if it is not far away."""
    relative = os.path.relpath(path, start or Path.cwd())
    return str(path) if relative.count("..") > _FAR else relative


def _options(options: ConfigOptions) -> Iterator[str]:
    if options.max_batch_size is not None:
        yield from ("--max-batch-size", str(options.max_batch_size))
    if options.dynamic_batching is True:
        yield "--dynamic-batching"
    elif options.dynamic_batching is not None and options.dynamic_batching is not False:  # 0 is a delay
        yield from ("--dynamic-batching", str(options.dynamic_batching))
    if options.instances is not None:
        yield from ("--instances", str(options.instances))
    if options.kind is not None:
        yield from ("--kind", options.kind)
    if options.decoupled:
        yield "--decoupled"
    for option, values in (
        ("--preferred-batch-size", options.preferred_batch_size),
        ("--gpus", options.gpus),
        ("--input", options.inputs),
        ("--output", options.outputs),
        ("--param", [f"{key}={value}" for key, value in options.parameters.items()]),
    ):
        if values:
            yield from (option, *map(str, values))


def _path(name: str, file: ModelFile) -> str:
    """Return the path of a file for `--file`; "" if `--file` cannot take it."""
    return str(file.content) if isinstance(file.content, Path) and file.content.name == name else ""


def imported_cells(
    name: str, base: BaseDirectory, *, version: int | None = None, start: Path | None = None
) -> list[str]:
    """Return the texts of the cells: the config, the helper files, and last the model itself, or the config of an
    ensemble, which loads it. Other files stay in place.

    version: the version whose files are shown, by default the newest that is served. start: the directory of the
    notebook, to which paths are relative. Raises FileError for a model that no cell can hold.
    """
    where = ["--base", shown_path(base.path, start)]
    if fault := name_fault(name, has_stub=base.is_python):
        raise FileError(f"{name!r} cannot be the name of a model in a cell: it {fault}; {_ELSEWHERE}", fix=_ELSEWHERE)
    if refused := [word for word in (name, where[1]) if not _fits_a_line(word)]:
        text = f"{name!r} cannot be in a cell, whose first line cannot hold {refused[0]!r}: {_ELSEWHERE}"
        raise FileError(text, fix=_ELSEWHERE)
    if not base.is_python:
        if not _says_something(base, name):
            fix = f"{magic_line('%triton', 'load', name)} serves it"
            raise FileError(f"'{name}' has no model.py and no config.pbtxt that a cell could write: {fix}", fix=fix)
        return [_cell(["%%triton_config", name, *where], base, CONFIG_FILE)]
    number = base.newest() if version is None else version
    source = base.model_path(number)
    _check_source(name, base, source)
    helpers = [
        _cell(["%%triton_file", name, os.path.relpath(file, str(number))], base, file)
        for file in base.texts(number)
        if _fits_a_line(file)
    ]
    config = [_cell(["%%triton_config", name], base, CONFIG_FILE)] if _says_something(base, name) else []
    chosen = [] if number == base.newest() else ["--version", str(number)]
    return [*config, *helpers, _cell(["%%triton_model", name, *where, *chosen], base, source)]


def left_in_place(base: BaseDirectory) -> list[str]:
    """Return the files of the model that `imported_cells` does not write, sorted."""
    number = base.newest()
    texts = [base.model_path(number), *filter(_fits_a_line, base.texts(number))] if base.is_python else []
    written = {CONFIG_FILE, *texts}
    return sorted({*base.tree.files, *base.tree.links} - written)


def _cell(words: list[str], base: BaseDirectory, file: str) -> str:
    return f"{cell_head(*words)}\n{base.original(file).text}"


def _fits_a_line(word: str) -> bool:
    """Return whether the line of a magic can have the word: IPython evaluates text in braces or after a dollar."""
    return word.isprintable() and not word.startswith("-") and not set("{}$") & set(word)


def _says_something(base: BaseDirectory, name: str) -> bool:
    return (
        base.has_config and base.can_be_cell(CONFIG_FILE) and ConfigText(base.config_text(), model=name).says_something
    )


def _check_source(name: str, base: BaseDirectory, source: str) -> None:
    ends = {**base.tree.links, **{each.path: each.detail for each in base.tree.left_out if each.reason in _LINKS}}
    if linked := [path for path in (source, os.path.dirname(source)) if path in ends]:
        fix = "edit the file to which it leads: it is loaded again when it changes"
        raise FileError(f"{linked[0]} of '{name}' is a link to {ends[linked[0]]!r}: {fix}", field=source, fix=fix)
    if source not in base.tree.files:
        versions = ", ".join(str(each) for each in base.versions if base.model_path(each) in base.tree.files) or "none"
        fix = f"versions with a {base.model_file}: {versions}"
        raise FileError(f"'{name}' has no {source}; {fix}", field=source, fix=fix)
    if not base.can_be_cell(source):
        fix = f"edit the file where it is, {base.path / source}: it is loaded again when it changes"
        raise FileError(
            f"{source} of '{name}' is empty, not a text, or has more than {MOST_BYTES:,} bytes: {fix}", fix=fix
        )
