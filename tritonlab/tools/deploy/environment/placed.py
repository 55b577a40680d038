"""An environment in the model directories of an export: its files, its parameter in the config, and the stub."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ....core.config.completed_text import completed_text
from ....core.config.model_config import config_bytes, parse_pbtxt, read_config_text
from ....core.scratch_directory import ScratchDirectory
from ....core.version import DEFAULT_TARGET
from ....ipc.processes.execution_env import MODEL_DIRECTORY, PARAMETER
from ....ipc.processes.own_stub import NAME as STUB
from ....repository.layout import CONFIG_FILE
from ....repository.place import remove
from ..child_command import Say, run_command
from ..preflight.subject import ExportedEnvironment, Subject
from ..releases import find, find_target
from ..verify.wheels import NoWheel, Wheel, find_wheel, unpacked
from .built_environment import build_environment, check_budget, check_relocatable, pack
from .lock import (
    Distribution,
    EnvironmentRefused,
    Pin,
    StubImports,
    check_local,
    cuda_warnings,
    lock_text,
    needs_numpy_1,
    pins,
    resolved,
)
from .python_prefix import Python, find_python, kind_of_prefix, own_python, python_of_prefix, why_refused

#: The possible values of `--env`, besides the path of a prefix.
CHOICES = ("requirements", "dir", "archive", "none")
_NAMES = {"dir": "env", "archive": "env.tar.gz"}
#: Run by conda-pack (the extra `conda`), which has the list of paths that conda wrote.
_PACK_CONDA = (
    "import conda_pack, sys; conda_pack.pack(prefix=sys.argv[1], output=sys.argv[2], ignore_missing_files=True)"
)


@dataclass(frozen=True)
class EnvironmentOptions:
    """The options of an exported model's environment.

    `choice`: one of CHOICES, or the path of an environment. `target`: a release of Triton, the tag of its container,
    kserve, dynamo or ray. `python`: the version of the environment's Python, by default this one's; for a lock, the
    version of the Python that installs it, by default the target image's. `budget`: the most bytes it may have.
    """

    choice: str = "requirements"
    target: str = DEFAULT_TARGET
    python: str = ""
    budget: int | None = None

    @property
    def release(self) -> str:
        return str(find_target(self.target).release.triton.value)


@dataclass
class PlacedEnvironment:
    """The files put into model directories, and the facts about them for the author. `name`: of the directory or
    archive, empty for a lock alone."""

    name: str = ""
    python: str = ""
    pins: tuple[Pin, ...] = ()
    #: bytes of the environment in one model directory
    bytes: int = 0
    has_stub: bool = False
    warnings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.name:
            count = "1 package" if len(self.pins) == 1 else f"{len(self.pins)} packages"
            return f"requirements.lock has {count} for Python {self.python}"
        stub = ", with the stub of the target's wheel" if self.has_stub else ""
        return f"{self.name} has {self.bytes / 1e6:.0f} MB in each model directory, Python {self.python}{stub}"

    def subject_with(self, subject: Subject) -> Subject:
        """Return the subject of pre-flight for the model with this environment."""
        packages = {pin.name.lower(): pin.version for pin in self.pins}
        if not self.name:
            return replace(subject, pins=packages)
        return replace(subject, exported=ExportedEnvironment(self.name, self.python, packages, has_stub=self.has_stub))

    def facts(self) -> dict[str, Any]:
        """Return the facts that do not depend on this machine as JSON values."""
        return {
            "name": self.name,
            "python": self.python,
            "packages": [f"{pin.name}=={pin.version}" for pin in self.pins],
            "bytes": self.bytes,
            "stub_of_wheel": self.has_stub,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**self.facts(), "warnings": self.warnings}


def place_environment(
    models: Mapping[Path, StubImports],
    options: EnvironmentOptions,
    *,
    lock: Path,
    say: Say = lambda text: None,
    cancel: threading.Event | None = None,
) -> PlacedEnvironment:
    """Put the environment of `options` into the model directories, which nothing serves yet, and write `lock`.

    `models`: the imports of each model. All get the same environment, which has the packages of all of them. Raises
    EnvironmentRefused before anything is written; after any other failure the directories are as before.
    """
    cancel = cancel or threading.Event()
    if options.choice == "none":
        return PlacedEnvironment()
    if options.choice not in CHOICES:
        return _place_prefix(
            models=list(models),
            prefix=Path(options.choice).expanduser().absolute(),
            options=options,
            say=say,
            cancel=cancel,
        )
    python, distributions, report = _begin(models.values(), options, say)
    wanted = report.pins
    say("environment: find out what the packages need")
    report.pins = tuple(resolved(wanted, python, cancel, say))
    report.warnings += _version_warnings(wanted, report.pins, python)
    report.warnings += cuda_warnings(distributions, report.pins)
    text = lock_text(report.pins, options.release, python)
    if options.choice == "requirements":
        lock.write_text(text, encoding="utf-8")
        return report
    with ScratchDirectory("environment-") as scratch:
        made = build_environment(python, found=report.pins, directory=scratch / "env", say=say, cancel=cancel)
        if options.choice == "archive":
            say("environment: pack it")
            made = pack(made, scratch / _NAMES["archive"], cancel)
        stub = _stub_for(python.version, options, report=report, say=say, cancel=cancel)
        _put(list(models), made, _NAMES[options.choice], stub)
        report.name, report.bytes = _NAMES[options.choice], _bytes_of(made)
        lock.write_text(text, encoding="utf-8")
    say(f"environment: {report.bytes / 1e6:.0f} MB in each model directory")
    return report


def planned_environment(
    models: Mapping[Path, StubImports], options: EnvironmentOptions, say: Say = lambda text: None
) -> PlacedEnvironment:
    """Return the environment that `place_environment` would put into the model directories, without the dependencies of
    its packages, and its approximate size. Nothing is fetched or written. Raises EnvironmentRefused like
    `place_environment`."""
    if options.choice == "none":
        return PlacedEnvironment()
    if options.choice not in CHOICES:
        prefix = Path(options.choice).expanduser().absolute()
        version, size = _check_prefix(prefix, options)
        stub = _wheel_with_stub(version, options, [])
        return PlacedEnvironment(_NAMES["archive"], version, bytes=size, has_stub=stub is not None)
    python, _, report = _begin(models.values(), options, say)
    if options.choice != "requirements":
        report.name = _NAMES[options.choice]
        report.has_stub = _wheel_with_stub(python.version, options, report.warnings) is not None
    return report


def _begin(
    models: Collection[StubImports], options: EnvironmentOptions, say: Say
) -> tuple[Python, Collection[Distribution], PlacedEnvironment]:
    """Return the Python of an environment, the distributions that the models have imported, and a report with their
    pins and the approximate size."""
    python = _chosen_python(options)
    found = {each.name: each for imports in models for each in imports.distributions}.values()
    check_local(found, options.choice)
    report = PlacedEnvironment(
        python=python.version,
        pins=tuple(pins(found, options.release, python.version)),
        warnings=_loose_warnings(models),
    )
    if options.choice != "requirements":
        check_relocatable(python)
        report.bytes = check_budget(python, found, options.budget, say)
    return python, found, report


def _chosen_python(options: EnvironmentOptions) -> Python:
    """Return the Python of an environment. A lock is for the Python of the target image by default; if it is not
    installed here, return this process's with that version."""
    if options.choice == "requirements":
        version = options.python or find(options.release).python.value or own_python().version
        return find_python(version) or own_python()._replace(version=version)
    found = find_python(options.python) if options.python else own_python()
    if found is None:
        raise EnvironmentRefused(
            f"this machine has no Python {options.python}", "install one with pyenv, or name another"
        )
    return found


