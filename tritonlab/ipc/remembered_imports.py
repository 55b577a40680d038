"""What a notebook's models imported last is remembered in a file, so that a kernel that starts again starts warm."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

from ..stub._pb_stub.wire.message_bodies import ImportStep
from .zygotes import Steps

#: More sets of imports are not kept: each is a process of every kernel to come.
_KEPT = 3


class RememberedImports:
    """A file, which need not be there, or hold anything that can be read. Several kernels may write it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[Steps]:
        """The sets of imports, the last used last; none if the file has another form."""
        try:
            return [tuple(_step(row) for row in rows) for rows in json.loads(self._path.read_bytes())]
        except (OSError, ValueError, TypeError):
            return []

    def add(self, steps: Steps) -> None:
        """Writes the file anew; nothing if that is not possible."""
        sets = [*(known for known in self.read() if known != steps), steps][-_KEPT:]
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._path.parent, delete=False) as file:
                file.write(json.dumps(sets) + "\n")
            os.replace(file.name, self._path)


def _step(row: list[object]) -> ImportStep:
    module, names, optional, own = row
    if not (isinstance(module, str) and isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(row)
    return ImportStep(module, tuple(names), bool(optional), bool(own))
