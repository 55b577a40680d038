"""What is different between the directories that an export has built and those that are there."""

from __future__ import annotations

import filecmp
import os
import stat
from pathlib import Path

from .report import ExportPlan


def compare_trees(new: Path, target: Path) -> ExportPlan:
    """Return what is different if `new` takes the place of the directory `target`. Raises FileExistsError for a target
    that is not a directory."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FileExistsError(f"{target} exists and is not a directory; nothing was written")
    ours, theirs = _entries(new), _entries(target)
    both = {path for path in ours & theirs if not path.endswith("/")}
    same = {path for path in both if _is_equal(new / path, target / path)}
    # everything that is there would go, so everything is named, also what an export would not write; an empty
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
    """Return what is different if the files of `new` are put into the directory `target`, beside what is there. Raises
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
    """Return the files, links and empty directories, these with a slash at their end, relative."""
    found: set[str] = set()
    for folder, folders, names in os.walk(directory):
        below = Path(folder).relative_to(directory)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        found.update((below / name).as_posix() for name in (*names, *links))
        if not names and not folders and folder != str(directory):
            found.add(f"{below.as_posix()}/")
    return found


def _is_equal(one: Path, other: Path) -> bool:
    """Return whether both are links to the same, or files of the same content that both may be executed or not."""
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and os.readlink(one) == os.readlink(other)
    if not other.is_file() or _is_executable(one) != _is_executable(other):
        return False
    return filecmp.cmp(one, other, shallow=False)


def _is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IXUSR)
