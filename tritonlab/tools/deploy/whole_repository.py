"""The export of an opened repository: all its models, loaded or not, and the files next to them."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from ...core.config.model_config import ConfigError, read_config
from ...core.status import InvalidArgumentError
from ...core.unknown_option import UnknownOption
from ...notebook.authoring.errors import FileError
from ...notebook.authoring.opened_repository import OpenedRepository
from ...repository.layout import CONFIG_FILE
from ...repository.model_tree import ModelTree, is_requested, leads_out, read_tree
from ...repository.place import make_repository, removed_at_error, repository_path, scratch_place
from ...server.api.model import Model
from ...server.models.backend_choice import choice_words
from . import left_out
from .environment.placed import PlacedEnvironment
from .export_options import ExportOptionError, ExportOptions
from .model_build import stops
from .own_backends import OwnBackend, backends_of, find_own_backend
from .placement import BESIDE, MODELS, compare_files, compare_trees, put_in_place, scratch_directory
from .preflight.finding import Preflight, say_once
from .preflight.judge import judge, subject_in, subject_of
from .preflight.subject import Subject
from .releases import find_target
from .report import ExportPlan, ExportReport, RepositoryReport
from .repository import Delivery, operator_facts
from .secrets import secret_sentences, why_secret

#: The part of the directory in which an export is built with the backends that go next to the repository.
_BACKENDS = "backends"
#: The options of `tritonlab.export` that a whole repository has; it is complete, and its models are not changed.
_OPTIONS = ("overwrite", "include", "target", "env", "deploy", "verify", "last", "dry_run", "about", "say", "cancel")


@dataclass(frozen=True)
class ExportedModel:
    """One model to export: its directory, the facts of its row, and the Python-based backend that runs it."""

    directory: Path
    warnings: Sequence[str] = ()
    backend: OwnBackend | None = None


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
    found, root = {name: _exported(opened, name) for name in opened}, opened.path
    if not found:
        raise FileError(f"{root} has no models", field=str(root))
    # a link to another place is not part of the repository; `_build_beside` reports it
    models = {
        name: model
        for name, model in found.items()
        if not leads_out(model.directory, (root,)) or is_requested(name, chosen.include)
    }
    if not models:
        raise InvalidArgumentError(f"all models of {root} are links to other places: include=['*'] exports them")
    path, server = repository_path(directory), opened.workspace.server
    here = {name: server.model(name) for name in models if opened.is_served_from_here(name)}
    work = _Whole(models, root, path, chosen, {name: model for name, model in here.items() if model.ready()})
    with removed_at_error(path, f"{root} was not exported to {path}"):
        if chosen.dry_run:
            with tempfile.TemporaryDirectory(prefix="tritonlab-export-") as scratch:
                return work.build(Path(scratch))
        repository = make_repository(path)
        with scratch_directory(scratch_place(repository)) as made:
            report = work.write(Path(made))
    return work.prove(report) if chosen.verify else report


class _Whole(Delivery):
    """One export of a repository."""

    def __init__(
        self,
        models: Mapping[str, ExportedModel],
        root: Path,
        repository: Path,
        options: ExportOptions,
        served: Mapping[str, Model],
    ) -> None:
        super().__init__(repository, find_target(options.target), options)
        self._models, self._root, self._served = models, root, served
        if missing := [name for name in models if name not in served]:
            kind = "deploy" if options.deploy else "env" if options.env.choice != "none" else ""
            if kind:
                text = f"{kind} needs all models to be served here, and these are not: {', '.join(missing)}"
                raise ExportOptionError(text, "load it, or export without that option")

    def build(self, built: Path) -> RepositoryReport:
        """Build everything in `built`, and return the differences to the present files."""
        brought = built / _BACKENDS
        brought.mkdir()
        found = {name: self._copy(name, built / MODELS / name) for name in self._models}
        files = _build_beside(
            self._root,
            self._models,
            new=built / BESIDE,
            repository=self._repository,
            include=self._options.include,
        )
        backends = {model.backend.name: model.backend for model in self._models.values() if model.backend}
        for each in backends.values():
            each.write(brought / backends_of(self._repository).name / each.name)
        subjects = {name: self._subject(name, built / MODELS / name) for name in self._models}
        places = {built / MODELS / name: subject for name, subject in subjects.items()}
        environment = self._place_environment(places, brought)
        judged = say_once(self._judge(name, subject, built, environment) for name, subject in subjects.items())
        self._note_facts([built / MODELS, built / BESIDE], brought, environment)
        image = ""
        if self._options.deploy:
            known = {self._served[name]: subject for name, subject in subjects.items() if subject is not None}
            operator = operator_facts(self._options, known, environment, judged)
            image = self._write_deploy_files(brought, known, backends, operator)
        plans = [
            replace(
                compare_trees(built / MODELS / name, self._repository / name),
                warnings=tuple(dict.fromkeys([*found[name], *stops(preflight)])),
            )
            for name, preflight in zip(self._models, judged, strict=True)
        ]
        first, *others = [
            ExportReport(plan, self._target.release.image, preflight=preflight)
            for plan, preflight in zip(plans, judged, strict=True)
        ]
        first = replace(
            first,
            environment=environment,
            version=self._record["version"],
            built_image=image,
            dry_run=self._options.dry_run,
        )
        return RepositoryReport((first, *others), files, compare_files(brought, self._repository.parent))

    def write(self, built: Path) -> RepositoryReport:
        """Write everything, or nothing. Raises ExportConflict, unless `overwrite` is set."""
        report = self.build(built)
        backups = put_in_place(
            self._repository,
            built,
            [each.plan for each in report.models],
            {built / BESIDE: report.files, built / _BACKENDS: report.backends},
            overwrite=self._options.overwrite,
            finish=self._write_record,
        )
        models = [replace(each, backup=backup) for each, backup in zip(report.models, backups, strict=True)]
        return replace(report, models=tuple(models))

    def prove(self, report: RepositoryReport) -> RepositoryReport:
        """Return the report with the verdict of real servers. Raises Cancelled."""
        subjects = {model: subject_of(model, self._options.include) for model in self._served.values()}
        verification = self._verify(subjects)
        first, *others = report.models
        return replace(report, models=(replace(first, verification=verification), *others))

    def _copy(self, name: str, new: Path) -> list[str]:
        """Write a model to `new`, and return warnings."""
        model = self._models[name]
        tree = read_tree(model.directory, include=self._options.include, inside=(self._root,), why_secret=why_secret)
        new.mkdir(parents=True)
        tree.copy(new)
        found = [*model.warnings, *left_out.sentences(tree.left_out)]
        found += [f"{sentence}: {remedy}" for sentence, remedy, _ in secret_sentences(model.directory, tree.files)]
        return found + (list(model.backend.warnings(self._repository)) if model.backend is not None else [])

    def _subject(self, name: str, new: Path) -> Subject | None:
        """Return the subject of pre-flight: the model as it is served, else its files; None if its config cannot be
        read."""
        if name in self._served:
            return subject_of(self._served[name], self._options.include)
        try:
            return subject_in(new)
        except ConfigError:
            return None

    def _judge(
        self, name: str, subject: Subject | None, built: Path, environment: PlacedEnvironment | None
    ) -> Preflight:
        if subject is None:
            return Preflight(name, str(self._target), (), ("its config cannot be read",), is_complete=False)
        subject = subject if environment is None else environment.subject_with(subject)
        return judge(replace(subject, repositories=(self._repository, built / MODELS)), self._target)


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
