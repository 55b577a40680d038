"""The export of served models: model directories that a Triton server can load, their environment, deploy files, and
the verdict of real servers.

A directory that exists is never written into. Everything is built in one scratch directory next to the repository and
moved to its place at the end, so that a refused environment, an error or a cancelled export leaves nothing behind.
Replacing moves the old directory away and the new one in, so that at every moment one of the two is complete. The
verdict comes afterwards, on the written files.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from ...core.status import InvalidArgumentError
from ...exchanges.exchange import Exchange
from ...exchanges.golden import GoldenSet
from ...exchanges.last_cases import answered_cases, last_cases
from ...repository.place import make_repository, removed_at_error, repository_path, scratch_place
from ...server.api.model import Model
from ...server.api.needed_models import needed_models, stood_in
from ...server.models.backend_choice import choice_words
from .child_command import Cancelled, raise_if_cancelled
from .environment.lock import imported
from .environment.placed import PlacedEnvironment, place_environment, planned_environment
from .export_options import ExportOptionError, ExportOptions
from .export_record import record_facts, write_record
from .exported_files import files_of, has_stub, lock_of, models_in, version_of
from .left_out import never_ran
from .manifests.facts import deployment_of
from .manifests.files import write_deploy_files
from .manifests.operator_facts import OpenPoint, OperatorFacts, load_bound
from .model_build import ModelBuild, stops
from .opened_build import OpenedBuild
from .own_backends import backends_of
from .placement import BESIDE, FILES, MODELS, compare_files, compare_trees, put_in_place, scratch_directory
from .preflight.finding import Prediction, Preflight, say_once
from .preflight.judge import judge, with_trial
from .preflight.reads import paths_of_the_machine
from .preflight.subject import Subject
from .preflight.variables import variables_of
from .releases import Target, find_target
from .report import ExportPlan, ExportReport
from .verify.verdict import Verification
from .verify.verdict_history import VerdictHistory
from .verify.verification import releases, verify

#: The most of a model's last requests that become tests, if it has no golden case.
_LAST_IN_TESTS = 8
#: The rows of pre-flight about files and settings of the author's machine that a model reads.
_OF_THIS_MACHINE = ("P3", "P4")


def export(models: Sequence[Model], directory: str | PathLike[str], options: ExportOptions) -> ExportReport:
    """Write `<directory>/<name>/config.pbtxt`, `<version>/model.py` and the other files of each model, and return a
    report. Files keep their modes, and links that lead within the model directory stay links.

    The config is complete: fields that the notebook's server filled in or took from auto_complete_config are added to
    the author's text, which is kept with its comments. If they cannot be added there, the config is written again, and
    the report mentions it. The config of a repository's model (`tritonlab.open`) is unchanged except for edits in a
    cell. An existing directory that differs raises ExportConflict, unless `overwrite` is set; then it is moved to
    `<directory>.backup/<name>-<time>` first. An equal directory is left alone.

    The models that these need are written with them: the steps of an ensemble, and the models that BLS calls name;
    `alone` leaves them out. Their Python-based backends go to `backends_of(directory)`. Either everything is written
    or, after a conflict, an error or an interrupt, nothing. The report warns of missing models, of files that are left
    out, and of problems at the target.

    Raises NoRepository, UnknownTarget, ExportConflict, ExportOptionError, EnvironmentRefused, CommandFailed, Cancelled.
    """
    target = find_target(options.target)
    for each in models:
        if not hasattr(each, "config_pbtxt"):
            raise InvalidArgumentError(
                f"{each!r} is not a model: export() takes the model itself, as load() and server.model(NAME) return it"
            )
    if not models:
        raise InvalidArgumentError("there is no model to export: name one at least")
    repository = repository_path(directory)
    with removed_at_error(repository, f"'{models[0].name}' was not exported to {repository}"):
        exported, absent = _group(models, options.alone)
        builds = [ModelBuild.of(each, options.include) for each in exported]
        work = Export(
            [replace(build, absent=absent.get(build.name, ())) for build in builds], repository, target, options
        )
        report = work.write()
    return work.prove(report)


def _group(chosen: Sequence[Model], alone: bool) -> tuple[list[Model], Mapping[str, Sequence[str]]]:
    """Return the models that are exported together, and for each, by name, the needed models that the export lacks."""
    exported = {model.name: model for model in chosen}
    absent: dict[str, list[str]] = {}
    for model in chosen:
        needed = needed_models(model)
        for other in needed.loaded:
            if not alone:
                exported.setdefault(other.name, other)
            elif other.name not in exported:
                text = f"it needs the model '{other.name}', which was not exported with it"
                absent.setdefault(model.name, []).append(text)
        for user, name in needed.missing:
            text = f"it calls the model '{name}', which is not loaded here and so was not exported"
            absent.setdefault(user, []).append(text)
    return list(exported.values()), absent


def _of_needed(model: Model) -> Iterator[str]:
    """Yield a warning for each needed model that something else answers for here."""
    for name, words in stood_in(model).items():
        if name != model.name:
            yield f"it needs '{name}', which did not answer itself here ({words}): its answers are not the real ones"


class _Built(NamedTuple):
    """The results of a build in scratch directories: `plans` and `preflights` of the models, and the plan of the files
    that go next to the repository."""

    plans: list[ExportPlan]
    preflights: list[Preflight]
    beside: ExportPlan
    environment: PlacedEnvironment | None


#: One model to be exported.
Build = ModelBuild | OpenedBuild


class Export:
    """One export: its models are built with everything that belongs to them, compared with the present files, moved to
    their place, and proved. `write_files`: writes the files that lie next to the models in their repository, and
    returns the differences; `files`: these differences, once everything is built."""

    def __init__(
        self,
        builds: Sequence[Build],
        repository: Path,
        target: Target,
        options: ExportOptions,
        write_files: Callable[[Path], ExportPlan] | None = None,
    ) -> None:
        self._builds, self._repository, self._target, self._options = builds, repository, target, options
        self._write_files = write_files
        self.files: ExportPlan | None = None
        #: golden requests for the clients, the tests and the proof
        self._cases = GoldenSet().cases() if options.deploy or options.verify else []
        self._record: dict[str, Any] = {}
        #: by the names of their directories
        self._backends = {build.backend.name: build.backend for build in builds if build.backend is not None}
        sizes = [*(each.copied_size() for each in builds), *(each.size() for each in self._backends.values())]
        self._done, self._total = 0, sum(sizes)
        self._image = ""

    @property
    def _subjects(self) -> dict[Model, Subject]:
        """The models that are served here."""
        found = ((build.model, build.subject) for build in self._builds)
        return {model: subject for model, subject in found if model is not None and subject is not None}

    def write(self) -> ExportReport:
        """Write everything, or nothing; a dry run returns the effects. Raises ExportConflict, unless `overwrite` is
        set."""
        options = self._options
        if options.dry_run:
            with tempfile.TemporaryDirectory(prefix="tritonlab-export-") as made:
                return replace(self._report(self._build(Path(made))), dry_run=True)
        repository = make_repository(self._repository)
        with scratch_directory(scratch_place(repository)) as made:
            scratch = Path(made)
            built = self._build(scratch)
            raise_if_cancelled(options.cancel)
            backups = put_in_place(
                repository,
                scratch,
                built.plans,
                files={scratch / BESIDE: built.beside} | ({scratch / FILES: self.files} if self.files else {}),
                overwrite=options.overwrite,
                finish=self._write_record,
            )
            return self._report(built, backups)

    def prove(self, report: ExportReport) -> ExportReport:
        """Return the report with the verdict of real servers, if one was requested. Raises Cancelled."""
        if self._options.dry_run or not self._options.verify:
            return report
        return replace(report, verification=self._verify())

    def _build(self, scratch: Path) -> _Built:
        """Build everything in `scratch`, and compare it with the present files."""
        files, repository = scratch / BESIDE, self._repository
        files.mkdir()
        places = {scratch / MODELS / build.name: build for build in self._builds}
        found = [build.write(place, self._copied) for place, build in places.items()]
        for name, backend in self._backends.items():
            backend.write(files / backends_of(repository).name / name, self._copied)
        self.files = self._write_files(scratch / FILES) if self._write_files is not None else None
        environment = self._place_environment({place: build.subject for place, build in places.items()}, files)
        self._note_facts([scratch / MODELS, scratch / FILES], files, environment)
        preflights = say_once(self._judge(build, environment, scratch / MODELS) for build in self._builds)
        if self._options.deploy:
            operator = operator_facts(self._options, self._subjects, environment, preflights)
            self._image = self._write_deploy_files(files, operator)
        plans = []
        for (place, build), warnings, preflight in zip(places.items(), found, preflights, strict=True):
            plan = compare_trees(place, repository / place.name)
            needed = _of_needed(build.model) if build.model is not None else ()
            brought = build.backend.warnings(repository) if build.backend is not None else ()
            about = (*warnings, *needed, *brought, *stops(preflight))
            plans.append(replace(plan, warnings=(*dict.fromkeys(about), *build.absent)))
        return _Built(plans, preflights, compare_files(files, repository.parent), environment)

    def _judge(self, build: Build, environment: PlacedEnvironment | None, built: Path) -> Preflight:
        """Return the problems of a model at the target, with the exported environment and with all models, of which
        `built` has the new ones, next to it."""
        subject = build.subject
        if subject is None:
            return Preflight(build.name, str(self._target), (), ("its config cannot be read",), is_complete=False)
        subject = subject if environment is None else environment.subject_with(subject)
        return judge(replace(subject, repositories=(self._repository, built)), self._target)

    def _copied(self, file: str, size: int) -> None:
        raise_if_cancelled(self._options.cancel)
        self._done += size
        self._options.progress(self._done, self._total)

    def _report(self, built: _Built, backups: Sequence[Path | None] = ()) -> ExportReport:
        """Return the first model's report, which contains the reports of the others."""
        own, *others = [
            ExportReport(
                plan,
                self._target.release.image,
                backup=backup,
                on_gpu=build.subject is not None and build.subject.on_gpu,
                preflight=preflight,
                incomplete=build.incomplete,
            )
            for build, plan, preflight, backup in zip(
                self._builds, built.plans, built.preflights, backups or [None] * len(built.plans), strict=True
            )
        ]
        return replace(
            own,
            composing=tuple(others),
            beside=built.beside,
            environment=built.environment,
            version=self._record["version"],
            built_image=self._image,
        )

    @property
    def _place(self) -> Path:
        """The directory of the delivery: deploy files belong to it as the models do."""
        return self._repository.parent if self._options.deploy else self._repository

    def _place_environment(self, subjects: Mapping[Path, Subject | None], beside: Path) -> PlacedEnvironment | None:
        """Put the environment into the new directories of the models, and its lock into `beside`."""
        options = self._options
        if options.env.choice == "none":
            return None
        # an ensemble imports nothing, nor does a model whose code an engine runs
        used = {place: subject for place, subject in subjects.items() if subject is not None and subject.modules}
        found = {place: imported(subject.third_party) for place, subject in used.items()}
        if options.dry_run:
            return planned_environment(found, options.env, options.say)
        lock = beside / lock_of(self._repository, is_whole=bool(options.deploy)).name
        return place_environment(found, options.env, lock=lock, say=options.say, cancel=options.cancel)

    def _note_facts(self, new: Sequence[Path], beside: Path, environment: PlacedEnvironment | None) -> None:
        """Note the facts of the record, once everything is built. `new`: the directories of the models and of the files
        next to them, `beside`: of those next to the repository."""
        files, release = files_of(self._repository, new=new, beside=beside), self._target.release
        self._record = record_facts(
            [*models_in(self._repository), *models_in(new[0])],
            version=version_of(files, release.container.value),
            release=release,
            files=files,
            environment=environment.facts() if environment is not None else None,
        )

    def _write_record(self) -> None:
        """Write the record next to the written files, if this user may write there. Verdicts on them stay in it."""
        history = VerdictHistory(self._place, self._repository, self._record["files"])
        if os.access(history.record.parent, os.W_OK):
            write_record(history.record, history.renewed(self._record))

    def _write_deploy_files(self, beside: Path, operator: OperatorFacts) -> str:
        """Write the deploy files, and return the image of the Dockerfile if that installs a lock. Raises
        ExportOptionError for a model that one of the kinds cannot serve."""
        options, models = self._options, list(self._subjects)
        deployed = deployment_of(
            models,
            options.target,
            cases=[*self._cases, *recorded_cases(models, self._cases, options.last)],
            has_lock=options.env.choice == "requirements",
            backends=sorted(self._backends),
            version=self._record["version"],
            operator=operator,
            has_stub=has_stub(self._record["files"]),
        )
        try:
            write_deploy_files(beside, deployed, options.deploy)
        except ValueError as error:
            raise ExportOptionError(str(error), "leave that kind of deploy files out") from None
        return deployed.image if deployed.has_lock and (beside / "deploy" / "Dockerfile").is_file() else ""

    def _verify(self) -> Verification:
        """Return the verdict of real servers on the written files. Raises Cancelled."""
        options, subjects = self._options, self._subjects
        cases = [*self._cases, *answered_cases(subjects, options.last)]
        tried = self._try_models(subjects, [case for case in cases if not case.unsent])
        reads = set[str]().union(*map(paths_of_the_machine, tried.values()))
        open_findings = {
            model.name: [
                *never_ran(choice_words(subject.config)),
                *_of_needed(model),
                *_open_findings(judge(subject, options.target)),
            ]
            for model, subject in tried.items()
        }
        try:
            return verify(
                self._place,
                triton=options.verify,
                requests=cases,
                reads=[Path(path) for path in sorted(reads)],
                open_findings=open_findings,
                say=options.say,
                cancel=options.cancel,
            )
        except Cancelled:
            text = f"the proof was cancelled; {self._repository} was written before, and stays"
            raise Cancelled(text) from None

    def _try_models(self, subjects: Mapping[Model, Subject], cases: Sequence[Exchange]) -> dict[Model, Subject]:
        """Return the models with what they read once more: models with their own Python code are loaded again, and are
        sent the requests."""
        from .preflight.trial import try_models

        python = [model for model, subject in subjects.items() if subject.sources]
        if python:
            self._options.say("pre-flight: the models are loaded once more, and what their requests read is recorded")
        trials = try_models(python, cases)
        return {
            model: with_trial(subject, trials[model.name]) if model.name in trials else subject
            for model, subject in subjects.items()
        }


