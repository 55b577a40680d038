"""The stub of a model's own, `<model directory>/triton_python_backend_stub`, which is preferred (rule 2.10.6).

In Triton it is the same program compiled for another Python. Here it is an executable that takes an interpreter's
arguments, first the path of our stub, then the descriptors, and hands them to its interpreter by `exec`. A compiled
stub works only with NVIDIA's server: it stays in place for the deployment, and our stub runs the model.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import sys
from pathlib import Path

from .interpreter import Interpreter, InterpreterError

NAME = "triton_python_backend_stub"

_SCRIPT = """\
#!/bin/sh
# Starts this model's stub with another Python. Written by: tritonlab stub --python {python}
# It is run as an interpreter is run: the path of tritonlab's stub comes first.
case "$1" in
    -*|*/{name}.py) exec {python} "$@" ;;
esac
echo "$0 starts tritonlab's stub. For a Triton server put a stub here that was compiled for the same Python." >&2
exit 1
"""


def find_own_stub(directory: Path, instance: str) -> str | None:
    """Return the path of `directory`'s stub, made executable; None if there is none, or one compiled for Triton."""
    path = directory / NAME
    if not path.exists() or is_compiled(path):
        return None
    if not os.access(path, os.X_OK):
        try:
            path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IXUSR)
        except OSError as error:
            raise InterpreterError(
                f"Failed to give execute permission to {NAME} in {path} {instance} Error No.: {error.errno}"
            ) from error
    return str(path)


def is_compiled(path: Path) -> bool:
    """Return whether the file is a compiled program rather than a script."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def python_of_compiled(path: Path) -> str:
    """Return the Python that a compiled stub was built for, such as 3.12; empty without a stub that is compiled."""
    if not path.exists() or not is_compiled(path):
        return ""
    found = re.search(rb"libpython(\d+\.\d+)\.so", path.read_bytes())
    return found[1].decode() if found else ""


def write_own_stub(directory: Path, python: str, *, force: bool = False) -> Path:
    """Write the stub that starts `python`, an absolute path; returns its path.

    Raises FileExistsError if the directory has another stub, unless `force`.
    """
    path = directory / NAME
    text = _SCRIPT.format(python=shlex.quote(python), name=NAME)
    if path.exists() and not force and not _is_ours(path):
        raise FileExistsError(f"{path} exists and was not written by tritonlab; --force replaces it")
    path.unlink(missing_ok=True)  # it may be a link, or a program that is running
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def run(directory: Path, python: str, force: bool = False) -> int:
    """Write one model's stub: `tritonlab stub`. Return the exit status. Raises OSError; then nothing was written."""
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a directory")
    # not resolved any further: the python of a virtual environment is a link, and must be started by that name
    path = os.path.abspath(shutil.which(python) or python)
    try:
        Interpreter(path).check()
    except InterpreterError as error:
        print(f"tritonlab: {error}", file=sys.stderr)
        return 1
    print(write_own_stub(directory, path, force=force))
    return 0


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return b"Written by: tritonlab stub" in file.read(400)
