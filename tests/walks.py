"""How long the walks through the package are: `python -m tests.walks` prints the calls of one cell on its way to READY,
indented by depth, with `--callers` how often each function calls another, and `make sizes` the number of calls.

A `%%triton_model` cell runs in a new IPython shell, in a process of its own, after another cell has run, so that the
server is there and its zygote warm. Counted are calls of Python functions (`sys.setprofile`), also comprehensions and
generators that go on, on the thread of the cell, from its first line until its card is shown.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections import Counter
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, NamedTuple

from tests.models import answers, cell
from tests.test_layering import PACKAGE, ROOT

#: Cells that are run; the median is printed, since a wait for an answer polls more or less often.
_CELLS = 5
_CELL = cell("{name} --input IN:FP32[4] --output OUT:FP32[4]", answers("x + 1"))


class Call(NamedTuple):
    """One call of a function of the package. `depth`: how many of those of the package it is called by."""

    depth: int
    file: str
    function: str


class Walk:
    """The calls of a thread, those of `package` one by one, while it is the thread's profile function."""

    def __init__(self, package: Path = PACKAGE) -> None:
        self.calls: list[Call] = []
        self.total = 0
        self._prefix = f"{package}/"
        self._depth = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        is_ours = code.co_filename.startswith(self._prefix)
        if event == "return":
            self._depth -= is_ours
            return
        self.total += 1
        if is_ours:
            file = code.co_filename.removeprefix(self._prefix)
            self.calls.append(Call(self._depth, file, getattr(code, "co_qualname", code.co_name)))
            self._depth += 1

    @property
    def modules(self) -> int:
        return len({call.file for call in self.calls})

    @property
    def loads(self) -> int:
        """The most calls in a row, each made by the one before, of functions with "load" in their names."""
        rows: list[int] = []
        longest = 0
        for call in self.calls:
            del rows[call.depth :]
            is_load = "load" in call.function.rpartition(".")[2]
            rows.append((rows[-1] if rows else 0) + 1 if is_load else 0)
            longest = max(longest, rows[-1])
        return longest

    def by_caller(self) -> str:
        """Return how often each function was called, and by which function of the package, the most first."""
        above: list[str] = []
        counts: Counter[tuple[str, str]] = Counter()
        for call in self.calls:
            del above[call.depth :]
            name = f"{call.file}  {call.function}"
            counts[name, above[-1] if above else "IPython"] += 1
            above.append(name)
        return "\n".join(f"{count:4}  {name}  <-  {caller}" for (name, caller), count in counts.most_common())

    def __str__(self) -> str:
        return "\n".join(f"{'  ' * call.depth}{call.file}  {call.function}" for call in self.calls)


def cell_to_ready(cells: int = _CELLS) -> list[Walk]:
    """Run that many cells, each of which writes a new model, and return the walk of each. It needs a process of its
    own."""
    from IPython.core.interactiveshell import InteractiveShell

    import tritonlab

    shell: Any = InteractiveShell.instance()
    walks = []
    with contextlib.redirect_stdout(io.StringIO()):
        shell.run_line_magic("load_ext", "tritonlab")
        shell.run_cell(_CELL.format(name="warm"), store_history=True).raise_error()
        for number in range(cells):
            walk = Walk()
            sys.setprofile(walk)
            try:
                result = shell.run_cell(_CELL.format(name=f"walked_{number}"), store_history=True)
            finally:
                sys.setprofile(None)
            result.raise_error()
            assert tritonlab.default_server().model(f"walked_{number}").ready()
            walks.append(walk)
        tritonlab.reset()
    return walks


def row() -> str:
    """Return the figures, taken in a process of its own, as a line of text."""
    command = [sys.executable, "-m", "tests.walks", "--row"]
    return subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def _row(walks: list[Walk]) -> str:
    calls, modules = median(len(walk.calls) for walk in walks), median(walk.modules for walk in walks)
    return (
        f"a cell to READY: {calls:.0f} calls in {PACKAGE.name}/ over {modules:.0f} modules, "
        f"{median(walk.total for walk in walks):.0f} with those of Python's and others' libraries, "
        f"{max(walk.loads for walk in walks)} in a row named load"
    )


if __name__ == "__main__":
    found = cell_to_ready()
    if "--row" not in sys.argv:
        sys.stdout.write(f"{found[-1].by_caller() if '--callers' in sys.argv else found[-1]}\n")
    sys.stdout.write(f"{_row(found)}\n")
