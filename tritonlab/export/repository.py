"""`export` writes a served model as a model directory that a Triton server can load, and says first what that would
change.

A directory that exists is never written into. The new tree is built beside the repository; replacing moves the old
directory away and the new one in, so that at every moment one of the two is there in full.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..core.model_config import parse_pbtxt, print_pbtxt
from .deployable_config import deployable_config
from .machine_bound import left_out, warnings

if TYPE_CHECKING:
    from ..server.api.model import Model

CONFIG_FILE = "config.pbtxt"
_LEFT_BEHIND = ("__pycache__", ".ipynb_checkpoints")


@dataclass(frozen=True)
class ExportPlan:
    """What an export to `path` would do there. Files are relative to `path`, sorted. `warnings`: what the author has to
    see to before the model runs elsewhere."""

    path: Path
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """What is there afterwards."""
        return tuple(sorted((*self.added, *self.changed, *self.unchanged)))

    @property
    def differs(self) -> bool:
        """Whether the export would change anything."""
        return bool(self.added or self.changed or self.removed)

    def __str__(self) -> str:
        kinds = (("add", self.added), ("change", self.changed), ("remove", self.removed))
        lines = [f"  {verb:<7}{file}" for verb, files in kinds for file in files] or ["  change nothing"]
        return "\n".join([*lines, *_warned(self)])


@dataclass(frozen=True)
class ExportReport:
    """What an export did. `path` is the model directory, `backup` where the former one is now. `composing`: of an
    ensemble, what the export of the models that its steps need did."""

    path: Path
    plan: ExportPlan
    backup: Path | None = None
    composing: tuple[ExportReport, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self._own(), *map(str, self.composing)])

    def _own(self) -> str:
        if not self.plan.differs:
            return "\n".join([f"{self.path} was up to date", *_warned(self.plan)])
        lines = [str(self.path), *(f"  {file}" for file in self.plan.files), *_warned(self.plan)]
        return "\n".join([*lines, *([f"The former directory is now {self.backup}"] if self.backup is not None else [])])

    __repr__ = __str__


class ExportConflict(FileExistsError):
    """The directory holds something else. `plan` says what an export with overwrite=True would do."""

    def __init__(self, plan: ExportPlan) -> None:
        super().__init__(
            f"{plan.path} exists; to export there would\n{plan}\n"
            f"Nothing was written. overwrite=True does it and keeps the former directory as a backup."
        )
        self.plan = plan


def export(
    model: Model, directory: str | PathLike[str], *, overwrite: bool | Literal["replace"] = False
) -> ExportReport:
    """Writes `<directory>/<name>/config.pbtxt`, `<version>/model.py` and the model's other files, nothing else.

    The config is complete: what the notebook's server filled in or took from auto_complete_config is written out. A
    directory that is there already and differs raises ExportConflict, unless `overwrite`; then it is moved to
    `<directory>.backup/<name>-<time>` first. One that is equal is left alone. With an ensemble go the models that its
    steps need; if one of the directories is in the way, none is written.
    """
    repository = Path(directory)
    repository.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".tritonlab-export-", dir=repository.parent) as scratch:
        plans = []
        for each in [model, *_composing(model)]:
            new = Path(scratch) / each.name
            plan = _plan(each, new, repository / each.name)
            if plan.differs and plan.path.exists() and not overwrite:
                raise ExportConflict(plan)
            plans.append((new, plan))
        own, *composing = [_place(new, plan) for new, plan in plans]
        return replace(own, composing=tuple(composing))


def _place(new: Path, plan: ExportPlan) -> ExportReport:
    if not plan.path.exists():
        os.replace(new, plan.path)
        return ExportReport(plan.path, plan)
    return ExportReport(plan.path, plan, _swap(new, plan.path) if plan.differs else None)


def _composing(model: Model) -> list[Model]:
    """The models that the steps of an ensemble need, directly or not, each once."""
    found: dict[str, Model] = {}
    waiting = [model]
    while waiting:
        steps = waiting.pop(0).config().get("ensemble_scheduling", {}).get("step", ())
        for name in dict.fromkeys(step["model_name"] for step in steps):
            if name not in found and name != model.name:
                found[name] = model.server.model(name)
                waiting.append(found[name])
    return list(found.values())


def plan_export(model: Model, directory: str | PathLike[str]) -> ExportPlan:
    """What `export` would do in the model's own directory, without doing it."""
    with tempfile.TemporaryDirectory(prefix="tritonlab-export-") as scratch:
        new = Path(scratch) / model.name
        return _plan(model, new, Path(directory) / model.name)


def model_files(path: Path) -> list[str]:
    """The files of a model directory, relative, sorted, without what Python and Jupyter leave behind."""
    found = []
    for folder, folders, names in os.walk(path, followlinks=True):
        folders[:] = sorted(f for f in folders if f not in _LEFT_BEHIND)
        below = Path(folder).relative_to(path)
        found += [(below / name).as_posix() for name in names if not name.endswith((".pyc", ".pyo"))]
    return sorted(found)


def _plan(model: Model, new: Path, target: Path) -> ExportPlan:
    """Writes the model to `new`, which may take the place of `target`."""
    warned = _build(model, new)
    return replace(_compare(new, target), warnings=warned)


def _build(model: Model, new: Path) -> tuple[str, ...]:
    source = Path(model.directory)
    files = model_files(source)
    here_only = left_out(source, files)
    for version in model.metadata()["versions"]:  # an ensemble's are empty, and have to be there
        (new / version).mkdir(parents=True)
    for file in files:
        if file != CONFIG_FILE and file not in here_only:
            (new / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / file, new / file)
    authored = source / CONFIG_FILE
    text = authored.read_text(encoding="utf-8") if authored.is_file() else ""
    config = deployable_config(
        parse_pbtxt(model.config_pbtxt(), "the served config"),
        parse_pbtxt(text, str(authored)),
        files=files,
    )
    new.mkdir(parents=True, exist_ok=True)
    (new / CONFIG_FILE).write_text(print_pbtxt(config), encoding="utf-8")
    return warnings(config, source, files)


def _warned(plan: ExportPlan) -> list[str]:
    return [f"  Attention: {warning}." for warning in plan.warnings]


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
    """Moves `target` to a backup and `new` to its place; puts it back if the second step fails.

    The backup is beside the repository, not in it: a server would take it for a model of the wrong name.
    """
    repository = target.parent.resolve()
    backups = repository.with_name(repository.name + ".backup")
    backups.mkdir(exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    backup = backups / f"{target.name}-{stamp}"
    number = 1
    while backup.exists():
        number += 1
        backup = backups / f"{target.name}-{stamp}-{number}"
    os.replace(target, backup)
    try:
        os.replace(new, target)
    except OSError:
        os.replace(backup, target)
        raise
    return backup