def _version_warnings(wanted: Sequence[Pin], found: Sequence[Pin], python: Python) -> list[str]:
    """Return the packages whose version differs from the one here, because of other packages or the Python."""
    versions = {pin.name.lower(): pin.version for pin in found}
    return [
        f"{pin.name} is pinned to {versions[pin.name.lower()]}, and the models ran here with {pin.version}, which does "
        f"not go with Python {python.version} or with the other packages"
        for pin in wanted
        if pin.version and versions.get(pin.name.lower(), pin.version) != pin.version
    ]


def _loose_warnings(found: Any) -> list[str]:
    loose = {name: file for each in found for name, file in each.loose.items()}
    return [
        f"module '{name}' comes from {file}, which is in no distribution: put it beside model.py"
        for name, file in sorted(loose.items())
    ]


def _pack_conda(prefix: Path, archive: Path, say: Say, cancel: threading.Event) -> Path:
    """Pack a conda prefix into `archive`, a `.tar.gz`. Raises EnvironmentRefused if conda-pack is not installed."""
    if importlib.util.find_spec("conda_pack") is None:
        raise EnvironmentRefused(
            f"{prefix} is an environment of conda's, and packing it needs conda-pack", "pip install 'tritonlab[conda]'"
        )
    say(f"environment: conda-pack packs {prefix}")
    run_command([sys.executable, "-c", _PACK_CONDA, str(prefix), str(archive)], cancel=cancel)
    return archive


def _place_prefix(
    models: Sequence[Path], prefix: Path, options: EnvironmentOptions, say: Say, cancel: threading.Event
) -> PlacedEnvironment:
    """Place the author's own environment."""
    version, size = _check_prefix(prefix, options)
    report = PlacedEnvironment(python=version)
    say(f"environment: {prefix} has {size / 1e6:.0f} MB")
    with ScratchDirectory("environment-") as scratch:
        made = scratch / _NAMES["archive"]
        if kind_of_prefix(prefix) == "conda":
            _pack_conda(prefix, made, say, cancel)
        else:
            say("environment: pack it")
            pack(prefix, made, cancel)
        stub = _stub_for(version, options, report=report, say=say, cancel=cancel)
        _put(models, made, _NAMES["archive"], stub)
        report.name, report.bytes = _NAMES["archive"], _bytes_of(made)
    return report


