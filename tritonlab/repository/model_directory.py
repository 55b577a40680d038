"""One model's directory in a repository, replaced as a whole, and restored when the new one does not load."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from .model_tree import copy_file

Stamp = tuple[str, int, int]


class Link(NamedTuple):
    """A symbolic link, by its target path."""

    target: str


class Edited(NamedTuple):
    """The content of a file that has the mode of another one."""

    content: bytes
    like: Path


#: The source of a file: its content, the path from which it is copied, or a link.
Made = bytes | Path | Link | Edited


class ModelDirectory:
    """`<repository>/<name>` on disk. `replace` builds the new tree elsewhere and swaps two directory names.

    `spare` is on the repository's file system but outside of it, so that no server takes the spare trees for models.
    """

    def __init__(self, path: Path, spare: Path) -> None:
        self.path = path
        self._new = spare / f"{path.name}.new"
        self._old = spare / f"{path.name}.old"
        self._stamps: dict[str, Stamp] = {}
        self._old_stamps: dict[str, Stamp] = {}

    def replace(self, files: Mapping[str, Made], version: int = 1, directories: Collection[str] = ()) -> None:
        """Fill the directory with exactly `files`, `directories`, and the directory of `version`, which an ensemble
        needs although it is empty. The former tree is kept until `forget` or `restore`.

        A file copied from a path is not copied again while its source, size and modification time are the same.
        """
        for tree in (self._new, self._old):
            shutil.rmtree(tree, ignore_errors=True)
        try:
            stamps = self._written(files, [str(version), *directories])
        except BaseException:
            shutil.rmtree(self._new, ignore_errors=True)  # on a full disk, it would overwrite the present files
            raise
        if self.path.exists():
            os.replace(self.path, self._old)
        os.replace(self._new, self.path)
        self._old_stamps, self._stamps = self._stamps, stamps

    def _written(self, files: Mapping[str, Made], directories: Collection[str]) -> dict[str, Stamp]:
        """Write the new tree, and return the stamps of the copied files."""
        stamps = {}
        for directory in directories:
            (self._new / directory).mkdir(parents=True, exist_ok=True)
        for relative, content in files.items():
            target = self._new / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Link):
                target.symlink_to(content.target)
                continue
            if isinstance(content, bytes):
                target.write_bytes(content)
                continue
            if isinstance(content, Edited):
                target.write_bytes(content.content)
                shutil.copymode(content.like, target)
                continue
            stamps[relative] = stamp_of(content)
            former = self.path / relative
            if self._stamps.get(relative) == stamps[relative] and former.is_file():
                try:
                    os.link(former, target)
                except OSError:  # a file system without hard links
                    copy_file(former, target)
            else:
                copy_file(content, target)
        return stamps

    def restore(self) -> None:
        """Restore the former tree, if there was one."""
        if self._old.exists():
            os.replace(self.path, self._new)
            os.replace(self._old, self.path)
            shutil.rmtree(self._new, ignore_errors=True)
            self._stamps = self._old_stamps

    def remove(self) -> None:
        """Remove the directory."""
        self._stamps = {}
        shutil.rmtree(self.path, ignore_errors=True)

    def forget(self) -> None:
        """Drop the former tree, because the new one is good."""
        shutil.rmtree(self._old, ignore_errors=True)


def stamp_of(path: Path) -> Stamp:
    """Return facts that change with the content of a file."""
    found = path.stat()
    return str(path), found.st_size, found.st_mtime_ns
