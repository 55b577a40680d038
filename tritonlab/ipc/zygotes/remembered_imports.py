"""The imports of a notebook's models, kept in a file so that its next kernel starts warm."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from ...core.whole_file import write_file
from ...stub._pb_stub.wire.fork_bodies import ImportStep
from .zygote_family import Steps

#: How many sets of imports are kept at most: each costs every later kernel a process.
_KEPT = 3


class RememberedImports:
    """The cache file of a notebook's imports. It may be missing or unreadable; several kernels may write to it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[Steps]:
        """Return the sets of imports, the last used last; none if the file is missing or has an unknown form."""
        try:
            return [tuple(_step(row) for row in rows) for rows in json.loads(self._path.read_bytes())]
        except (OSError, ValueError, TypeError, RecursionError):
            return []

    def add(self, steps: Steps) -> None:
        """Add a set and write the file again; does nothing if it cannot be written."""
        sets = [*(known for known in self.read() if known != steps), steps][-_KEPT:]
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self._path, json.dumps(sets) + "\n")


def _step(row: list[object]) -> ImportStep:
    module, names, optional, own = row
    if not (isinstance(module, str) and isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(row)
    return ImportStep(module, tuple(names), bool(optional), bool(own))