def _open_findings(found: Preflight) -> Iterator[str]:
    """Yield the findings about reads of the model on this machine that a deployed server lacks."""
    for finding in found.findings:
        if finding.row in _OF_THIS_MACHINE and finding.outcome is not Prediction.ATTENTION:
            yield finding.sentence


def operator_facts(
    options: ExportOptions,
    models: Mapping[Model, Subject],
    environment: PlacedEnvironment | None,
    preflights: Iterable[Preflight],
) -> OperatorFacts:
    """Return the facts about exported models for their operator."""
    return OperatorFacts(
        options.about,
        variables=variables_of(models.values()),
        environment=str(environment) if environment is not None else "",
        packages=[f"{pin.name}=={pin.version}" for pin in environment.pins] if environment is not None else (),
        load_seconds={model.name: load_bound(model.load_ns / 1e9) for model in models},
        open_points=[
            OpenPoint(found.model, each.sentence, each.remedy) for found in preflights for each in found.findings
        ],
        verified_on=releases(options.verify) if options.verify else (),
    )


def recorded_cases(models: Iterable[Model], golden: Iterable[Exchange], last: int) -> Iterator[Exchange]:
    """Yield the last requests of the models without a golden case, for their clients and tests. Requests of a sequence
    need their order, and are left out."""
    known = {case.model for case in golden}
    cases = last_cases([model for model in models if model.name not in known], min(last, _LAST_IN_TESTS))
    yield from (case for case in cases if not case.request.correlation_id)
