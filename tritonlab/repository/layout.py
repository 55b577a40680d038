"""The layout of a model directory: the names that Triton gives to its parts, and its contents at one moment."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..core.config.model_config import ConfigError, ModelConfig
from ..core.foreign_file import open_file
from ..core.status import InternalError, UnsupportedError

CONFIG_FILE = "config.pbtxt"
#: The directory for configurations of other names (rule 5.1.7).
CONFIGS = "configs"
MODEL_FILE = "model.py"
#: Files that Python leaves while a model runs; they are no change of the model (server issue 7489: Triton reloads for
#: them).
_IGNORED = ("__pycache__",)
#: Files that Python and Jupyter leave; they are not part of a model.
LEFT_BEHIND = ("__pycache__", ".ipynb_checkpoints")

#: path relative to the model directory -> (modification time ns, size)
Fingerprint = dict[str, tuple[int, int]]
#: output -> the label of each index
Labels = dict[str, tuple[str, ...]]

#: A number as C++ reads it: from the beginning of a text, as far as the digits go.
_NUMBER = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+")


class DirectoryContents(NamedTuple):
    """The contents of a model directory. `versions`: the numbers that Triton reads from its directories' names, lowest
    first. `first_files`: the names in the version directory whose name sorts first, with `/` after directories.
    """

    fingerprint: Fingerprint
    versions: list[int]
    first_files: list[str]


def read_contents(directory: Path) -> DirectoryContents:
    """Read a model directory once. Raises OSError if it, or the first version's directory, cannot be read, ConfigError
    for an entry at which Triton gives up."""
    found: Fingerprint = {}
    entries = _walk(str(directory), "", found)
    for entry in entries:
        if entry.is_symlink() and not os.path.exists(entry.path):
            raise ConfigError(f"failed to stat file {entry.path}", detail="a link that leads nowhere")
    numbers = {entry.name: number for entry in entries if (number := read_version(entry)) is not None}
    first = min(numbers, default="")
    return DirectoryContents(found, sorted({*numbers.values()}), names_in(directory / first) if first else [])


def read_version(entry: os.DirEntry[str]) -> int | None:
    """Return the version that Triton sees in an entry of a model directory; None if it ignores the entry (rule 2.1.1).
    Raises ConfigError for a number that ends Triton."""
    found = _NUMBER.match(entry.name)
    if found is None or (entry.name[0] == "0" and len(entry.name) > 1) or not _is_directory(entry):
        return None
    number = int(found[0])
    if not -(1 << 63) <= number < 1 << 63:
        raise ConfigError(f"the version directory '{entry.name}' has no number of 64 bits: give it a smaller one")
    return number


def names_in(directory: Path) -> list[str]:
    """Return the names in a directory, with `/` after directories."""
    with os.scandir(directory) as entries:
        return [entry.name + "/" * _is_directory(entry) for entry in entries]


def read_file(path: Path) -> bytes:
    """Return the bytes of a file that a configuration names. Raises InternalError, with Triton's text, also for a pipe
    or a device, which may have no end, and for an impossible file name.
    """
    try:
        with open_file(path) as file:
            return file.read()
    except OSError as error:
        raise InternalError(f"failed to open text file for read {path}: {error.strerror}") from error


def fingerprint(directory: Path) -> Fingerprint:
    """Return every file with its modification time and size, to compare at a reload. Files may come or go meanwhile."""
    found: Fingerprint = {}
    try:
        _walk(str(directory), "", found)
    except (OSError, RecursionError):  # it is gone, or too deep
        return {}
    return found


def place_time(directory: Path) -> int:
    """Return the last change of a directory itself, in ns: moved, or an entry added or removed. 0 if it is gone."""
    try:
        return os.stat(directory).st_ctime_ns
    except OSError:
        return 0


def _walk(path: str, below: str, found: Fingerprint) -> list[os.DirEntry[str]]:
    """Add the files of a directory, whose names begin with `below`, to `found`, and return its entries."""
    with os.scandir(path) as scanned:
        entries = [entry for entry in scanned if entry.name not in _IGNORED]
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                _walk(entry.path, f"{below}{entry.name}/", found)
            elif entry.is_file():
                status = entry.stat()
                found[below + entry.name] = (status.st_mtime_ns, status.st_size)
        except OSError:  # it is gone, or may not be read
            continue
    return entries


def version_numbers(directory: Path) -> list[int]:
    """Return the numbers of the directories with a decimal name without a leading zero, `0` itself included (rule
    2.1.1), lowest first.
    """
    with os.scandir(directory) as entries:
        return sorted(
            int(name)
            for entry in entries
            if (name := entry.name).isascii() and name.isdecimal() and str(int(name)) == name and _is_directory(entry)
        )


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a directory, or a link to one; a link to itself is neither."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def model_names(repository: Path) -> list[str]:
    """Return the names of the possible model directories in a repository, sorted."""
    return sorted(path.name for path in repository.iterdir() if path.is_dir() and is_model_directory(path))


def chosen_models(repository: Path, names: Sequence[str]) -> list[str]:
    """Return `names`, or the names of all models of a repository if there are none. Raises FileNotFoundError."""
    if not repository.is_dir():
        raise FileNotFoundError(f"there is no model repository {repository}")
    known = model_names(repository)
    for name in names:
        if name not in known:
            raise FileNotFoundError(f"{repository} has no model '{name}'; it has {', '.join(known) or 'none'}")
    if not known:
        raise FileNotFoundError(f"{repository} has no model: no directory with a config.pbtxt or a version")
    return list(names) or known


def is_model_directory(path: Path) -> bool:
    """Return whether it can be a model directory: it has a config.pbtxt, or the directory of a version."""
    return (path / CONFIG_FILE).is_file() or bool(version_numbers(path))


def read_labels(config: ModelConfig, directory: Path, base: Path | None = None) -> Labels:
    """Return the labels of every output with a label file, which has one label per line, for classification (rule
    6.6.2). `base`: the directory whose files are linked into the model directory.

    Raises InternalError for a file that cannot be read, UnsupportedError for a file outside of both directories (rule
    5.3.4).
    """
    labels: Labels = {}
    for output in config.output:
        if not output.label_filename:
            continue
        path = directory / output.label_filename
        roots = [os.path.realpath(place) for place in (directory, base) if place is not None]
        if not any(Path(os.path.realpath(path)).is_relative_to(root) for root in roots):
            raise UnsupportedError(
                f"label file path '{output.label_filename}' for output '{output.name}' in model '{config.name}' is "
                "outside model directory"
            )
        text = read_file(path).decode("utf-8", "surrogateescape")
        labels[output.name] = tuple(text.split("\n"))  # Triton leaves the \r of a file from Windows there (measured)
    return labels
