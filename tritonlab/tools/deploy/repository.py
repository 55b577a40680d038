"""The export of served models as model directories that a Triton server can load.

A directory that exists is never written into. The new tree is built beside the repository, and replacing moves the old
directory away and the new one in, so that at every moment one of the two is there in full.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ...core.status import InvalidArgumentError
from ...core.unknown_option import explains_unknown
from ...repository.place import make_repository, removed_at_error, repository_path, scratch_place
from ...server.api.needed_models import needed_models, stood_in
from .child_command import raise_if_cancelled
from .model_build import ModelBuild, stops
from .own_backends import backends_of
from .placement import BESIDE, MODELS, compare_files, compare_trees, put_in_place, scratch_directory
from .preflight.finding import Preflight, say_once
from .releases import DEFAULT_TARGET, find_target
from .report import ExportConflict, ExportPlan, ExportReport

if TYPE_CHECKING:
    from ...server.api.model import Model
    from .environment.placed import PlacedEnvironment

#: Called with the bytes written so far and those of all models; what it raises cancels the export.
Progress = Callable[[int, int], object]
#: Puts an environment into the new directories of the models, and files that go beside the repository into a directory.
Furnish = Callable[[Mapping[Path, ModelBuild], Path], "PlacedEnvironment | None"]


@explains_unknown
def export(
    models: Model | Sequence[Model],
    directory: str | PathLike[str],
    *,
    overwrite: bool | Literal["replace"] = False,
    alone: bool = False,
    include: str | Sequence[str] = (),
    target: str = DEFAULT_TARGET,
    dry_run: bool = False,
    furnish: Furnish = lambda models, beside: None,
    progress: Progress = lambda done, total: None,
    cancel: threading.Event | None = None,
) -> ExportReport:
    """Write `<directory>/<name>/config.pbtxt`, `<version>/model.py` and the model's other files, nothing else, and
    report what it did. Files keep their modes, and links that lead within the model directory stay links.

    The config is complete: what the notebook's server filled in or took from auto_complete_config is added to the
    author's text, which is kept with its comments. If it cannot be added there, the config is written again, and the
    report says so. The config of a repository's model (`tritonlab.open`) stays as it is, but for what a cell edits. A
    directory that is there already and differs raises ExportConflict, unless `overwrite` is set; then it is moved to
    `<directory>.backup/<name>-<time>` first. A directory that is equal is left alone.

    The models that this one needs are written with it: for an ensemble the models of its steps, for others those that
    its BLS calls name; `alone` leaves them out. Python-based backends that run them go to `backends_of(directory)`. All
    is written together: if one of the directories is in the way, or an error or an interrupt comes, nothing is. The
    report warns of models that are needed and are not there, and of files that are left out because they are hidden,
    have more than 100 MB or lie outside of the repository; `include` names or patterns of such files brings them. It
    also warns of what will not work at `target`, a release as 2.49, its container as 24.08, kserve, dynamo or ray.

    `dry_run` writes nothing; the report says what would be written. `furnish` is called where the models are built,
    with their new directories, and a directory whose files are then put beside the repository. `progress` is called
    with the bytes copied so far and those to be copied of all models; setting `cancel` ends the export, and Cancelled
    is raised.

    Raises NoRepository where no repository can be, UnknownTarget.
    """
    place = find_target(target)
    chosen = list(models) if isinstance(models, Sequence) and not isinstance(models, str) else [models]
    for each in chosen:
        _check_model(each)
    if not chosen:
        raise InvalidArgumentError("there is no model to export: name one at least")
    path = repository_path(directory)
    wanted = [include] if isinstance(include, str) else list(include)
    with removed_at_error(path, f"'{chosen[0].name}' was not exported to {path}"):
        group = _Group.of(chosen, alone)
        builds = [ModelBuild.of(each, wanted, place) for each in group.exported]
        work = _Work(group, builds, furnish, progress=progress, cancel=cancel or threading.Event())
        if dry_run:
            with tempfile.TemporaryDirectory(prefix="tritonlab-export-") as scratch:
                return replace(work.report(work.build(Path(scratch), path)), dry_run=True)
        return work.export(make_repository(directory), overwrite=bool(overwrite))


def _check_model(model: object) -> None:
    """Raise InvalidArgumentError for what is not a model, such as the name of one, before anything is made."""
    if not hasattr(model, "config_pbtxt"):
        name = repr(model) if isinstance(model, str) else "NAME"
        raise InvalidArgumentError(
            f"{model!r} is not a model: export() takes the model itself, as load() and server.model({name}) return it"
        )


@dataclass(frozen=True)
class _Group:
    """The models that are exported together. `absent`: by name, what each needs and the export does not have."""

    exported: tuple[Model, ...]
    absent: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, chosen: Sequence[Model], alone: bool) -> _Group:
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
        return cls(tuple(exported.values()), absent)


def of_needed(model: Model) -> Iterator[str]:
    """Yield a warning for each model that this one needs and that something else answers for here."""
    for name, words in stood_in(model).items():
        if name != model.name:
            yield f"it needs '{name}', which did not answer itself here ({words}): its answers are not the real ones"


class _Built(NamedTuple):
    """What was built in scratch directories: `plans` and `preflights` of the models, and the plan of the files that go
    beside the repository."""

    plans: list[ExportPlan]
    preflights: list[Preflight]
    beside: ExportPlan
    environment: PlacedEnvironment | None


class _Work:
    """One export: its models are built, furnished, compared with what is there, and put in its place."""

    def __init__(
        self,
        group: _Group,
        builds: Sequence[ModelBuild],
        furnish: Furnish,
        *,
        progress: Progress,
        cancel: threading.Event,
    ) -> None:
        self._absent, self._builds, self._furnish = group.absent, builds, furnish
        self._progress, self._cancel = progress, cancel
        #: by the names of their directories
        self._backends = {build.backend.name: build.backend for build in builds if build.backend is not None}
        sizes = [*(build.copied_size() for build in builds), *(each.size() for each in self._backends.values())]
        self._done, self._total = 0, sum(sizes)

    def export(self, repository: Path, *, overwrite: bool) -> ExportReport:
        """Write everything, or nothing. Raises ExportConflict, unless `overwrite` is set."""
        with scratch_directory(scratch_place(repository)) as made:
            scratch = Path(made)
            built = self.build(scratch, repository)
            in_the_way = [plan for plan in built.plans if plan.differs and plan.path.exists()]
            in_the_way += [built.beside] if built.beside.changed else []
            if in_the_way and not overwrite:
                raise ExportConflict(in_the_way[0])
            raise_if_cancelled(self._cancel)
            backups = put_in_place(repository, scratch, built.plans, {scratch / BESIDE: built.beside})
            return self.report(built, backups)

    def build(self, scratch: Path, repository: Path) -> _Built:
        """Build the models, with all that comes with them, in `scratch`, and compare them with what is there."""
        files = scratch / BESIDE
        files.mkdir()
        places = {scratch / MODELS / build.model.name: build for build in self._builds}
        found = [build.write(place, self._copied) for place, build in places.items()]
        for name, backend in self._backends.items():
            backend.write(files / backends_of(repository).name / name, self._copied)
        environment = self._furnish(places, files)
        places_there = (repository, scratch / MODELS)
        preflights = say_once(build.judged(environment, places_there) for build in self._builds)
        plans = []
        for (place, build), warnings, preflight in zip(places.items(), found, preflights, strict=True):
            plan = compare_trees(place, repository / place.name)
            brought = build.backend.warnings(repository) if build.backend is not None else ()
            about = (*warnings, *of_needed(build.model), *brought, *stops(preflight))
            plans.append(replace(plan, warnings=(*dict.fromkeys(about), *self._absent.get(place.name, ()))))
        return _Built(plans, preflights, compare_files(files, repository.parent), environment)

    def _copied(self, file: str, size: int) -> None:
        raise_if_cancelled(self._cancel)
        self._done += size
        self._progress(self._done, self._total)

    def report(self, built: _Built, backups: Sequence[Path | None] = ()) -> ExportReport:
        """Return what was done, the first model's report with those of the others in it."""
        own, *others = [
            ExportReport(
                plan.path,
                plan,
                build.target.release.image,
                backup=backup,
                on_gpu=build.on_gpu,
                preflight=preflight,
                incomplete=build.incomplete,
            )
            for build, plan, preflight, backup in zip(
                self._builds, built.plans, built.preflights, backups or [None] * len(built.plans), strict=True
            )
        ]
        return replace(own, composing=tuple(others), beside=built.beside, environment=built.environment)
