"""The modules that a model's stubs have imported, and their installed distributions."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

#: The modules that every process imports at its start, by a `.pth` file or as Python's own hook.
_AT_START = frozenset({"_distutils_hack", "sitecustomize", "usercustomize"})
_PACKAGES = ("site-packages", "dist-packages")


class LoadedModule(NamedTuple):
    """A module that belongs neither to Python nor to the model. `file`: for a namespace package, its directory.
    `distribution`: None if none has the file."""

    name: str
    file: str
    distribution: metadata.Distribution | None

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]

    @property
    def is_packaged(self) -> bool:
        """Whether it lies among the packages of an environment."""
        return packages_directory(self.file) is not None


def third_party_modules(modules: Mapping[str, str], own: Iterable[Path]) -> Iterator[LoadedModule]:
    """Yield the modules of `modules`, file by name, that are packages of an environment, or that belong neither to
    Python nor to the directories `own`; shorter names first, so that a package precedes its modules."""
    left_out = tuple(f"{path}{os.sep}" for each in own for path in {str(each), os.path.realpath(each)})
    installed = tuple(path for path in left_out if packages_directory(path))  # such as our stub, from a wheel
    for name, file in sorted(modules.items(), key=lambda each: (each[0].startswith("_"), len(each[0]), each[0])):
        if name in _AT_START or name.startswith("__editable__") or file.startswith(installed):
            continue
        site = packages_directory(file)
        if site is not None:
            yield LoadedModule(name, file, _owners(site).get(os.path.relpath(file, site)))
        elif not file.startswith(left_out) and not _is_standard(os.path.dirname(file)):
            yield LoadedModule(name, file, None)


def packages_directory(file: str) -> str | None:
    """Return the directory of packages that has the file; None if none has it."""
    parts = Path(file).parts
    ends = [number for number, part in enumerate(parts) if part in _PACKAGES]
    return str(Path(*parts[: ends[0] + 1])) if ends else None


@functools.cache
def _is_standard(folder: str) -> bool:
    """Return whether the directory is in a standard library."""
    path = Path(folder)
    return any((each / "os.py").exists() and (each / "encodings").is_dir() for each in (path, *path.parents))


@functools.lru_cache(maxsize=8)
def _owners(site: str) -> dict[str, metadata.Distribution]:
    """Return the distribution of each file in a directory of packages.

    `Distribution.files` gives the same, but makes an object of every line, which takes ten times as long.
    """
    found = {}
    for each in metadata.distributions(path=[site]):
        files = each.read_text("RECORD") or each.read_text("SOURCES.txt") or ""
        found.update(dict.fromkeys((line.partition(",")[0] for line in files.splitlines()), each))
    return found
