"""A whole export in one call: models, the environment they run in, deploy files, and the verdict of real servers.

Everything that is written is built in one scratch directory and put in its place at the end, so that a refused
environment, an error or a cancelled export leaves nothing. The verdict comes afterwards, on what was written.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.explained import Explained
from ...core.status import Code
from ...exchanges.exchange import Exchange
from ...exchanges.last_cases import answered_cases
from ...record.recorder import MOST
from ...repository.place import repository_path
from ...server.models.backend_choice import choice_words
from .child_command import Cancelled, Say
from .environment.lock import imported
from .environment.placed import (
    CHOICES,
    LOCK,
    EnvironmentOptions,
    PlacedEnvironment,
    place_environment,
    planned_environment,
)
from .left_out import never_ran
from .manifests.facts import Deployment, deployment_of
from .manifests.files import KINDS, write_deploy_files
from .model_build import ModelBuild
from .preflight.finding import Prediction, Preflight
from .preflight.judge import judge, with_trial
from .preflight.reads import paths_of_the_machine
from .preflight.subject import Subject
from .report import ExportReport
from .repository import Progress, export, of_needed
from .verify.verification import releases, verify

if TYPE_CHECKING:
    from ...server.api.model import Model

#: The rows of pre-flight about what a model reads of the author's machine.
_OF_THIS_MACHINE = ("P3", "P4")
#: The name of a repository that has deploy files beside it.
MODELS = "models"


class ExportOptionError(Explained, ValueError):
    """An option of an export that cannot be, with what to write instead. `is_place`: that is another directory."""

    code = Code.INVALID_ARG

    def __init__(self, text: str, fix: str, is_place: bool = False) -> None:
        super().__init__(text)
        self._fix = fix
        self.is_place = is_place

    def remedy(self) -> str:
        return self._fix


@dataclass(frozen=True)
class WholeExport:
    """What is exported with the models. `env`: an environment, by one of its CHOICES, the path of a prefix, or its
    options; `deploy`: kinds of deploy files; `verify`: releases of Triton that have to prove it, with the `last`
    requests of each model; `cases`: golden requests for that and for the clients; `hide`: directories that the servers
    must not see."""

    target: str
    env: str | EnvironmentOptions = "none"
    deploy: Sequence[str] = ()
    verify: Sequence[str] = ()
    cases: Sequence[Exchange] = ()
    hide: Sequence[Path] = ()
    last: int = MOST

    @property
    def environment(self) -> EnvironmentOptions:
        env = self.env
        return replace(env, target=self.target) if isinstance(env, EnvironmentOptions) else _options(env, self.target)

    def check(self, directory: str | PathLike[str]) -> None:
        """Raise ExportOptionError for kinds of deploy files that are not known, or that would lie among the models, or
        a number of requests that is negative, and UnknownTarget for releases that are not known."""
        if self.last < 0:
            raise ExportOptionError(f"last={self.last}: it is a number of requests", f"write 0 to {MOST}")
        if self.verify:
            releases(self.verify)
        if wrong := [kind for kind in self.deploy if kind not in KINDS]:
            raise ExportOptionError(f"deploy={wrong[0]!r}: there are {', '.join(KINDS)}", f"name some of {[*KINDS]}")
        if self.deploy and repository_path(directory).name != MODELS:
            fix = f"{str(directory).rstrip('/')}/{MODELS}"
            text = f"deploy files are written beside a repository called {MODELS}/: export to {fix}"
            raise ExportOptionError(text, fix, is_place=True)

    def write(
        self,
        models: Sequence[Model],
        directory: str | PathLike[str],
        *,
        dry_run: bool = False,
        progress: Progress = lambda done, total: None,
        say: Say = lambda text: None,
        cancel: threading.Event | None = None,
        **options: Any,
    ) -> ExportReport:
        """Export the models with everything, `options` as for `export`, and return the report. `say` is called with one
        line about each step.

        Raises what `export` does, ExportOptionError, EnvironmentRefused, CommandFailed, Cancelled.
        """
        self.check(directory)
        cancel = cancel or threading.Event()
        repository = repository_path(directory)
        lock = LOCK if self.deploy else f"{repository.name}.{LOCK}"
        builds: list[ModelBuild] = []

        def furnish(places: Mapping[Path, ModelBuild], beside: Path) -> PlacedEnvironment | None:
            placed = None
            builds.extend(places.values())
            if self.environment.choice != "none":
                subjects = {place: build.subject for place, build in places.items()}
                # nothing is imported by an ensemble, nor by code of the model's own where an engine runs it
                found = {place: imported(each.third_party) for place, each in subjects.items() if each.modules}
                if dry_run:
                    placed = planned_environment(found, self.environment, say)
                else:
                    placed = place_environment(found, self.environment, lock=beside / lock, say=say, cancel=cancel)
            if self.deploy:
                needs_lock = self.environment.choice == "requirements"
                exported = [build.model for build in places.values()]
                backends = sorted({build.backend.name for build in places.values() if build.backend is not None})
                deployed = deployment_of(
                    exported, self.target, cases=self.cases, has_lock=needs_lock, backends=backends
                )
                _deploy(beside, deployed, self.deploy)
            return placed

        report = export(
            models,
            repository,
            target=self.target,
            dry_run=dry_run,
            furnish=furnish,
            progress=progress,
            cancel=cancel,
            **options,
        )
        if dry_run or not self.verify:
            return report
        return self._prove(report, builds, say=say, cancel=cancel)

    def _prove(
        self,
        report: ExportReport,
        builds: Sequence[ModelBuild],
        *,
        say: Say,
        cancel: threading.Event,
    ) -> ExportReport:
        """Return the report with the verdict of real servers. Raises Cancelled."""
        cases = [*self.cases, *answered_cases([build.model for build in builds], self.last)]
        tried = self._tried(builds, cases, say)
        reads = set[str]().union(*(paths_of_the_machine(subject) for subject, _ in tried.values()))
        found = {
            build.model.name: [
                *never_ran(choice_words(build.subject.config)),
                *of_needed(build.model),
                *_open_findings(tried[build.model.name][1]),
            ]
            for build in builds
        }
        # the page and the record lie with what is handed over
        place = report.repository.parent if self.deploy else report.repository
        try:
            verification = verify(
                place,
                triton=self.verify,
                requests=cases,
                hide=self.hide,
                reads=[Path(path) for path in sorted(reads)],
                open_findings=found,
                say=say,
                cancel=cancel,
            )
        except Cancelled:
            raise Cancelled(f"the proof was cancelled; {report.repository} was written before, and stays") from None
        return replace(report, verification=verification)

    def _tried(
        self, builds: Sequence[ModelBuild], cases: Sequence[Exchange], say: Say
    ) -> dict[str, tuple[Subject, Preflight]]:
        """Return what pre-flight looks at and finds of each model, after the models that have Python of their own were
        loaded once more and sent the requests."""
        from .preflight.trial import try_models

        python = [build.model for build in builds if build.subject.sources]
        if python:
            say("pre-flight: the models are loaded once more, and what their requests read is recorded")
        trials = try_models(python, cases)
        found = {}
        for build in builds:
            trial = trials.get(build.model.name)
            subject = with_trial(build.subject, trial) if trial is not None else build.subject
            found[build.model.name] = subject, judge(subject, self.target)
        return found


def _open_findings(found: Preflight) -> Iterator[str]:
    """Yield what the model reads of this machine, and a deployed server does not have."""
    for finding in found.findings:
        if finding.row in _OF_THIS_MACHINE and finding.outcome is not Prediction.ATTENTION:
            yield finding.sentence


def _options(choice: str, target: str) -> EnvironmentOptions:
    known = choice if choice in CHOICES else str(Path(choice).expanduser())
    return EnvironmentOptions(known, target)


def _deploy(directory: Path, deployed: Deployment, kinds: Sequence[str]) -> None:
    """Write the deploy files. Raises ExportOptionError for a model that one of the kinds cannot serve."""
    try:
        write_deploy_files(directory, deployed, kinds)
    except ValueError as error:
        raise ExportOptionError(str(error), "leave that kind of deploy files out") from None
