"""`Probe`, the kernel's side of the instrumentation inside a copy of a model: its allocations, and its use of inputs.

Lines at the end of the copy's model.py, below all of the author's, wrap `execute`. Before each execution they read a
command from a file, so each command needs a request. A check requires no change of the stub, and serving models have
none of these lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ...core.scratch_directory import ScratchDirectory

#: Appended to model.py, below the author's lines, whose numbers stay the same.
_APPENDED = """

# -- added by tritonlab to this copy of the model, for its check
from _pb_stub.process.model_probe import probe as _tritonlab_probe
_tritonlab_probe(TritonPythonModel, __file__, {directory!r})
"""


Layout = Literal["copies", "read-only", "spread"]


class TracedLine(NamedTuple):
    """A line of the model, and the bytes that each request allocates there and does not free."""

    file: str
    line: int
    source: str
    per_request: float

    @property
    def name(self) -> str:
        return Path(self.file).name


class Probe:
    """The probe of one copy. `ask` sends a request, on which the copy runs the command."""

    def __init__(self) -> None:
        self._scratch = ScratchDirectory("probe-")
        self._directory = self._scratch.path

    def attach(self, model: Path, file: str) -> None:
        """Append the lines to the model.py of every version in the directory of the copy."""
        append_to(model, file, _APPENDED.format(directory=str(self._directory)))

    def count(self, ask: Callable[[], object]) -> float:
        """Return how many blocks Python has allocated for its objects; 0 if unknown."""
        return float(self.do("count", ask) or 0)

    def give_copies(self, name: str, ask: Callable[[], object], how: Layout = "copies") -> None:
        """Make each as_numpy() of that input return its own array: an ordinary one, a read-only one, or a
        non-contiguous one ("spread"). A name of "" ends that."""
        self.do(f"{how} {name}" if name else "plain", ask)

    def grown(self, ask: Callable[[], object], requests: int) -> TracedLine | None:
        """Return the line with the most memory allocated since the mark and not freed."""
        found = self.do("grown", ask)
        if not found:
            return None
        file, line, size, source = found[0]
        return TracedLine(str(file), int(line), str(source).strip(), float(size) / requests)

    def do(self, command: str, ask: Callable[[], object]) -> Any:
        """Run a command and return its result, None if unknown: `trace` starts tracing allocations, `mark` remembers
        the current ones."""
        order, answer = self._directory / "order", self._directory / "answer"
        answer.unlink(missing_ok=True)
        order.write_text(command)
        ask()
        try:
            return json.loads(answer.read_text())
        except (OSError, ValueError):
            return None


def append_to(model: Path, file: str, lines: str) -> None:
    """Append lines to the Python file `file` of every version in a model's directory."""
    for source in model.glob(f"*/{file}"):
        if source.suffix == ".py":
            source.write_bytes(source.read_bytes() + lines.encode())
