"""The Python that a stub process is started with, and the environment it belongs to.

Triton's stub is compiled for one Python; ours is source that any Python from 3.8 on runs. So a model's own interpreter
is the environment's `bin/python`, or an executable in the model directory that starts an interpreter (`own_stub.py`); a
second stub is never built.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: The script that the interpreter runs: the stub's entry point.
STUB = Path(__file__).resolve().parents[2] / "stub" / "triton_python_backend_stub.py"

#: Oldest Python that reads the stub's sources.
OLDEST = (3, 8)
_PROBE_SECONDS = 30.0

#: Prints whether a stub can run; every Python back to 2.7 reads this program.
_PROBE = """
import sys
sys.stdout.write("python %d.%d.%d\\n" % sys.version_info[:3])
import numpy
sys.stdout.write("numpy %s\\n" % numpy.__version__)
"""


class InterpreterError(Exception):
    """An error for an interpreter that cannot run a stub: the reason, and what to do."""


@dataclass(frozen=True)
class Interpreter:
    """A Python to start stubs with. `executable` takes the arguments of a Python interpreter. `environment` is the
    directory of its execution environment; empty if there is none."""

    executable: str
    environment: str = ""

    def variables(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables of the process. As in the newest Triton, the environment's `activate` script
        is not executed, so the variables that it exports are missing (rule 2.10.4)."""
        found = dict(base)
        # its import makes onnxruntime 1.32 open a database and start a thread, to report its use: then no zygote can
        # import it for a model, and each load takes half a second longer (2026-11-25)
        found.setdefault("ORT_DISABLE_TELEMETRY", "1")
        root = self.environment
        if root:
            found.pop("PYTHONHOME", None)
            found["VIRTUAL_ENV"] = root
            found["VIRTUAL_ENV_PROMPT"] = f"({root})"
            found["PATH"] = _prepend(f"{root}/bin", found.get("PATH", ""))
            found["LD_LIBRARY_PATH"] = _prepend(f"{root}/lib", found.get("LD_LIBRARY_PATH", ""))
        return found

    def check(self) -> None:
        """Run the interpreter once. Raises InterpreterError if no stub could run in it: it does not start, is too old
        or has no numpy."""
        try:
            done = subprocess.run(
                [self.executable, "-c", _PROBE],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="backslashreplace",
                env=self.variables(os.environ),
                timeout=_PROBE_SECONDS,
            )
        except OSError as error:
            raise InterpreterError(f"'{self.executable}' cannot be run: {error.strerror or error}") from error
        except subprocess.TimeoutExpired as error:
            raise InterpreterError(f"'{self.executable}' did nothing for {_PROBE_SECONDS:.0f} s") from error
        found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("python ", "numpy ")))
        complaint = done.stderr.strip()
        if "python" not in found:
            raise InterpreterError(
                f"'{self.executable}' is not a Python that runs here: {complaint or 'it printed nothing'}"
            )
        if tuple(int(part) for part in found["python"].split(".")[:2]) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise InterpreterError(
                f"'{self.executable}' is Python {found['python']}; tritonlab's stub needs {oldest} or newer"
            )
        if "numpy" not in found:
            last = complaint.splitlines()[-1] if complaint else "numpy cannot be imported"
            # The first line is the error that Triton's client reads when the model's own `import numpy` fails.
            raise InterpreterError(
                f"{last}\n\nThe stub needs numpy in the Python environment of the model. Install it there:\n"
                f"  {self.executable} -m pip install numpy"
            )


def of_environment(directory: Path) -> Interpreter:
    """Return the interpreter of an execution environment. Raises InterpreterError if it has none, or only a link to a
    Python that this machine does not have: an environment of `venv` needs the Python that made it at the same path."""
    dangling = ""
    for name in ("python", "python3"):
        path = directory / "bin" / name
        if path.exists():
            return Interpreter(str(path), str(directory))
        if path.is_symlink():
            dangling = dangling or str(path)
    if dangling:
        raise InterpreterError(
            f"'{dangling}' is a link to '{_end_of_links(dangling)}', which does not exist on this machine. An "
            "environment made by venv needs the Python it was made with, at the same path. Install that Python, or "
            "pack the environment with its interpreter (conda-pack)."
        )
    raise InterpreterError(
        f"Path {directory}/bin/python does not exist. tritonlab starts the environment's own interpreter, so the "
        "environment should contain one."
    )


def _end_of_links(path: str) -> str:
    for _ in range(40):
        if not os.path.islink(path):
            break
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return os.path.normpath(path)


def _prepend(path: str, paths: str) -> str:
    return f"{path}:{paths}" if paths else path
