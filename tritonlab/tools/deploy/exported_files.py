"""The files of an export: their hashes, and the version that they make together.

Equal files have the same version, whenever, wherever and in whichever order they were exported.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...ipc.processes.own_stub import NAME as STUB
from ...repository.layout import LEFT_BEHIND, is_model_directory
from .own_backends import backends_in, backends_of

#: The name of the pinned packages next to a repository.
LOCK = "requirements.lock"
_DIGITS = 12

#: Facts of each file by its path: `bytes`, and either `sha256` and `mode`, or the `link` that it is.
FileFacts = Mapping[str, Mapping[str, Any]]


def lock_of(repository: Path, *, is_whole: bool) -> Path:
    """Return the place of a repository's lock. `is_whole`: whether it is delivered with the directory above it."""
    return repository.with_name(LOCK if is_whole else f"{repository.name}.{LOCK}")


def files_of(repository: Path, *, new: Sequence[Path] = (), beside: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return the facts of a repository's files: its models, the files next to them, its backends, and its lock.

    `new` are directories whose entries are about to be moved into the repository, and `beside` is a directory whose
    entries are about to be moved next to it; they replace entries of the same names.
    """
    tops = [repository.parent, *([beside] if beside else [])]
    entries = {path.name: path for directory in (repository, *new) for path in _entries(directory)}
    backends = {path.name: path for top in tops for path in backends_in(top / backends_of(repository).name)}
    found: dict[str, dict[str, Any]] = {}
    for name in sorted(entries):
        found |= dict(_tree(entries[name], name))
    for name in sorted(backends):
        found |= dict(_tree(backends[name], f"{backends_of(repository).name}/{name}"))
    locks = [top / lock_of(repository, is_whole=whole).name for whole in (True, False) for top in reversed(tops)]
    return found | next(({LOCK: _facts(path)} for path in locks if path.is_file()), {})


def has_stub(files: FileFacts) -> bool:
    """Return whether a model directory has a stub of its own."""
    return any(path.count("/") == 1 and path.endswith(f"/{STUB}") for path in files)


def models_in(repository: Path) -> list[Path]:
    """Return the directories of a repository's models, without hidden ones, sorted."""
    return sorted(path for path in _entries(repository) if path.is_dir())


def _entries(repository: Path) -> Iterator[Path]:
    """Yield the models of a repository, and the files next to them, without hidden ones."""
    for path in repository.iterdir() if repository.is_dir() else ():
        if not path.name.startswith(".") and (path.is_file() or (path.is_dir() and is_model_directory(path))):
            yield path


def version_of(files: FileFacts, container: str) -> str:
    """Return the version of an export: the tag of the container of its release, and a hash of its files. It is a valid
    image tag and a valid label of Kubernetes."""
    parts = {path: _identity(each) for path, each in files.items()}
    digest = hashlib.sha256(json.dumps([container, parts], sort_keys=True).encode("utf-8", "surrogateescape"))
    return f"{container}-{digest.hexdigest()[:_DIGITS]}"


def _identity(facts: Mapping[str, Any]) -> list[Any]:
    """Return the part of a file's facts that a deployment depends on: of its mode, whether it can be executed. The rest
    of the mode depends on the umask of the author."""
    is_executable = bool(int(facts.get("mode", "0"), 8) & stat.S_IXUSR)
    return [facts.get("sha256", ""), facts.get("link", ""), is_executable]


def _tree(directory: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the facts of the files in a directory, or of one file, by their paths as it is called `name`."""
    if directory.is_file() and not directory.is_symlink():
        yield name, _facts(directory)
    for path in sorted(directory.rglob("*")) if directory.is_dir() else ():
        relative = path.relative_to(directory)
        if path.is_symlink():
            yield f"{name}/{relative.as_posix()}", {"bytes": 0, "link": os.readlink(path)}
        elif path.is_file() and not any(part in LEFT_BEHIND for part in relative.parts):
            yield f"{name}/{relative.as_posix()}", _facts(path)


def _facts(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    status = path.stat()
    return {"bytes": status.st_size, "sha256": digest, "mode": f"{stat.S_IMODE(status.st_mode):04o}"}
