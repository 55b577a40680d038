"""The last steps of an export: new model directories, and the files next to the repository, are compared with the old
ones and replace them, all or none.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ...repository.place import NoRepository, remove, scratch_name
from .report import ExportConflict, ExportPlan

#: The parts of the directory in which an export is built: the models, the files that lie next to them in their
#: repository, and the files next to that.
MODELS, FILES, BESIDE = "models", "files", "beside"


def put_in_place(
    repository: Path,
    scratch: Path,
    plans: Sequence[ExportPlan],
    files: Mapping[Path, ExportPlan],
    *,
    overwrite: bool,
    finish: Callable[[], object] = lambda: None,
) -> list[Path | None]:
    """Move the models that were built in `scratch` / MODELS, and the files of other directories, to their places, and
    call `finish`, all or none. Return the backups of the replaced models. Raises ExportConflict if other content is in
    the way, unless `overwrite` is set."""
    in_the_way = [plan for plan in plans if plan.differs and plan.path.exists()]
    in_the_way += [beside for beside in files.values() if beside.changed]
    if in_the_way and not overwrite:
        raise ExportConflict(in_the_way[0])
    with Placement(repository) as placement:
        backups = [
            placement.place(scratch / MODELS / plan.path.name, plan.path)
            if plan.differs or not plan.path.exists()
            else None
            for plan in plans
        ]
        for new, beside in files.items():
            for name in (*beside.added, *beside.changed):
                placement.place_file(new / name, beside.path / name)
        finish()
    return backups


@contextlib.contextmanager
def scratch_directory(parent: Path) -> Iterator[str]:
    """Make a directory for the duration of the context. Its name is chosen before it is made, so that an interrupt at
    any moment leaves nothing behind."""
    path = str(parent / scratch_name())
    try:
        os.mkdir(path, 0o700)
        yield path
    finally:
        try:
            with contextlib.suppress(OSError):
                shutil.rmtree(path)
        finally:  # also after an interrupt
            _remove_frugally(path)


def _remove_frugally(path: str) -> None:
    """Remove a tree as far as possible with one open file: `shutil.rmtree` needs two, and no more may be available."""
    for directory, directories, files in os.walk(path, topdown=False):
        for name in (*files, *directories):
            whole = os.path.join(directory, name)
            with contextlib.suppress(OSError):
                (os.rmdir if name in directories and not os.path.islink(whole) else os.unlink)(whole)
    with contextlib.suppress(OSError):
        os.rmdir(path)


def compare_trees(new: Path, target: Path) -> ExportPlan:
    """Return the differences if `new` replaces the directory `target`. Raises FileExistsError for a target that is not
    a directory."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FileExistsError(f"{target} exists and is not a directory; nothing was written")
    ours, theirs = _entries(new), _entries(target)
    both = {path for path in ours & theirs if not path.endswith("/")}
    same = {path for path in both if _is_equal(new / path, target / path)}
    # every entry would be removed, so every entry is listed, also those that an export would not write; an empty
    # directory is no loss
    return ExportPlan(
        target,
        added=tuple(sorted(ours - theirs)),
        changed=tuple(sorted(both - same)),
        removed=tuple(sorted(path for path in theirs - ours if not path.endswith("/"))),
        unchanged=tuple(sorted(same | {path for path in ours & theirs if path.endswith("/")})),
        bytes=_size(new),
    )


def compare_files(new: Path, target: Path) -> ExportPlan:
    """Return the differences if the files of `new` are added to the directory `target`, next to its other files. Raises
    FileExistsError for a directory in the place of a file."""
    names = sorted(_entries(new))
    there = {name for name in names if os.path.lexists(target / name)}
    for name in sorted(there):
        if (target / name).is_dir():
            raise FileExistsError(f"{target / name} is a directory; nothing was written")
    same = {name for name in there if _is_equal(new / name, target / name)}
    return ExportPlan(
        target,
        added=tuple(name for name in names if name not in there),
        changed=tuple(sorted(there - same)),
        removed=(),
        unchanged=tuple(sorted(same)),
        bytes=_size(new),
    )


def _size(directory: Path) -> int:
    return sum(each.lstat().st_size for each in directory.rglob("*") if each.is_file() and not each.is_symlink())


