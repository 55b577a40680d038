"""The export of an opened repository: all its models, loaded or not, and the files next to them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from ...core.config.model_config import ConfigError, read_config
from ...core.status import InvalidArgumentError
from ...core.version import DEFAULT_TARGET
from ...notebook.authoring.errors import FileError
from ...notebook.authoring.opened_repository import OpenedRepository
from ...repository.layout import CONFIG_FILE
from ...repository.model_tree import ModelTree, is_requested, leads_out, read_tree
from ...repository.place import make_repository, removed_at_error, repository_path, scratch_place
from ...server.models.backend_choice import choice_words
from . import left_out
from .own_backends import OwnBackend, backends_of, find_own_backend
from .placement import BESIDE, MODELS, compare_files, compare_trees, put_in_place, scratch_directory
from .releases import find_target
from .report import ExportPlan, ExportReport, RepositoryReport
from .secrets import secret_sentences, why_secret

#: The part of the directory in which an export is built with the backends that go next to the repository.
_BACKENDS = "backends"


@dataclass(frozen=True)
class ExportedModel:
    """One model to export: its directory, the facts of its row, and the Python-based backend that runs it."""

    directory: Path
    warnings: Sequence[str] = ()
    backend: OwnBackend | None = None


def export_whole(
    models: Mapping[str, ExportedModel],
    root: Path,
    directory: str | PathLike[str],
    *,
    overwrite: bool = False,
    include: str | Sequence[str] = (),
) -> RepositoryReport:
    """Write the models, by their directories' names, and the files of `root` next to them, unchanged: bytes, modes,
    links that lead within a model, empty directories. Python-based backends that run them are written next to the
    repository.

    Either everything is written or nothing. Existing content that differs raises ExportConflict, unless `overwrite` is
    set; then it is moved to `<directory>.backup` first. The report warns of files that are left out because they are
    hidden, have more than 100 MB, or are links out of the repository; `include`, names or patterns of such files, adds
    them. Raises NoRepository.
    """
    wanted = [include] if isinstance(include, str) else list(include)
    # a link to another place is not part of the repository; `_build_beside` reports it
    models = {
        name: model
        for name, model in models.items()
        if not leads_out(model.directory, (root,)) or is_requested(name, wanted)
    }
    if not models:
        raise InvalidArgumentError(f"all models of {root} are links to other places: include=['*'] exports them")
    path = repository_path(directory)
    with removed_at_error(path, f"{root} was not exported to {path}"):
        repository = make_repository(path)
        with scratch_directory(scratch_place(repository)) as made:
            built, brought = Path(made), Path(made) / _BACKENDS
            plans = [
                _build(model, root, new=built / MODELS / name, target=repository / name, include=wanted)
                for name, model in models.items()
            ]
            files = _build_beside(root, models, new=built / BESIDE, repository=repository, include=wanted)
            brought.mkdir()
            for each in {model.backend.name: model.backend for model in models.values() if model.backend}.values():
                each.write(brought / backends_of(repository).name / each.name)
            backends = compare_files(brought, repository.parent)
            beside = {built / BESIDE: files, brought: backends}
            backups = put_in_place(repository, built, plans, beside, overwrite=overwrite)
    image = find_target(DEFAULT_TARGET).release.image
    reports = [ExportReport(plan, image, backup) for plan, backup in zip(plans, backups, strict=True)]
    return RepositoryReport(tuple(reports), files, backends)


def export_opened(
    opened: OpenedRepository,
    directory: str | PathLike[str],
    *,
    overwrite: bool = False,
    include: str | Sequence[str] = (),
) -> RepositoryReport:
    """Run `OpenedRepository.export`."""
    models = {name: _exported(opened, name) for name in opened}
    if not models:
        raise FileError(f"{opened.path} has no models", field=str(opened.path))
    return export_whole(models, opened.path, directory, overwrite=overwrite, include=include)


def _exported(opened: OpenedRepository, name: str) -> ExportedModel:
    workspace = opened.workspace
    report, known, backend = workspace.report(name), workspace.server.core.model(name), _own_backend(opened, name)
    if not opened[name].in_cells or report is None:
        # the repository's own files are exported, whichever backend answers here
        here = known.versions.values() if known is not None and opened.is_served_from_here(name) else ()
        answers = next((words for version in here if (words := choice_words(version.config))), "")
        return ExportedModel(opened.path / name, [*left_out.never_ran(answers)], backend)
    directory, exported = workspace.repository / name, "what could not be loaded"
    if report.ready_at:
        exported = "the version that serves"
    elif not directory.is_dir():  # models that are not Python, for example, are not written
        directory, exported = opened.path / name, "the model as it lies in the repository"
    warnings = [f"its cells did not load when they ran last: {exported} was exported"] if report.error else []
    return ExportedModel(directory, warnings, backend)


def _own_backend(opened: OpenedRepository, name: str) -> OwnBackend | None:
    """Return the Python-based backend of a model. Raises NotDeployable if it has gone."""
    core = opened.workspace.server.core
    known = core.model(name)
    configs = [version.config for version in known.versions.values()] if known is not None else []
    if not configs:
        with contextlib.suppress(ConfigError):
            configs = [read_config(opened.path / name / CONFIG_FILE)]
    return find_own_backend(name, configs[0], core.options.backend_directory) if configs else None


def _build(model: ExportedModel, root: Path, *, new: Path, target: Path, include: Sequence[str]) -> ExportPlan:
    """Write a model to `new`, and return the differences if it replaces `target`."""
    tree = read_tree(model.directory, include=include, inside=(root,), why_secret=why_secret)
    new.mkdir(parents=True)
    tree.copy(new)
    found = [*model.warnings, *left_out.sentences(tree.left_out)]
    found += [f"{sentence}: {remedy}" for sentence, remedy, _ in secret_sentences(model.directory, tree.files)]
    found += model.backend.warnings(target.parent) if model.backend is not None else []
    return replace(compare_trees(new, target), warnings=tuple(dict.fromkeys(found)))


def _build_beside(
    root: Path, models: Mapping[str, ExportedModel], *, new: Path, repository: Path, include: Sequence[str]
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
