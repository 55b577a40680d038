"""`export` writes a served model as a model directory that a Triton server can load; `plan_export` says first what that
would change.

A directory that exists is never written into. The new tree is built beside the repository, and replacing moves the old
directory away and the new one in, so that at every moment one of the two is there in full.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..core.config.completed_text import CompletedText, completed_text
from ..core.config.model_config import parse_pbtxt
from ..core.explained import Explained
from ..core.os_limits import explained
from ..core.status import InvalidArgumentError
from ..core.unknown_option import explains_unknown
from ..repository.layout import CONFIG_FILE
from ..repository.model_tree import KEEPS, ModelTree
from ..repository.place import NoRepository, make_repository, repository_path, scratch_name, scratch_place
from ..server.models.backend_choice import choice_words
from . import left_out
from .deployable_config import deployable_config
from .machine_bound import check_deployable, never_ran, starts_our_stub, warnings
from .needed_models import NeededModels, needed_models
from .placement import Placement
from .preflight.finding import Prediction, Preflight
from .preflight.judge import DEFAULT_TARGET, judge
from .preflight.of_model import subject_of
from .preflight.relocatable import is_machine_path
from .releases import Target, find_target
from .report import ExportConflict, ExportPlan, ExportReport

if TYPE_CHECKING:
    from ..server.api.model import Model

#: Called with the bytes written so far and those of all models; what it raises cancels the export.
Progress = Callable[[int, int], object]


@explains_unknown
def export(
    model: Model,
    directory: str | PathLike[str],
    *,
    overwrite: bool | Literal["replace"] = False,
    alone: bool = False,
    include: str | Sequence[str] = (),
    target: str = DEFAULT_TARGET,
    progress: Progress = lambda done, total: None,
) -> ExportReport:
    """Write `<directory>/<name>/config.pbtxt`, `<version>/model.py` and the model's other files, nothing else, and
    report what it did. Files keep their modes, and links that lead within the model directory stay links.

    The config is complete: what the notebook's server filled in or took from auto_complete_config is added to the
    author's text, which is kept with its comments. If it cannot be added there, the config is written again, and the
    report says so. The config of a repository's model (`tritonlab.open`) stays as it is, but for what a cell edits. A
    directory that is there already and differs raises ExportConflict, unless `overwrite` is set; then it is moved to
    `<directory>.backup/<name>-<time>` first. A directory that is equal is left alone.

    The models that this one needs are written with it: for an ensemble the models of its steps, for others those that
    its BLS calls name; `alone` leaves them out. They are written together: if one of the directories is in the way, or
    an error or an interrupt comes at any step, none is. The report warns of models that are needed and are not there,
    and of files that are left out because they are hidden or have more than 100 MB; `include` names or patterns of such
    files brings them. It also warns of what will not work at `target`, a release of Triton as 2.49, its container as
    24.08, or kserve. `progress` is called with the bytes written so far and those of all models.

    Raises NoRepository where no repository can be, UnknownTarget.
    """
    place = find_target(target)
    _check_model(model)
    path = repository_path(directory)
    made = [each for each in (path, *path.parents) if not os.path.lexists(each)]
    wanted = [include] if isinstance(include, str) else list(include)
    try:
        repository = make_repository(directory)
        needed = needed_models(model)
        builds = [_Build.of(each, wanted, place) for each in ([model] if alone else [model, *needed.loaded])]
        return _export(builds, repository, needed, overwrite=bool(overwrite), alone=alone, progress=progress)
    except BaseException as error:
        for each in made:
            with contextlib.suppress(OSError):  # others have written there, or it was not made yet
                each.rmdir()
        if not isinstance(error, OSError) or isinstance(error, Explained) or (limit := explained(error)) is None:
            raise
        raise NoRepository(path, f"'{model.name}' was not exported to {path}: {limit}") from error


def _check_model(model: object) -> None:
    """Raise InvalidArgumentError for what is not a model, such as the name of one, before anything is made."""
    if not hasattr(model, "config_pbtxt"):
        name = repr(model) if isinstance(model, str) else "NAME"
        raise InvalidArgumentError(
            f"{model!r} is not a model: export() takes the model itself, as load() and server.model({name}) return it"
        )


def _export(
    builds: Sequence[_Build],
    repository: Path,
    needed: NeededModels,
    *,
    overwrite: bool,
    alone: bool,
    progress: Progress,
) -> ExportReport:
    done, total = 0, sum(build.tree.size() for build in builds)

    def copied(file: str, size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    with scratch_directory(scratch_place(repository)) as scratch:
        plans = []
        for build in builds:
            new = Path(scratch) / build.model.name
            plan = build.plan(new, repository / build.model.name, copied)
            if plan.differs and plan.path.exists() and not overwrite:
                raise ExportConflict(plan)
            plans.append(replace(plan, warnings=(*plan.warnings, *_absent(build.model, needed, alone))))
        with Placement(repository) as placement:
            backups = [
                placement.place(Path(scratch) / plan.path.name, plan.path) if _is_to_place(plan) else None
                for plan in plans
            ]
        own, *composing = [
            ExportReport(plan.path, plan, backup, on_gpu=_on_gpu(build.model), preflight=build.preflight)
            for build, plan, backup in zip(builds, plans, backups, strict=True)
        ]
        return replace(own, composing=tuple(composing))


def _is_to_place(plan: ExportPlan) -> bool:
    return plan.differs or not plan.path.exists()


@contextlib.contextmanager
def scratch_directory(parent: Path) -> Iterator[str]:
    """Make a directory for as long as the context lasts. Its name is known before it is made, so that an interrupt at
    any moment leaves nothing."""
    path = str(parent / scratch_name())
    try:
        os.mkdir(path, 0o700)
        yield path
    finally:
        try:
            with contextlib.suppress(OSError):
                shutil.rmtree(path)
        finally:  # also what an interrupt has left
            _remove_frugally(path)


def _remove_frugally(path: str) -> None:
    """Remove a tree as far as possible with one open file, where `shutil.rmtree` needs two and there may be no more."""
    for directory, directories, files in os.walk(path, topdown=False):
        for name in (*files, *directories):
            whole = os.path.join(directory, name)
            with contextlib.suppress(OSError):
                (os.rmdir if name in directories and not os.path.islink(whole) else os.unlink)(whole)
    with contextlib.suppress(OSError):
        os.rmdir(path)


def _on_gpu(model: Model) -> bool:
    return any(group.get("kind") == "KIND_GPU" for group in model.config().get("instance_group", ()))


def _absent(model: Model, needed: NeededModels, alone: bool) -> Iterator[str]:
    """Return warnings for the models that `model` needs and the export leaves out."""
    if alone:
        here = [other.name for other in needed.loaded]
        yield from (f"it needs the model '{name}', which was not exported with it" for name in here)
    for user, name in needed.missing:
        if user == model.name:
            yield f"it calls the model '{name}', which is not loaded here and so was not exported"


def plan_export(
    model: Model, directory: str | PathLike[str], *, include: Sequence[str] = (), target: str = DEFAULT_TARGET
) -> ExportPlan:
    """Return what `export` would do in the model's own directory, without doing it.

    Raises NoRepository, UnknownTarget.
    """
    with tempfile.TemporaryDirectory(prefix="tritonlab-export-") as scratch:
        build = _Build.of(model, include, find_target(target))
        return build.plan(Path(scratch) / model.name, repository_path(directory) / model.name)


@dataclass(frozen=True)
class _Build:
    """One model's new directory: what it is made of."""

    model: Model
    source: Path
    tree: ModelTree
    preflight: Preflight

    @classmethod
    def of(cls, model: Model, include: Sequence[str], target: Target) -> _Build:
        subject = subject_of(model, include)
        if answers := choice_words(subject.config):
            check_deployable(model.name, answers, subject.tree.files)
        return cls(model, subject.directory, subject.tree, judge(subject, target))

    def plan(self, new: Path, target: Path, copied: Callable[[str, int], object] = lambda file, size: 0) -> ExportPlan:
        """Write the model to `new`, which may take the place of `target`, and return the plan for that."""
        if self.model.server.core.repository.is_kept(self.model.name):
            served = parse_pbtxt(self.model.config_pbtxt(), "the served config")
            found = (*warnings(served, self.source, ()), *never_ran(choice_words(served)), *self._stops())
            return plan_as_it_is(self.tree, new, target, found, copied)
        files, authored = self.tree.files, self.source / CONFIG_FILE
        new.mkdir(parents=True)
        self.tree.copy(new, besides={CONFIG_FILE, *starts_our_stub(self.source, files)}, copied=copied)
        for version in self.model.metadata()["versions"]:
            (new / version).mkdir(exist_ok=True)
            if not any((new / version).iterdir()):  # an ensemble's is empty, and has to be there
                (new / version / KEEPS).touch()
        text = authored.read_bytes().decode("utf-8") if authored.is_file() else ""
        served, written = parse_pbtxt(self.model.config_pbtxt(), "the served config"), parse_pbtxt(text, str(authored))
        answers = choice_words(served)
        config = deployable_config(written if answers else served, written, files=files)
        completed = completed_text(text, config)
        (new / CONFIG_FILE).write_bytes(completed.text.encode("utf-8"))
        if authored.is_file():
            shutil.copymode(authored, new / CONFIG_FILE)
        found = (*warnings(config, self.source, files), *_rewritten(text, completed))
        found = (*found, *never_ran(answers), *left_out.sentences(self.tree.left_out), *self._stops())
        return replace(compare(new, target), warnings=tuple(dict.fromkeys(found)))

    def _stops(self) -> Iterator[str]:
        """Yield what pre-flight found that makes the model fail or answer otherwise at the target."""
        for finding in self.preflight.findings:
            if finding.outcome is not Prediction.ATTENTION and not is_machine_path(
                finding
            ):  # which is warned of already
                yield str(finding)


