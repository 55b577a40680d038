"""The probe inside a copy of a model that is being checked: the author's lines whose allocations stay, and reads of an
input that the model itself has changed. Only such a copy imports it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import tracemalloc
from typing import Any, List, Optional

import numpy

from ..api.pb_tensor import Tensor

#: The frames kept of each allocation, to find the author's line below a library's.
_DEPTH = 12
_MOST = 5


class ModelProbe:
    """The probe in the model's process. It follows the file `order` before the next `execute`."""

    def __init__(self, model_file: str, directory: str) -> None:
        self._root = os.path.dirname(os.path.dirname(os.path.abspath(model_file)))
        self._order = os.path.join(directory, "order")
        self._answer = os.path.join(directory, "answer")
        self._marked: Optional[tracemalloc.Snapshot] = None

    def obey(self) -> None:
        """Follow the file, if it exists."""
        if not os.path.exists(self._order):
            return
        with open(self._order) as file:
            order = file.read()
        os.unlink(self._order)
        found: Any = []
        if order == "count":
            gc.collect()
            found = sys.getallocatedblocks()
        elif order == "trace":
            tracemalloc.start(_DEPTH)
        elif order == "plain" or order.startswith(("copies ", "read-only ", "spread ")):
            how, _, name = order.partition(" ")
            _give_copies(name, how)
        elif order == "mark":
            gc.collect()
            self._marked = tracemalloc.take_snapshot()
        elif order == "grown" and self._marked is not None:
            gc.collect()
            found = self._grown(tracemalloc.take_snapshot(), self._marked)
            tracemalloc.stop()
        with open(self._answer, "w") as file:
            json.dump(found, file)

    def _grown(self, now: tracemalloc.Snapshot, marked: tracemalloc.Snapshot) -> List[Any]:
        """Return file, line, bytes and source of the author's lines that allocated most since the mark."""
        by_line = {}  # type: dict[Any, int]
        for difference in now.compare_to(marked, "traceback"):
            if difference.size_diff <= 0:
                continue
            for frame in reversed(difference.traceback):
                if frame.filename.startswith(self._root + os.sep):
                    place = (frame.filename, frame.lineno)
                    by_line[place] = by_line.get(place, 0) + difference.size_diff
                    break
        largest = sorted(by_line.items(), key=lambda item: -item[1])[:_MOST]
        return [[file, line, size, _source(file, line)] for (file, line), size in largest]


def keep_files(directory: str) -> None:
    """Redirect temporary files to `tmp` of that directory, and list files made by name in the common temporary
    directory in its file `made`.
    """
    shared, own = tempfile.gettempdir() + os.sep, os.path.dirname(directory) + os.sep
    tempfile.tempdir = os.environ["TMPDIR"] = os.path.join(directory, "tmp")

    def note(event: str, args: Any) -> None:
        if event == "os.mkdir" or (event == "open" and isinstance(args[2], int) and args[2] & os.O_CREAT):
            try:
                path = os.path.abspath(os.fsdecode(args[0]))
                if path.startswith(shared) and not path.startswith(own) and not os.path.lexists(path):
                    with open(os.path.join(directory, "made"), "ab") as file:
                        file.write(os.fsencode(path) + b"\0")
            except (TypeError, ValueError, OSError):
                return

    sys.addaudithook(note)


_as_numpy = Tensor.as_numpy


def _give_copies(name: str, how: str) -> None:
    """Make `as_numpy` of tensors of that name return a new array each time. "" ends it, as on Triton."""
    if not name:
        Tensor.as_numpy = _as_numpy  # type: ignore[method-assign]
        return

    def as_numpy(self: Tensor) -> Any:
        array = _as_numpy(self)
        if self.name() != name or not isinstance(array, numpy.ndarray):
            return array
        if how == "spread":  # the same values, with a gap behind each of them
            spread = numpy.zeros((*array.shape, 2), array.dtype)[..., 0]
            spread[...] = array
            return spread
        array = array.copy()
        array.flags.writeable = how != "read-only"
        return array

    Tensor.as_numpy = as_numpy  # type: ignore[method-assign]


def _source(file: str, line: int) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read().split("\n")[line - 1]
    except (OSError, IndexError):
        return ""


def probe(model: Any, model_file: str, directory: str) -> None:
    """Make the `execute` of a model's class check for orders first."""
    execute = model.execute
    looks = ModelProbe(model_file, directory)

    def execute_probed(self: Any, requests: Any) -> Any:
        looks.obey()
        return execute(self, requests)

    model.execute = execute_probed
