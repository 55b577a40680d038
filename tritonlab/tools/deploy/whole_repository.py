"""The export of an opened repository: all its models, loaded or not, and the files next to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from ...core.status import InvalidArgumentError
from ...core.unknown_option import UnknownOption
from ...notebook.authoring.errors import FileError
from ...notebook.authoring.opened_repository import OpenedRepository
from ...repository.model_tree import ModelTree, is_requested, leads_out, read_tree
from ...repository.place import removed_at_error, repository_path
from . import left_out
from .export_options import ExportOptionError, ExportOptions
from .opened_build import build_of
from .placement import compare_files
from .releases import find_target
from .report import ExportPlan, RepositoryReport
from .repository import Export
from .secrets import why_secret

#: The options of `tritonlab.export` that a whole repository has; it is complete, and its models are not changed.
_OPTIONS = ("overwrite", "include", "target", "env", "deploy", "verify", "last", "dry_run", "about", "say", "cancel")


def export_opened(opened: OpenedRepository, directory: str | PathLike[str], **options: Any) -> RepositoryReport:
    """Run `OpenedRepository.export`, with its keyword arguments: write the models, by their directories' names, and the
    files next to them, unchanged: bytes, modes, links that lead within a model, empty directories. Python-based
    backends that run them are written next to the repository.

    Either everything is written or nothing. Existing content that differs raises ExportConflict, unless `overwrite` is
    set; then it is moved to `<directory>.backup` first. The report warns of files that are left out because they are
    hidden, have more than 100 MB, or are links out of the repository; `include`, names or patterns of such files, adds
    them. An environment and deploy files need models that answer here. Raises NoRepository, and what
    `tritonlab.export` raises.
    """
    UnknownOption.check("export", options, _OPTIONS)
    chosen = ExportOptions.from_keywords(**options)
    chosen.check(directory)
    target, root = find_target(chosen.target), opened.path
    found = [build_of(opened, name, chosen.include) for name in opened]
    if not found:
        raise FileError(f"{root} has no models", field=str(root))
    # a link to another place is not part of the repository; `_write_files` reports it
    builds = [
        each for each in found if not leads_out(each.directory, (root,)) or is_requested(each.name, chosen.include)
    ]
    if not builds:
        raise InvalidArgumentError(f"all models of {root} are links to other places: include=['*'] exports them")
    kind = "deploy" if chosen.deploy else "env" if chosen.env.choice != "none" else ""
    missing = [each.name for each in builds if each.model is None]
    if kind and missing:
        text = f"{kind} needs all models to be served here, and these are not: {', '.join(missing)}"
        raise ExportOptionError(text, "load it, or export without that option")
    path, names = repository_path(directory), [each.name for each in builds]
    write_files = partial(_write_files, root, names, repository=path, include=chosen.include)
    work = Export(builds, path, target, chosen, write_files)
    with removed_at_error(path, f"{root} was not exported to {path}"):
        report = work.write()
    assert work.files is not None
    return RepositoryReport(work.prove(report), work.files)


def _write_files(
    root: Path, models: Sequence[str], new: Path, *, repository: Path, include: Sequence[str]
) -> ExportPlan:
    """Write the files that lie next to the models to `new`, and return the differences to the ones in the
    repository."""
    tree = read_tree(root, include=include, skip=models, why_secret=why_secret)
    files = [file for file in tree.files if "/" not in file]
    new.mkdir(parents=True)
    ModelTree(root, files, {link: end for link, end in tree.links.items() if "/" not in link}).copy(new)
    hidden = sorted({file.partition("/")[0] for file in tree.files if "/" in file})
    kept_back = [f"the directory {name} is not a model and was left out" for name in hidden]
    return replace(compare_files(new, repository), warnings=(*left_out.sentences(tree.left_out), *kept_back))
