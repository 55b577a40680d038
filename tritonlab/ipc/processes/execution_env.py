"""The Python that a model names in the parameter EXECUTION_ENV_PATH, and the unpacking of its archive, a tar or tar.gz
(section 2.10 of the rule book).

All members are checked before the first is written. Members that would write or lead outside of the directory are
refused: absolute names, `..`, devices and pipes, names below a link of the archive, links that lead out. A link is
followed as the system would, through the archive's other links: behind `up -> ../..`, `up/..` is not the directory that
its text names. Only `bin/python…` may be a link to a file outside, because venv refers in this way to the Python that
made it.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import tarfile
import threading
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from ...core.scratch_directory import ScratchDirectory
from .interpreter import InterpreterError

PARAMETER = "EXECUTION_ENV_PATH"
MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"
#: The most directories above a member: Python's functions that make and remove directories recurse once a level.
_MOST_LEVELS = 400
#: Links that are followed on the way to a file; Linux follows 40.
_MOST_LINKS = 100


class ExecutionEnvironments:
    """The environments of one server. An archive is unpacked once for all models that name it. If it changes, it is
    unpacked again into another directory, because serving models still run in the first.

    Guarantees: `find` may be called from any thread; two models that name the same archive wait for one extraction.
    `close`, or else the end of the process, removes the directories.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards everything below, and is held while an archive is unpacked
        self._base: ScratchDirectory | None = None
        self._count = 0
        #: by canonical path of an archive, (its modification time ns and size, the directory where it is unpacked)
        self._unpacked: dict[str, tuple[tuple[int, int], Path]] = {}

    def find(
        self, path: str, model_directory: Path, say: Callable[[str, str], None] = lambda level, text: None
    ) -> Path | None:
        """Return the directory of the environment at `path`, the parameter's value; None if that is empty. Raises
        InterpreterError, with Triton's text if it has one (rule 2.10.3). `say(level, text)` logs a text."""
        named = path.replace(MODEL_DIRECTORY, str(model_directory))
        say("INFO", f"Using Python execution env {named}")
        if not path:
            return None
        try:
            found = Path(os.path.realpath(named, strict=True))
        except (OSError, ValueError):  # ValueError: a NUL
            raise InterpreterError(f"Failed to get the canonical path for {named}.") from None
        directory = found if found.is_dir() else self._unpack(found, say)
        activate = directory / "bin" / "activate"
        if not activate.exists():
            raise InterpreterError(
                f"Path {activate} does not exist. The Python environment should contain an 'activate' script."
            )
        return directory

    def _unpack(self, archive: Path, say: Callable[[str, str], None]) -> Path:
        with self._lock:
            status = archive.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._unpacked.get(str(archive))
            if known is not None and known[0] == stamp:
                return known[1]
            say("VERBOSE", f"Extracting Python execution env {archive}")
            if self._base is None:
                self._base = ScratchDirectory("python_env_")
            directory = self._base.path / str(self._count)
            self._count += 1
            directory.mkdir()
            try:
                extract(archive, directory)
            except ArchiveError as error:
                shutil.rmtree(directory, ignore_errors=True)
                raise InterpreterError(str(error)) from error
            self._unpacked[str(archive)] = (stamp, directory)
            return directory

    def close(self) -> None:
        """Remove the unpacked environments; no model may run there any more."""
        with self._lock:
            self._unpacked.clear()
            base, self._base = self._base, None
        if base is not None:
            base.remove()


class ArchiveError(Exception):
    """An error for an archive that cannot be read, or for a member that is refused."""


def extract(archive: Path, directory: Path) -> None:
    """Unpack `archive` into the empty `directory`. Raises ArchiveError; then a part of it may be unpacked."""
    try:
        with _open(archive) as tar:
            _check_members(archive, tar.getmembers())
            if hasattr(tarfile, "tar_filter"):
                tar.extractall(directory, filter=_filter)
            else:
                tar.extractall(directory)
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError) as error:
        raise ArchiveError(f"'{archive}' cannot be unpacked: {error}") from error


def _filter(member: tarfile.TarInfo, directory: str) -> tarfile.TarInfo:
    """Apply Python's own check (PEP 706), which sees the directory as it is. The unpacking user owns the files."""
    checked = tarfile.tar_filter(member, directory)
    # None: the archive's owner is not applied; typeshed does not have this
    return checked.replace(uid=None, gid=None, uname=None, gname=None, deep=False)  # type: ignore[arg-type]


def _open(archive: Path) -> tarfile.TarFile:
    """Open plain tar and gzip only, as Triton does: an archive that works here must work there."""
    try:
        if not archive.is_file():  # a pipe waits for its writer
            raise EOFError
        with archive.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        return tarfile.open(archive, "r:gz" if packed else "r:")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        # Triton's text (rule 2.10.3)
        raise ArchiveError("archive_read_open_filename() failed.") from error


def _check_members(archive: Path, members: list[tarfile.TarInfo]) -> None:
    links: set[str] = set()
    files: set[str] = set()
    targets = {posixpath.normpath(member.name): member.linkname for member in members if member.issym()}
    for member in members:
        name = posixpath.normpath(member.name)
        problem = _problem(member, name, links=links, files=files, targets=targets)
        if problem:
            raise ArchiveError(
                f"'{archive}' is refused, nothing was unpacked: its member '{member.name[:200]}' {problem}. "
                "An environment must not reach outside its own directory."
            )
        if member.issym():
            links.add(name)
        elif member.isfile():
            files.add(name)


def _problem(member: tarfile.TarInfo, name: str, links: set[str], files: set[str], targets: Mapping[str, str]) -> str:
    """Return why a member is refused; empty if it is not. `links` and `files`: the members before it; `targets`: where
    each link of the archive leads."""
    if member.name.startswith("/"):
        return "has an absolute path"
    if ".." in member.name.split("/"):
        return "has '..' in its path"
    if name.count("/") > _MOST_LEVELS:
        return f"is {name.count('/')} directories deep, and {_MOST_LEVELS} can be made"
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        return "is a device or a pipe"
    if name in links or any(parent in links for parent in _parents(name)):
        return "would be written through a link of the archive"
    if member.islnk() and posixpath.normpath(member.linkname) not in files:
        return f"is a hard link to '{member.linkname}', which the archive does not contain before it"
    if member.issym() and not _is_interpreter(name) and _leads_out(name, targets):
        return f"is a link to '{member.linkname}', which is outside"
    return ""


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def _leads_out(name: str, targets: Mapping[str, str]) -> bool:
    """Follow a link, and return whether that leaves the archive's directory."""
    folder = _parents(name)[-1].split("/") if "/" in name else []
    left = [posixpath.basename(name)]
    followed = 0
    while left:
        part = left.pop()
        if part == "..":
            if not folder:
                return True
            folder.pop()
        elif part not in ("", "."):
            folder.append(part)
            path = "/".join(folder)
            if path not in targets or (_is_interpreter(path) and not left):
                continue
            followed += 1
            if followed > _MOST_LINKS:  # a circle, which the system does not follow either
                return False
            if targets[path].startswith("/"):
                return True
            folder.pop()
            left += reversed(targets[path].split("/"))
    return False


def _is_interpreter(name: str) -> bool:
    return posixpath.dirname(name) == "bin" and posixpath.basename(name).startswith("python")
