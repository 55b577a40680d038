"""What a model needs installed, found by what its stub really imported: modules, their distributions, pinned."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from ..child_command import CommandFailed, run_command
from ..releases import find
from .python_prefix import Python

NUMPY_REASON = (
    "numpy < 2: the stubs of Triton up to 2.51 were compiled for numpy 1. With numpy 2 they answer 200 with 0 bytes"
)
#: The last numpy 1 for each Python; 3.13 has none.
_NUMPY_1 = {"3.8": "1.24.4", "3.9": "1.26.4", "3.10": "1.26.4", "3.11": "1.26.4", "3.12": "1.26.4"}
#: StubImports by a `.pth` file in every process.
_AT_START = frozenset({"_distutils_hack"})
_PACKAGES = ("site-packages", "dist-packages")


class Distribution(NamedTuple):
    """An installed distribution that a model imported. `bytes`: of its files; `why`: a module of it."""

    name: str
    version: str
    bytes: int
    why: str


class StubImports(NamedTuple):
    """What the modules of a stub came from. `loose`: files outside any distribution, by module."""

    distributions: tuple[Distribution, ...]
    loose: Mapping[str, str]


class Pin(NamedTuple):
    """One line of a lock."""

    name: str
    version: str
    comment: str = ""

    @property
    def line(self) -> str:
        return f"{self.name}=={self.version}" + (f"  # {self.comment}" if self.comment else "")


class EnvironmentRefused(CommandFailed):
    """An environment that would not work on the target, or is not wanted there."""


def imported(modules: Mapping[str, str], besides: Iterable[Path] = ()) -> StubImports:
    """Return the distributions of `modules`, file by name. Files in `besides` (the model directory, the stub) and of
    the standard library are left out."""
    own = [str(path) + os.sep for path in besides]
    found: dict[str, Distribution] = {}
    loose: dict[str, str] = {}
    for name, file in sorted(modules.items(), key=lambda each: (each[0].startswith("_"), len(each[0]), each[0])):
        if name in _AT_START or any(file.startswith(path) for path in own):
            continue
        site = _packages_directory(file)
        if site is None:
            if not _is_standard(file) and name.partition(".")[0] not in sys.stdlib_module_names:
                loose.setdefault(name.partition(".")[0], file)
            continue
        owner = _owners(site).get(os.path.relpath(file, site))
        if owner is None:
            loose.setdefault(name.partition(".")[0], file)
        elif owner.metadata["Name"] not in found:
            found[owner.metadata["Name"]] = _distribution(owner, site, name)
    return StubImports(tuple(found[name] for name in sorted(found)), loose)


def _packages_directory(file: str) -> str | None:
    parts = Path(file).parts
    ends = [number for number, part in enumerate(parts) if part in _PACKAGES]
    return str(Path(*parts[: ends[0] + 1])) if ends else None


def _is_standard(file: str) -> bool:
    path = Path(file)
    folders = [path.parent, *path.parents]
    return any((folder / "os.py").exists() and (folder / "encodings").is_dir() for folder in folders)


@functools.lru_cache(maxsize=8)
def _owners(site: str) -> dict[str, metadata.Distribution]:
    """Return the distribution of each file in a directory of packages."""
    return {str(file): each for each in metadata.distributions(path=[site]) for file in each.files or ()}


def _distribution(found: metadata.Distribution, site: str, why: str) -> Distribution:
    size = sum(_size(os.path.join(site, file)) for file in found.files or ())
    return Distribution(found.metadata["Name"], found.version, size, why)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def needs_numpy_1(target: str) -> bool:
    """Return whether the stubs of that release of Triton need numpy 1. Raises UnknownTarget."""
    return bool(find(target).numpy.value == "<2")


def pins(distributions: Iterable[Distribution], target: str, python: str) -> list[Pin]:
    """Return the pins for a release of Triton and a Python: the versions that the stub imported, but numpy 1 where the
    release needs it. Raises EnvironmentRefused for a Python that has no such numpy."""
    found = []
    names = {each.name.lower() for each in distributions}
    for each in [*distributions, *([] if "numpy" in names else [Distribution("numpy", "", 0, "the stub")])]:
        version, comment = each.version.partition("+")[0], f"import {each.why}"
        if "+" in each.version:
            comment += f"; {each.version} here, a local build"
        if each.name.lower() == "numpy" and needs_numpy_1(target) and not version.startswith("1."):
            if python not in _NUMPY_1:
                raise EnvironmentRefused(
                    f"Triton {target} needs numpy < 2, which has no release for Python {python}",
                    "use a Python up to 3.12, or a later release of Triton",
                )
            comment = f"{NUMPY_REASON}; {version or 'no numpy'} here"
            version = _NUMPY_1[python]
        found.append(Pin(each.name, version, comment))
    return sorted(found, key=lambda pin: pin.name.lower())


def lock_text(found: Iterable[Pin], target: str, python: Python) -> str:
    """Return the text of requirements.lock."""
    lines = [
        f"# For Triton {target}, Python {python.version}. What the models imported while they were loaded",
        "# and answered their requests, and what that needs. Written by tritonlab.",
    ]
    if needs_numpy_1(target):
        lines.append(f"# {NUMPY_REASON}.")
    return "\n".join([*lines, *(pin.line for pin in found)]) + "\n"


def resolved(found: list[Pin], python: Python, cancel: threading.Event) -> list[Pin]:
    """Return the pins with those of what they need, as pip resolves them for that Python without installing.

    A distribution whose pinned release needs another numpy gets an older release; its comment says so.
    """
    try:
        answer = _report([f"{pin.name}=={pin.version}" if pin.version else pin.name for pin in found], python, cancel)
    except CommandFailed as error:
        if "ResolutionImpossible" not in str(error) and "No matching distribution" not in str(error):
            raise
        fixed = {pin.name.lower() for pin in found if pin.name.lower() == "numpy"}
        answer = _report(
            [f"{pin.name}{'==' if pin.name.lower() in fixed else '<='}{pin.version}" for pin in found], python, cancel
        )
    known = {pin.name.lower().replace("_", "-"): pin for pin in found}
    result = []
    for name, version in answer.items():
        pin = known.get(name.lower().replace("_", "-"))
        comment = pin.comment if pin else "needed by one of the others"
        if pin and pin.version and pin.version != version:
            comment += f"; {pin.version} does not go with the others"
        result.append(Pin(name, version, comment))
    return sorted(result, key=lambda pin: pin.name.lower())


def _report(requirements: list[str], python: Python, cancel: threading.Event) -> dict[str, str]:
    command = [*pip_of(python), "install", "-q", "--dry-run", "--ignore-installed", "--only-binary=:all:"]
    report = json.loads(run_command([*command, "--report", "-", *requirements], cancel=cancel))
    return {row["metadata"]["name"]: row["metadata"]["version"] for row in report["install"]}


def pip_of(python: Python) -> list[str]:
    """Return the beginning of a pip command that works for `python`, by this process's own pip."""
    return [
        *(sys.executable, "-m", "pip", "--python", str(python.executable)),
        *("--disable-pip-version-check", "--no-input"),
    ]
