"""The possible places of a repository, and the place where its models are built before they are moved into it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from ..core.explained import Explained
from ..core.os_limits import explained
from ..core.status import Code

#: The prefix of the names of directories in which models are built.
SCRATCH = ".tritonlab-export-"


class NoRepository(Explained, OSError):
    """A path at which a repository is impossible."""

    code = Code.INVALID_ARG
    own_remedy = "name another directory"

    def __init__(self, path: str | Path, text: str) -> None:
        super().__init__(text)
        self.own_place = str(path)


def repository_path(directory: str | PathLike[str]) -> Path:
    """Return the path in its usual meaning, with `~` for the home directory. Nothing is written.

    Raises NoRepository if a directory is impossible there.
    """
    try:
        path = Path(os.path.abspath(Path(directory).expanduser()))
    except RuntimeError:
        raise NoRepository(str(directory), f"{directory}: there is no such user on this machine") from None
    there = next(each for each in (path, *path.parents) if os.path.lexists(each))
    if not there.is_dir():
        raise NoRepository(there, f"{there} is not a directory, so it cannot hold a model repository")
    if not os.access(there, os.W_OK | os.X_OK):
        raise NoRepository(there, f"this user may not write into {there}")
    return path


def make_repository(directory: str | PathLike[str]) -> Path:
    """Make the directory, if it does not exist, and return its path. Raises NoRepository."""
    path = repository_path(directory)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise NoRepository(path, f"{path} cannot be made: {why.lower()}") from error
    return path


@contextlib.contextmanager
def removed_at_error(path: Path, refusal: str) -> Iterator[None]:
    """At an error, remove the directory `path` and its parents, as far as they were made in this context and are empty.
    Raises NoRepository, with `refusal` and the limit, if a limit of the operating system was reached.
    """
    made = [each for each in (path, *path.parents) if not os.path.lexists(each)]
    try:
        yield
    except BaseException as error:
        for folder in made:
            with contextlib.suppress(OSError):  # others have written there, or it was not made yet
                folder.rmdir()
        if not isinstance(error, OSError) or isinstance(error, Explained) or (limit := explained(error, path)) is None:
            raise
        raise NoRepository(path, f"{refusal}: {limit}") from error


def scratch_place(repository: Path) -> Path:
    """Return the directory in which models are built: next to the repository, where no server looks for models. It is
    in the repository if that is its own file system, such as a mounted volume, or its parent is read-only: models can
    be moved only within a file system.
    """
    repository = repository.resolve()
    beside, moved = (parent / scratch_name() for parent in (repository.parent, repository))
    try:
        beside.touch(0o600, exist_ok=False)
        os.replace(beside, moved)  # a file: servers look at directories
    except OSError:
        return repository
    finally:  # also at an interrupt
        for path in (beside, moved):
            with contextlib.suppress(OSError):
                path.unlink()
    return repository.parent


def scratch_name() -> str:
    """Return a name that no other export uses."""
    return SCRATCH + secrets.token_hex(8)


def remove(path: Path) -> None:
    """Remove a file, a link or a directory, as far as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
