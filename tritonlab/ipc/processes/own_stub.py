"""A model may bring its own stub, `<model directory>/triton_python_backend_stub`, which is preferred (rule 2.10.6).

In Triton it is the same program compiled for another Python. Here it is an executable that takes an interpreter's
arguments: first the path of our stub, then the descriptors. It hands them to its interpreter by `exec`.
"""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from .interpreter import InterpreterError

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
    """Return the path of the stub in `directory`, made executable; None if there is none.

    Raises InterpreterError for one that was compiled for Triton. Falling back to our own interpreter would run the
    model with another Python than its author chose.
    """
    path = directory / NAME
    if not path.exists():
        return None
    if is_compiled(path):
        raise InterpreterError(
            f"'{path}' is compiled and speaks only with NVIDIA's server. tritonlab's stub is source and runs with any "
            f"Python: replace the file by `python -m tritonlab stub --force --python <the same Python> {directory}`, "
            "and keep this one for the deployment."
        )
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


def write_own_stub(directory: Path, python: str, *, force: bool = False) -> Path:
    """Write the stub that starts `python`, an absolute path; returns its path.

    Raises FileExistsError if the directory has another one, unless `force`.
    """
    path = directory / NAME
    text = _SCRIPT.format(python=shlex.quote(python), name=NAME)
    if path.exists() and not force and not _is_ours(path):
        raise FileExistsError(f"{path} exists and was not written by tritonlab; --force replaces it")
    path.unlink(missing_ok=True)  # it may be a link, or a program that is running
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return b"Written by: tritonlab stub" in file.read(400)