def plan_as_it_is(
    tree: ModelTree, new: Path, target: Path, found: Sequence[str], copied: Callable[[str, int], object]
) -> ExportPlan:
    """Write a tree to `new` without changing anything in it, and return the plan for `target`; `found` are warnings."""
    new.mkdir(parents=True)
    tree.copy(new, copied=copied)
    return replace(compare(new, target), warnings=tuple(dict.fromkeys((*found, *left_out.sentences(tree.left_out)))))


def _rewritten(text: str, completed: CompletedText) -> Iterator[str]:
    """Yield a warning if the author's text was not kept."""
    if text.strip() and completed.printed_for:
        fields = " and ".join(completed.printed_for)
        lost = " without its comments" if "#" in text else ""
        yield f"its {CONFIG_FILE} was rewritten{lost}: {fields} had to be completed in place"


def compare(new: Path, target: Path) -> ExportPlan:
    """Return the plan for the directory `target` to become as `new` is. Raises FileExistsError if it is none."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FileExistsError(f"{target} exists and is not a directory; nothing was written")
    ours, theirs = _entries(new), _entries(target)
    both = {path for path in ours & theirs if not path.endswith("/")}
    same = {path for path in both if _is_equal(new / path, target / path)}
    # everything that is there would go, so everything is named, also what an export would not write; an empty
    # directory is no loss
    return ExportPlan(
        target,
        added=tuple(sorted(ours - theirs)),
        changed=tuple(sorted(both - same)),
        removed=tuple(sorted(path for path in theirs - ours if not path.endswith("/"))),
        unchanged=tuple(sorted(same | {path for path in ours & theirs if path.endswith("/")})),
    )


def _entries(directory: Path) -> set[str]:
    """Return the files, links and empty directories, these with a slash at their end, relative."""
    found: set[str] = set()
    for folder, folders, names in os.walk(directory):
        below = Path(folder).relative_to(directory)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        found.update((below / name).as_posix() for name in (*names, *links))
        if not names and not folders and folder != str(directory):
            found.add(f"{below.as_posix()}/")
    return found


def _is_equal(one: Path, other: Path) -> bool:
    """Return whether both are links to the same, or files of the same content that both may be executed or not."""
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and os.readlink(one) == os.readlink(other)
    if not other.is_file() or _is_executable(one) != _is_executable(other):
        return False
    return filecmp.cmp(one, other, shallow=False)


def _is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IXUSR)