def _entries(directory: Path) -> set[str]:
    """Return the relative paths of files, links and empty directories; the latter end in a slash."""
    found: set[str] = set()
    for folder, folders, names in os.walk(directory):
        below = Path(folder).relative_to(directory)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        found.update((below / name).as_posix() for name in (*names, *links))
        if not names and not folders and folder != str(directory):
            found.add(f"{below.as_posix()}/")
    return found


def _is_equal(one: Path, other: Path) -> bool:
    """Return whether both are links to the same target, or files with the same content and the same execute
    permission."""
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and os.readlink(one) == os.readlink(other)
    if not other.is_file() or _is_executable(one) != _is_executable(other):
        return False
    return filecmp.cmp(one, other, shallow=False)


def _is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IXUSR)


@dataclass
class _Move:
    """The move of one directory. It is recorded before it begins, so that an interrupt anywhere within can be undone
    from the files on disk."""

    new: Path
    target: Path
    #: where the old directory is during the move, and then its backup; None if there was none
    aside: Path | None = None
    #: the backup, if it must be a copy because it is on another file system
    copy: Path | None = None


class Placement:
    """A context in which directories are placed; an error or an interrupt in it restores all of them.

    Each move is a rename, so at every moment a target is the old directory, the new one, or, between two renames,
    absent. The backup is next to the repository, not in it: a server would take it for a model of the wrong name.
    """

    def __init__(self, repository: Path) -> None:
        resolved = repository.resolve()
        self._backups = resolved.with_name(resolved.name + ".backup")
        self._made_backups = False
        self._moves: list[_Move] = []
        self._folders: list[Path] = []
        self._copies: list[Path] = []

    def __enter__(self) -> Placement:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            return
        for move in reversed(self._moves):
            try:
                _undo(move)
            except OSError as failed:
                error.add_note(f"{move.target} could not be put back ({failed}); it is at {move.aside}")
        for copy in self._copies:
            with contextlib.suppress(OSError):
                copy.unlink(missing_ok=True)
        for folder in [*reversed(self._folders), *([self._backups] if self._made_backups else [])]:
            with contextlib.suppress(OSError):  # it holds files of others, or backups
                folder.rmdir()

    def place(self, new: Path, target: Path) -> Path | None:
        """Move `new` to `target` and return the backup of the replaced directory; None if there was none.

        Raises NoRepository, without replacing anything, if no backup can be made.
        """
        move = _Move(new, target)
        self._moves.append(move)
        if target.exists():
            self._put_aside(move)
        os.replace(new, target)
        return move.copy or move.aside

    def place_file(self, new: Path, target: Path) -> None:
        """Move a file to `target`, which may be on another file system, and make its parent directories. The backup of
        a replaced file lies next to the models' backups."""
        for folder in reversed(target.parents):
            if not folder.exists():
                self._folders.append(folder)
                folder.mkdir()
        if os.stat(new).st_dev != os.stat(target.parent).st_dev:
            near = target.with_name(f"{scratch_name()}-{target.name}")
            self._copies.append(near)
            shutil.copy2(new, near)
            new = near
        self.place(new, target)

    def _put_aside(self, move: _Move) -> None:
        self._make_backups(move.target)
        backup = _free_name(self._backups / f"{move.target.name}-{time.strftime('%Y%m%d-%H%M%S')}")
        move.aside = backup
        try:
            os.replace(move.target, backup)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            move.aside, move.copy = move.new.with_name(f"{move.new.name}.former"), backup
            _copy(move.target, backup)
            os.replace(move.target, move.aside)  # it is removed with the directory in which `new` was built

    def _make_backups(self, target: Path) -> None:
        self._made_backups = self._made_backups or not self._backups.exists()
        try:
            self._backups.mkdir(exist_ok=True)
        except OSError as error:
            text = f"{target} was not replaced, because its backup {self._backups} cannot be made: {error.strerror}"
            raise NoRepository(target, text) from error


def _undo(move: _Move) -> None:
    if not move.new.exists() and move.target.exists():
        os.replace(move.target, move.new)
    if move.aside is not None and move.aside.exists() and not move.target.exists():
        os.replace(move.aside, move.target)
    if move.copy is not None:
        remove(move.copy)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target)


def _free_name(path: Path) -> Path:
    number, name = 1, path.name
    while path.exists():
        number += 1
        path = path.with_name(f"{name}-{number}")
    return path
