"""`export` writes a served model as a model directory that a Triton server can load; `plan_export` says first what that
would change.

A directory that exists is never written into. The new tree is built beside the repository, and replacing moves the old
directory away and the new one in, so that at every moment one of the two is there in full.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..core.config.completed_text import CompletedText, completed_text
from ..core.config.model_config import parse_pbtxt
from ..core.explained import Explained
from ..core.os_limits import explained
from ..core.unknown_option import explains_unknown
from .deployable_config import deployable_config
from .machine_bound import left_out, warnings
from .needed_models import NeededModels, needed_models
from .report import ExportConflict, ExportPlan, ExportReport
from .repository_place import SCRATCH, NoRepository, make_repository, repository_path, scratch_place

if TYPE_CHECKING:
    from ..server.api.model import Model

CONFIG_FILE = "config.pbtxt"
#: The file in a directory that would be empty: git keeps none, and Triton loads no model without a version.
_KEEPS = ".gitkeep"
_LEFT_BEHIND = ("__pycache__", ".ipynb_checkpoints")


@explains_unknown
def export(
    model: Model,
    directory: str | PathLike[str],
    *,
    overwrite: bool | Literal["replace"] = False,
    alone: bool = False,
) -> ExportReport:
    """Write `<directory>/<name>/config.pbtxt`, `<version>/model.py` and the model's other files, nothing else, and
    reports what it did.

    The config is complete: what the notebook's server filled in or took from auto_complete_config is added to the
    author's text, which is kept with its comments. If it cannot be added there, the config is written again, and the
    report says so. A directory that is there already and differs raises ExportConflict, unless `overwrite` is set; then
    it is moved to `<directory>.backup/<name>-<time>` first. A directory that is equal is left alone.

    The models that this one needs are written with it: for an ensemble the models of its steps, for others those that
    its BLS calls name; `alone` leaves them out. If one of the directories is in the way, none is written. The report
    warns of models that are needed and are not there. Raises NoRepository where no repository can be.
    """
    was_there = os.path.exists(repository_path(directory))
    repository = make_repository(directory)
    try:
        return _export(model, repository, overwrite=bool(overwrite), alone=alone)
    except OSError as error:
        if not was_there:
            with contextlib.suppress(OSError):  # of other writers
                repository.rmdir()
        if isinstance(error, Explained) or (limit := explained(error)) is None:
            raise
        raise NoRepository(repository, f"'{model.name}' was not exported to {repository}: {limit}") from error


def _export(model: Model, repository: Path, *, overwrite: bool, alone: bool) -> ExportReport:
    needed = needed_models(model)
    with _scratch_directory(scratch_place(repository)) as scratch:
        plans = []
        for each in [model] if alone else [model, *needed.loaded]:
            new = Path(scratch) / each.name
            plan = _plan(each, new, repository / each.name)
            if plan.differs and plan.path.exists() and not overwrite:
                raise ExportConflict(plan)
            plan = replace(plan, warnings=(*plan.warnings, *_absent(each, needed, alone)))
            plans.append((new, plan, _on_gpu(each)))
        own, *composing = [_place(*each) for each in plans]
        return replace(own, composing=tuple(composing))


@contextlib.contextmanager
def _scratch_directory(parent: Path) -> Iterator[str]:
    scratch = tempfile.TemporaryDirectory(prefix=SCRATCH, dir=parent, ignore_cleanup_errors=True)
    with scratch:
        try:
            yield scratch.name
        except OSError:
            _remove_frugally(scratch.name)
            raise


def _remove_frugally(path: str) -> None:
    """Remove a tree as far as possible with one open file, where `shutil.rmtree` needs two and there may be no more."""
    for directory, directories, files in os.walk(path, topdown=False):
        for name in (*files, *directories):
            whole = os.path.join(directory, name)
            with contextlib.suppress(OSError):
                (os.rmdir if name in directories and not os.path.islink(whole) else os.unlink)(whole)


def _place(new: Path, plan: ExportPlan, on_gpu: bool) -> ExportReport:
    if not plan.path.exists():
        os.replace(new, plan.path)
        return ExportReport(plan.path, plan, on_gpu=on_gpu)
    return ExportReport(plan.path, plan, _swap(new, plan.path) if plan.differs else None, on_gpu=on_gpu)


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


def plan_export(model: Model, directory: str | PathLike[str]) -> ExportPlan:
    """Return what `export` would do in the model's own directory, without doing it. Raises NoRepository."""
    with tempfile.TemporaryDirectory(prefix="tritonlab-export-") as scratch:
        new = Path(scratch) / model.name
        return _plan(model, new, repository_path(directory) / model.name)


