"""The tree of a model directory for an export: files with their modes, links that stay links, empty directories, and
omitted paths.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from .layout import LEFT_BEHIND

#: Larger files are left out unless they are requested: they do not belong in a git repository or an image.
LARGE = 100_000_000
#: The file in a directory that would be empty: git keeps no empty directory, and Triton loads no model without a
#: version.
KEEPS = ".gitkeep"


class Omission(Enum):
    """Why a path is left out."""

    HIDDEN = "hidden"
    LARGE = "large"
    DANGLING = "dangling"
    OUTSIDE = "outside"
    SPECIAL = "special"
    SECRET = "secret"


@dataclass(frozen=True)
class Omitted:
    """A path that is left out. `detail`: the target of a link, the bytes of a large file, the kind of a special file,
    or why it is taken for a secret.
    """

    path: str
    reason: Omission
    detail: str = ""


@dataclass
class ModelTree:
    """The entries of the directory `root`, by paths relative to it. `files` also has the files behind a link to another
    directory, if the link may bring them; `directories` are empty.
    """

    root: Path
    files: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    left_out: list[Omitted] = field(default_factory=list)

    def size(self, besides: Collection[str] = ()) -> int:
        """Return the size in bytes of all files that are not in `besides`."""
        return sum((self.root / file).stat().st_size for file in self.files if file not in besides)

    def copy(
        self, target: Path, besides: Collection[str] = (), copied: Callable[[str, int], object] = lambda file, size: 0
    ) -> None:
        """Write the tree to `target`, without the files in `besides`. `copied` is called after each file with its path
        and size."""
        for file in self.files:
            if file not in besides:
                place = target / file
                place.parent.mkdir(parents=True, exist_ok=True)
                copy_file(self.root / file, place)
                copied(file, place.stat().st_size)
        for link, end in self.links.items():
            (target / link).parent.mkdir(parents=True, exist_ok=True)
            (target / link).symlink_to(end)
        for directory in self.directories:
            (target / directory).mkdir(parents=True, exist_ok=True)


def read_tree(
    root: Path,
    *,
    include: Collection[str] | None = None,
    needed: Collection[str] = (),
    large: int = LARGE,
    skip: Collection[str] = (),
    inside: Collection[Path] = (),
    why_secret: Callable[[str, Path], str] = lambda path, file: "",
) -> ModelTree:
    """Return the tree of a model directory, or of a directory of model directories without those in `skip`.

    A link brings its target within `root` or a directory of `inside`; other links are left out.

    Args:
        root: the directory.
        include: patterns of names or paths to take although they are hidden, large or outside; None takes everything,
            with links to the outside.
        needed: paths to take at any size. An environment is taken with its hidden directories, which may have its
            libraries.
        large: the most bytes of a file that is taken without a request.
        skip: paths that are not read.
        inside: the repository, and others whose files count as the model's.
        why_secret: returns why a file is a secret, which is left out unless it is requested; "" for others. It gets the
            path relative to `root` and the file.
    """
    tree = ModelTree(root)
    reader = _Reader(tree, include, needed, large=large, skip=skip, inside=(root, *inside), why_secret=why_secret)
    reader.read("", root, ())
    return reader.finish()


def copy_file(source: Path, target: Path) -> None:
    """Copy a file with its mode."""
    shutil.copyfile(source, target)
    shutil.copymode(source, target)


def leads_out(link: str | os.PathLike[str], inside: Collection[str | os.PathLike[str]]) -> bool:
    """Return whether a path is a link to a target outside of all these directories."""
    if not os.path.islink(link):
        return False
    end = os.path.realpath(link)
    return not any(end == each or end.startswith(f"{each}/") for each in map(os.path.realpath, inside))


def is_requested(path: str, include: Collection[str]) -> bool:
    """Return whether one of the patterns matches the path or its last part."""
    name = PurePosixPath(path).name
    return any(fnmatchcase(path, each.rstrip("/")) or fnmatchcase(name, each.rstrip("/")) for each in include)


def is_environment(directory: Path) -> bool:
    """Return whether the directory is a Python environment."""
    return (directory / "bin" / "activate").exists() or (directory / "pyvenv.cfg").exists()


@dataclass
class _Reader:
    tree: ModelTree
    include: Collection[str] | None
    needed: Collection[str]
    large: int
    skip: Collection[str]
    inside: Collection[Path]
    why_secret: Callable[[str, Path], str]

    def read(self, below: str, directory: Path, above: tuple[str, ...], takes_all: bool = False) -> None:
        """Add the contents of a directory. `above`: the real paths of its parents."""
        takes_all = takes_all or self.include is None or is_environment(directory)
        above = (*above, os.path.realpath(directory))
        listed = sorted(set(os.listdir(directory)).difference(LEFT_BEHIND))
        names = [name for name in listed if not name.endswith((".pyc", ".pyo"))]
        if not names and below:
            self.tree.directories.append(below)
        for name in names:
            path, entry = f"{below}/{name}".lstrip("/"), directory / name
            if path in self.skip:
                continue
            if name.startswith(".") and not (takes_all or _keeps_directory(entry) or self._requested(path)):
                self._leave_out(path + "/" * entry.is_dir(), Omission.HIDDEN)
            elif entry.is_symlink() and (end := os.readlink(entry)) and not entry.exists():
                self._leave_out(path, Omission.DANGLING, end)
            elif leads_out(entry, (*self.inside, *above)) and not self._requested(path):
                if self.include is None:
                    self.tree.links[path] = os.path.realpath(entry)
                else:
                    self._leave_out(path, Omission.OUTSIDE, os.path.realpath(entry))
            elif entry.is_symlink() and self._stays(directory, below, end):
                self.tree.links[path] = end
            elif entry.is_dir():
                if os.path.realpath(entry) not in above:  # otherwise it links to one of its own parents
                    self.read(path, entry, above, takes_all or self._requested(path))
            elif entry.is_file():
                size = entry.stat().st_size
                if size > self.large and not (takes_all or self._requested(path) or path in self.needed):
                    self._leave_out(path, Omission.LARGE, str(size))
                elif not (takes_all or self._requested(path)) and (why := self.why_secret(path, entry)):
                    self._leave_out(path, Omission.SECRET, why)
                else:
                    self.tree.files.append(path)
            elif entry.exists():
                kind = "a pipe" if entry.is_fifo() else "a socket" if entry.is_socket() else "a device"
                self._leave_out(path, Omission.SPECIAL, kind)

    def finish(self) -> ModelTree:
        """Leave out the links to omitted paths."""
        tree = self.tree
        away = [each.path.rstrip("/") for each in tree.left_out]
        for link, end in list(tree.links.items()):
            leads_to = os.path.normpath(os.path.join(os.path.dirname(link), end))
            if any(leads_to == path or leads_to.startswith(path + "/") for path in away):
                del tree.links[link]
                self._leave_out(link, Omission.DANGLING, end)
        tree.files.sort()
        return tree

    def _leave_out(self, path: str, reason: Omission, detail: str = "") -> None:
        self.tree.left_out.append(Omitted(path, reason, detail))

    def _requested(self, path: str) -> bool:
        return is_requested(path, self.include or ())

    def _stays(self, directory: Path, below: str, end: str) -> bool:
        """Return whether a link stays within the model directory, wherever that is moved."""
        root = self.tree.root
        inside = os.path.realpath(directory) == os.path.join(os.path.realpath(root), below).rstrip("/")
        leads_to = os.path.normpath(os.path.join(below, end))
        return inside and not os.path.isabs(end) and leads_to.split("/")[0] != ".."


def _keeps_directory(path: Path) -> bool:
    """Return whether a hidden file exists only so that git keeps its directory: it is empty, and has no secret."""
    return path.name == KEEPS or (path.is_file() and path.stat().st_size == 0)


def shortened(paths: Collection[str], most: int = 25) -> list[str]:
    """Return sorted paths in which a directory with more than `most` files is one line with their number. A version
    directory is opened; many files in one directory are counted after the first ones."""
    return list(_shortened("", sorted(paths), most))


def _shortened(below: str, paths: list[str], most: int) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for path in paths:
        head, slash, _ = path.removeprefix(below).partition("/")
        groups.setdefault(below + head + slash, []).append(path)
    files = [group for group in groups if not group.endswith("/")]
    listed = files if len(files) <= most else files[: most // 2]
    for group, within in groups.items():
        if not group.endswith("/") or within == [group]:
            if group in listed or group.endswith("/"):
                yield group
            if listed and group == listed[-1] and len(listed) < len(files):
                yield f"{below}…  ({len(files) - len(listed):,} more files)"
        elif len(within) > most and not (below == "" and group[:-1].isdecimal()):
            yield f"{group}…  ({len(within):,} files)"
        else:
            yield from _shortened(group, within, most)
