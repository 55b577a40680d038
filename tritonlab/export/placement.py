"""The last step of an export: new model directories, and the files beside the repository, take the places of the former
ones, all of them or none."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ..repository.place import NoRepository, scratch_name


@dataclass
class _Move:
    """One directory's change of place. It is written down before it begins, so that an interrupt anywhere within can
    be undone from what is on disk."""

    new: Path
    target: Path
    #: where the former directory is meanwhile, and then its backup; None if there was none
    aside: Path | None = None
    #: the backup, where it has to be a copy because it is on another file system
    copy: Path | None = None


class Placement:
    """A context in which directories are placed; an error or an interrupt in it puts back every one.

    Each move is a rename, so at every moment a target is the former directory, the new one, or, between two renames,
    absent. The backup is beside the repository, not in it: a server would take it for a model of the wrong name.
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
            with contextlib.suppress(OSError):  # it holds what others have written, or backups
                folder.rmdir()

    def place(self, new: Path, target: Path) -> Path | None:
        """Move `new` to `target` and return the backup of what was there; None if nothing was.

        Raises NoRepository where no backup can be made, and nothing is replaced.
        """
        move = _Move(new, target)
        self._moves.append(move)
        if target.exists():
            self._put_aside(move)
        os.replace(new, target)
        return move.copy or move.aside

    def place_file(self, new: Path, target: Path) -> None:
        """Move a file to `target`, which may be on another file system, and make the directories around it. The backup
        of what was there is beside those of the models."""
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
            os.replace(move.target, move.aside)  # it goes with the directory that `new` was built in

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


def remove(path: Path) -> None:
    """Remove a file, a link or a directory, as far as that can be."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _free_name(path: Path) -> Path:
    number, name = 1, path.name
    while path.exists():
        number += 1
        path = path.with_name(f"{name}-{number}")
    return path