def model_files(path: Path) -> list[str]:
    """Return the files of a model directory, relative and sorted, without what Python and Jupyter leave behind."""
    found = []
    for folder, folders, names in os.walk(path, followlinks=True):
        folders[:] = sorted(f for f in folders if f not in _LEFT_BEHIND)
        below = Path(folder).relative_to(path)
        found += [(below / name).as_posix() for name in names if not name.endswith((".pyc", ".pyo"))]
    return sorted(found)


def _plan(model: Model, new: Path, target: Path) -> ExportPlan:
    """Write the model to `new`, which may take the place of `target`, and return the plan for that."""
    warned = _build(model, new)
    return replace(_compare(new, target), warnings=warned)


def _build(model: Model, new: Path) -> tuple[str, ...]:
    source = Path(model.directory)
    files = model_files(source)
    here_only = left_out(source, files)
    for file in files:
        if file != CONFIG_FILE and file not in here_only:
            (new / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / file, new / file)
    for version in model.metadata()["versions"]:
        if not (new / version).is_dir():  # an ensemble's is empty, and has to be there
            (new / version).mkdir(parents=True)
            (new / version / _KEEPS).touch()
    authored = source / CONFIG_FILE
    text = authored.read_bytes().decode("utf-8") if authored.is_file() else ""
    config = deployable_config(
        parse_pbtxt(model.config_pbtxt(), "the served config"),
        parse_pbtxt(text, str(authored)),
        files=files,
    )
    completed = completed_text(text, config)
    new.mkdir(parents=True, exist_ok=True)
    (new / CONFIG_FILE).write_bytes(completed.text.encode("utf-8"))
    return (*warnings(config, source, files), *_rewritten(text, completed))


def _rewritten(text: str, completed: CompletedText) -> Iterator[str]:
    """Yield a warning if the author's text was not kept."""
    if text.strip() and completed.printed_for:
        fields = " and ".join(completed.printed_for)
        lost = " without its comments" if "#" in text else ""
        yield f"its {CONFIG_FILE} was rewritten{lost}: {fields} had to be completed in place"


def _compare(new: Path, target: Path) -> ExportPlan:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FileExistsError(f"{target} exists and is not a directory; nothing was written")
    ours = set(model_files(new))
    # everything that is there would go, so everything is named, also what an export would not write
    theirs = {p.relative_to(target).as_posix() for p in target.rglob("*") if not p.is_dir() or p.is_symlink()}
    both = ours & theirs
    same = {file for file in both if filecmp.cmp(new / file, target / file, shallow=False)}
    return ExportPlan(
        target,
        added=tuple(sorted(ours - theirs)),
        changed=tuple(sorted(both - same)),
        removed=tuple(sorted(theirs - ours)),
        unchanged=tuple(sorted(same)),
    )


def _swap(new: Path, target: Path) -> Path:
    """Move `target` to a backup and `new` to its place; puts it back if the second step fails.

    The backup is beside the repository, not in it: a server would take it for a model of the wrong name. On another
    file system it is a copy. Raises NoRepository where it cannot be made, and nothing is replaced.
    """
    repository = target.parent.resolve()
    backups = repository.with_name(repository.name + ".backup")
    try:
        backups.mkdir(exist_ok=True)
    except OSError as error:
        text = f"{target} was not replaced, because its backup {backups} cannot be made: {error.strerror}"
        raise NoRepository(target, text) from error
    stamp = time.strftime("%Y%m%d-%H%M%S")
    backup = backups / f"{target.name}-{stamp}"
    number = 1
    while backup.exists():
        number += 1
        backup = backups / f"{target.name}-{stamp}-{number}"
    aside = backup
    try:
        os.replace(target, aside)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copytree(target, backup, symlinks=True)
        aside = new.with_name(f"{new.name}.former")  # goes with the directory that it was built in
        os.replace(target, aside)
    try:
        os.replace(new, target)
    except OSError:
        os.replace(aside, target)
        raise
    return backup