def _check_prefix(prefix: Path, options: EnvironmentOptions) -> tuple[str, int]:
    """Return the Python version of a prefix, as 3.11, and the prefix's bytes. Raises EnvironmentRefused if it cannot be
    used."""
    if not prefix.is_dir():
        raise EnvironmentRefused(f"{prefix} is not a directory", f"use one of {', '.join(CHOICES)}, or a prefix")
    if why := why_refused(prefix):
        raise EnvironmentRefused(why, "use --env dir or --env archive, which make a relocatable one, or a conda prefix")
    version = python_of_prefix(prefix)
    packages = prefix / "lib" / f"python{version}" / "site-packages"
    packed = sorted(packages.glob("numpy-*.dist-info"))
    numpy = packed[0].name.removeprefix("numpy-").removesuffix(".dist-info") if packed else ""
    if needs_numpy_1(options.release) and not numpy.startswith("1."):
        found = f"has numpy {numpy}" if numpy else "has no numpy"
        raise EnvironmentRefused(f"{prefix} {found}, and Triton {options.release} needs numpy < 2", "install numpy<2")
    size = _bytes_of(prefix)
    if options.budget is not None and size > options.budget:
        raise EnvironmentRefused(
            f"{prefix} has {size / 1e6:.0f} MB; the budget is {options.budget / 1e6:.0f} MB", "set a larger budget"
        )
    return version, size


def image_python(release: str) -> str:
    """Return the Python of a release's container, for which the container's stub was compiled."""
    return find(release).python.value or "a Python that is not known"


def _stub_for(
    version: str, options: EnvironmentOptions, report: PlacedEnvironment, say: Say, cancel: threading.Event
) -> Path | None:
    """Return the stub from the target's wheel, if the environment's Python differs from the one of the target's own
    stub."""
    wheel = _wheel_with_stub(version, options, report.warnings)
    report.has_stub = wheel is not None
    return unpacked(wheel, say, cancel).stub(version) if wheel is not None else None


def _wheel_with_stub(version: str, options: EnvironmentOptions, warnings: list[str]) -> Wheel | None:
    """Return the wheel whose stub the environment needs. None if the target's own stub has its Python, or, with a
    warning, if there is no wheel. Raises EnvironmentRefused if the wheel lacks such a stub."""
    if version == image_python(options.release):
        return None
    try:
        wheel = find_wheel(options.release)
    except NoWheel as error:
        warnings.append(
            f"the environment has Python {version}, the stub of Triton {options.release} is compiled for "
            f"{image_python(options.release)}, and {error}: compile a stub for {version}, or use the other Python"
        )
        return None
    if version not in wheel.stubs:
        known = ", ".join(wheel.stubs)
        raise EnvironmentRefused(
            f"the wheel of Triton {options.release} has no stub for Python {version}, only for {known}",
            f"use a Python of {known}",
        )
    return wheel


def _put(models: Sequence[Path], made: Path, name: str, stub: Path | None) -> None:
    """Put environment, stub and parameter into each model directory, all or none."""
    undo: list[Callable[[], object]] = []
    try:
        for model in models:
            text = _with_parameter(model, f"{MODEL_DIRECTORY}/{name}")
            for other in {*_NAMES.values()} - {name}:
                _set_aside(model / other, undo)
            _set_aside(model / name, undo)
            undo.append(lambda path=model / name: remove(path))  # type: ignore[misc]
            if made.is_dir():
                shutil.copytree(made, model / name, symlinks=True)
            else:
                shutil.copyfile(made, model / name)
            if stub is not None:
                _set_aside(model / STUB, undo)
                undo.append(lambda path=model / STUB: remove(path))  # type: ignore[misc]
                shutil.copyfile(stub, model / STUB)
                (model / STUB).chmod(0o755)
            _set_aside(model / CONFIG_FILE, undo)
            undo.append(lambda path=model / CONFIG_FILE: remove(path))  # type: ignore[misc]
            (model / CONFIG_FILE).write_bytes(config_bytes(text))
    except BaseException:
        for step in reversed(undo):
            step()
        raise
    for model in models:
        for aside in model.glob(f"{_ASIDE}*"):
            remove(aside)


_ASIDE = ".tritonlab-aside-"


def _set_aside(path: Path, undo: list[Callable[[], object]]) -> None:
    if os.path.lexists(path):
        aside = path.with_name(_ASIDE + path.name)
        os.replace(path, aside)
        undo.append(lambda: os.replace(aside, path))


def _with_parameter(model: Path, value: str) -> str:
    """Return the model's config with the parameter set; the author's text is kept if possible."""
    text = read_config_text(model / CONFIG_FILE)
    config = parse_pbtxt(text, str(model / CONFIG_FILE))
    config.parameters[PARAMETER].string_value = value
    return completed_text(text, config).text


def _bytes_of(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(each.lstat().st_size for each in path.rglob("*") if not each.is_dir())
