"""Reports of the planned and the actual effects of an export: as objects, as text, as HTML, and as a zip file."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ...core.explained import Explained
from ...core.plain_facts import MOST_LINES, few_lines
from ...core.status import Code, InvalidArgumentError
from ...core.whole_file import whole_file
from ...figures.tables import prose
from ...repository.model_tree import shortened
from ...server.models.backends import DEFAULT_DIRECTORY
from .exported_files import LOCK
from .own_backends import backends_of
from .preflight.finding import Preflight

if TYPE_CHECKING:
    from .environment.placed import PlacedEnvironment
    from .image_build import ImageReport
    from .verify.verdict import Verification

#: The earliest time of zip files. With one time for all, equal models make equal files.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
#: Characters in names that are not UTF-8, as Python represents them.
_NOT_UTF_8 = re.compile("[\udc80-\udcff]")
#: The first lines of a tree, which are always shown.
_LEAST_OF_TREE = 8


@dataclass(frozen=True)
class ExportPlan:
    """The effect of an export to `path`. Files are relative to `path`, and sorted. `warnings` names what the author
    must fix before the model runs elsewhere; `bytes`: of all files there after the export.
    """

    path: Path
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    bytes: int = 0

    @property
    def files(self) -> tuple[str, ...]:
        """The files there after the export."""
        return tuple(sorted((*self.added, *self.changed, *self.unchanged)))

    @property
    def differs(self) -> bool:
        """Return whether the export would change anything."""
        return bool(self.added or self.changed or self.removed)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        kinds = ("added", "changed", "removed", "unchanged", "warnings")
        found = {kind: list(getattr(self, kind)) for kind in kinds}
        return {"path": str(self.path), "differs": self.differs, **found, "bytes": self.bytes}

    def __str__(self) -> str:
        kinds = (("add", self.added), ("change", self.changed), ("remove", self.removed))
        lines = [f"  {verb:<7}{file}" for verb, files in kinds for file in shortened(files)] or ["  change nothing"]
        return "\n".join([*lines, *(f"  Attention: {warning}." for warning in self.warnings)])


@dataclass(frozen=True)
class ExportReport:
    """The effect of an export. `image`: the container of the target. `backup`: the present place of the old directory.
    `composing`: reports on the models that were exported with this one. `on_gpu`: whether an instance group requests a
    GPU. `preflight`: the problems at the target, and the points that depend on its setup. `incomplete`: the files that
    were too large to be exported without a request, so that the model does not deploy yet. Only the first model's
    report has `beside`, the files next to the repository, `environment`, `verification`, `version`, which equal exports
    share, `built_image`: the image of its Dockerfile, if that installs a lock, and `dry_run`: whether
    nothing was written.
    """

    plan: ExportPlan
    image: str
    backup: Path | None = None
    composing: tuple[ExportReport, ...] = ()
    on_gpu: bool = False
    preflight: Preflight | None = None
    incomplete: tuple[str, ...] = ()
    beside: ExportPlan | None = None
    environment: PlacedEnvironment | None = None
    verification: Verification | None = None
    dry_run: bool = False
    version: str = ""
    built_image: str = ""

    @property
    def path(self) -> Path:
        """The model directory."""
        return self.plan.path

    @property
    def repository(self) -> Path:
        return self.path.parent

    @property
    def reports(self) -> tuple[ExportReport, ...]:
        """Return this report and the reports of the models that were written with it."""
        return (self, *self.composing)

    @property
    def bytes(self) -> int:
        """The bytes of all models as they are exported, with their environments."""
        return sum(report.plan.bytes for report in self.reports)

    @property
    def backends(self) -> list[str]:
        """The names of the Python-based backends that were exported with the models."""
        folder = f"{backends_of(self.repository).name}/"
        files = self.beside.files if self.beside is not None else ()
        return sorted({file.split("/")[1] for file in files if file.startswith(folder)})

    @property
    def _lock(self) -> Path | None:
        """The lock of the environment, if the image has to get its packages."""
        if self.beside is None or self.environment is None or self.environment.name:
            return None
        locks = [file for file in self.beside.files if file.endswith(LOCK)]
        return self.beside.path / locks[0] if locks else None

    def tree(self) -> str:
        """Return the exported part of the repository, one line for each directory and file."""
        lines = [f"{each.path.name} is not complete: {why}" for each in self.reports for why in each.incomplete]
        lines.append(f"{self.repository}/")
        for report in self.reports:
            state = "" if report.plan.differs else "  (was up to date)"
            lines += [f"  {report.path.name}/{state}", *_tree(report.plan.files, "    ")]
        if self.beside is not None and self.beside.files:
            lines += [f"{self.beside.path}/", *_tree(self.beside.files, "  ")]
        return "\n".join(lines)

    def commands(self) -> tuple[str, str]:
        """Return the shell commands that serve the repository: with Triton in its container, and with tritonlab."""
        path, backends = str(self.repository), backends_of(self.repository)
        mounts = "".join(
            f"-v {shlex.quote(f'{backends / name}:{DEFAULT_DIRECTORY / name}')} " for name in self.backends
        )
        own = f" --backend-directory={shlex.quote(str(backends))}" * bool(self.backends)
        gpus = "--gpus=all " if any(report.on_gpu for report in self.reports) else ""
        server = "tritonserver --model-repository=/models"
        # a container's 64 MB of shared memory are too few for the tensors of Triton's stubs
        run = f"docker run --rm {gpus}--shm-size=1g -p 8000:8000 -p 8001:8001 -p 8002:8002"
        models = f"{mounts}-v {shlex.quote(f'{path}:/models')}"
        if self.built_image and self.beside is not None:
            dockerfile = shlex.quote(str(self.beside.path / "deploy" / "Dockerfile"))
            build = f"docker build -t {self.built_image} -f {dockerfile} {shlex.quote(str(self.beside.path))}"
            triton = f"{build} && {run} {self.built_image}"
        elif self._lock is not None:
            lock = shlex.quote(f"{self._lock}:/opt/requirements.lock:ro")
            install = "pip install -r /opt/requirements.lock"
            models += f" -v {lock} -e PIP_BREAK_SYSTEM_PACKAGES=1"  # as Python 3.12 wants it
            triton = f"{run} {models} {self.image} sh -c {shlex.quote(f'{install} && exec {server}')}"
        else:
            triton = f"{run} {models} {self.image} {server}"
        return (
            triton,
            f"tritonlab serve --model-repository={shlex.quote(path)}{own}",
        )

    def zip(self, path: str | os.PathLike[str] | None = None) -> ExportArchive:
        """Pack the export (models, the files next to them, and the verdict with its page and requests) into a zip file.

        The default path is `<repository>-<model>.zip` next to the repository; an existing file is replaced. Equal
        models give zip files that are equal byte for byte. Raises InvalidArgumentError for a dry run, which has written
        nothing.
        """
        if self.dry_run:
            raise InvalidArgumentError("it was a dry run, and nothing is there to be packed: export without dry_run")
        target = self.repository.with_name(f"{self.repository.name}-{self.path.name}.zip")
        if path is not None:
            target = Path(os.path.abspath(Path(path).expanduser()))
        from .verify.verdict_history import evidence_of  # with the comparison of answers

        with whole_file(target) as written, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
            for report in self.reports:
                for each in sorted(report.path.rglob("*")):
                    name = Path(self.repository.name) / each.relative_to(self.repository)
                    _pack(archive, each, name.as_posix())
            if self.beside is not None:
                for file in self.beside.files:
                    _pack(archive, self.beside.path / file, file)
            for path in evidence_of(self.repository, [report.path.name for report in self.reports]):
                _pack(archive, path, path.relative_to(self.repository.parent).as_posix())
        return ExportArchive(target)

    def build(self, engine: str = "", *, run: bool = False) -> ImageReport:
        """Build the image of an export with `deploy="docker"`, and with `run` start its container.

        The arguments and errors are those of `build_image`; without a container engine the report names the steps.
        """
        from .image_build import build_image  # with the handling of processes

        return build_image(
            self.beside.path if self.beside is not None else self.repository.parent, engine, run=run, say=print
        )

    def _notes(self) -> Iterator[str]:
        if self.dry_run:
            yield "  Nothing was written: this is what an export would write"
        if self.environment is not None:
            yield f"  Environment: {self.environment}"
            yield from (f"  Attention: {warning}." for warning in self.environment.warnings)
        if self.beside is not None and "README.md" in self.beside.files:
            yield f"  {self.beside.path / 'README.md'} says how to run and watch it"
        if self.version:
            yield f"  Version: {self.version}"
        warned: dict[str, list[str]] = {}
        for report in self.reports:
            for warning in report.plan.warnings:
                warned.setdefault(warning, []).append(report.path.name)
        for warning, names in warned.items():
            yield f"  Attention: {', '.join(names) + ': ' if self.composing else ''}{warning}."
        for report in self.reports:
            if report.backup is not None:
                yield f"  The former directory is now {report.backup}"

    def __str__(self) -> str:
        return "\n".join([self.tree(), *self._notes(), self._how()])

    def __repr__(self) -> str:
        rest = "\n".join([*self._notes(), self._how()])  # tasks are not cut, files are
        return "\n".join([few_lines(self.tree(), max(MOST_LINES - 1 - rest.count("\n"), _LEAST_OF_TREE)), rest])

    def _how(self) -> str:
        triton, here = self.commands()
        verdict = f"\n{self.verification}" if self.verification is not None else ""
        return f"Serve it with Triton:\n  {triton}\nor here:\n  {here}{verdict}"

    def to_dict(self) -> dict[str, Any]:
        """Return the written files as JSON values."""
        return {
            "repository": str(self.repository),
            "version": self.version,
            "models": [
                {
                    **report.plan.to_dict(),
                    "name": report.path.name,
                    "path": str(report.path),
                    "files": list(report.plan.files),
                    "incomplete": list(report.incomplete),
                    "backup": str(report.backup) if report.backup is not None else None,
                    "preflight": report.preflight.to_dict() if report.preflight is not None else None,
                }
                for report in self.reports
            ],
            "bytes": self.bytes,
            "beside": self.beside.to_dict() if self.beside is not None else None,
            "environment": self.environment.to_dict() if self.environment is not None else None,
            "verification": self.verification.to_dict() if self.verification is not None else None,
            "dry_run": self.dry_run,
            "commands": list(self.commands()),
        }

    def _repr_html_(self) -> str:
        triton, here = self.commands()
        notes = "".join(f"<div>{prose(note.strip())}</div>" for note in self._notes())
        verdict = self.verification._repr_html_() if self.verification is not None else ""
        return (
            f"<div class='tl-export'><pre>{escape(self.tree())}</pre>{notes}"
            f"<div>Serve it with Triton:</div><pre>{escape(triton)}</pre>"
            f"<div>or here:</div><pre>{escape(here)}</pre></div>{verdict}"
        )


@dataclass(frozen=True)
class ExportArchive:
    """A zip file of exported models. Jupyter shows it as a download link if it is below the notebook's directory; the
    browser cannot reach other files.
    """

    path: Path

    def to_dict(self) -> dict[str, Any]:
        """Return the file and its size as JSON values."""
        return {"path": str(self.path), "bytes": self.path.stat().st_size}

    def __str__(self) -> str:
        return f"{self.path} ({self.path.stat().st_size:,} bytes)"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        text = escape(str(self))
        try:
            relative = self.path.relative_to(Path.cwd())
        except (ValueError, OSError):
            return f"<div class='tl-export'>{text}</div>"
        # with `download`, because JupyterLab would open the file in a tab instead, and cannot show a zip file
        link = f"<a href='{quote(relative.as_posix())}' download='{escape(self.path.name)}'>{text}</a>"
        return f"<div class='tl-export'>{link}</div>"


class ExportConflict(Explained, FileExistsError):
    """A directory that already has other content. `plan`: the effect of an export with overwrite=True."""

    code = Code.ALREADY_EXISTS
    own_remedy = "export with overwrite=True (--overwrite), which keeps the former directory as a backup, or elsewhere"

    def __init__(self, plan: ExportPlan) -> None:
        super().__init__(
            f"{plan.path} exists; to export there would\n{plan}\n"
            f"Nothing was written. overwrite=True (--overwrite) does it and keeps the former directory as a backup."
        )
        self.plan, self.own_place = plan, str(plan.path)


def _tree(files: tuple[str, ...], indent: str) -> Iterator[str]:
    """Return sorted relative paths as lines, with one line per directory."""
    former: tuple[str, ...] = ()
    for file in shortened(files):
        *folders, name = file.split("/")
        for depth in range(len(folders)):
            if tuple(folders[: depth + 1]) != former[: depth + 1]:
                yield f"{indent}{'  ' * depth}{folders[depth]}/"
        former = tuple(folders)
        if not name:  # an empty directory
            continue
        yield f"{indent}{'  ' * len(folders)}{name if name.isprintable() else repr(name)}"


def _pack(archive: zipfile.ZipFile, path: Path, name: str) -> None:
    if _NOT_UTF_8.search(name):
        raise InvalidArgumentError(f"{name!r} is not UTF-8, and a zip file has no other names: call it otherwise")
    is_directory = path.is_dir() and not path.is_symlink()
    info = zipfile.ZipInfo(name + "/" * is_directory, _NO_TIME)
    info.external_attr = path.lstat().st_mode << 16  # a model's own stub must stay executable
    info.compress_type = zipfile.ZIP_DEFLATED
    if is_directory:
        archive.writestr(info, b"")
        return
    if path.is_symlink():  # as Info-ZIP keeps one
        archive.writestr(info, os.readlink(path))
        return
    with path.open("rb") as source, archive.open(info, "w", force_zip64=True) as target:
        shutil.copyfileobj(source, target, 1 << 20)


@dataclass(frozen=True)
class RepositoryReport:
    """The effect of the export of a repository. `whole`: the report on its models. `files`: the files next to them in
    the repository."""

    whole: ExportReport
    files: ExportPlan

    @property
    def models(self) -> tuple[ExportReport, ...]:
        """The report on each model."""
        return (replace(self.whole, composing=(), beside=None), *self.whole.composing)

    @property
    def backends(self) -> ExportPlan | None:
        """The files next to the repository, among them the Python-based backends of its models."""
        return self.whole.beside

    @property
    def repository(self) -> Path:
        return self.files.path

    @property
    def differs(self) -> bool:
        """Return whether the export changed anything."""
        plans = (self.files, self.backends, *(report.plan for report in self.whole.reports))
        return any(plan.differs for plan in plans if plan is not None)

    @property
    def verification(self) -> Verification | None:
        """The verdict of real servers; None if it was not asked for."""
        return self.whole.verification

    @property
    def version(self) -> str:
        """The version of the export, which equal exports share."""
        return self.whole.version

    def build(self, engine: str = "", *, run: bool = False) -> ImageReport:
        """Build the image of the export, as `ExportReport.build` does."""
        return self.whole.build(engine, run=run)

    def to_dict(self) -> dict[str, Any]:
        """Return the written files as JSON values."""
        return {"files": self.files.to_dict(), **self.whole.to_dict()}

    def _beside(self) -> str:
        names = [*shortened(self.files.files), *(f"Attention: {warning}." for warning in self.files.warnings)]
        return "\n".join(f"  {name}" for name in names)

    def __str__(self) -> str:
        return "\n".join(filter(None, [str(self.whole), self._beside()]))

    def __repr__(self) -> str:
        return "\n".join(filter(None, [repr(self.whole), self._beside()]))

    def _repr_html_(self) -> str:
        beside = f"<pre>{escape(self._beside())}</pre>" if self._beside() else ""
        return f"{self.whole._repr_html_()}{beside}"
