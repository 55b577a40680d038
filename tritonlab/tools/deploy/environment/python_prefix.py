"""The Python installations of this machine, and which of them can be copied to another machine.

Triton's stub embeds a Python: it needs libpython, and the standard library next to the first `python3` on PATH. A whole
CPython prefix, such as pyenv's and uv's, works in any place. A virtual environment does not: it has no interpreter and
no standard library, only links to the machine where it was made. Measured on Triton 2.51: a packed venv "works" while
the original exists, and answers `No module named 'numpy'` once the original is hidden.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PROBE = """
import json, sys, sysconfig as s
v = s.get_config_vars()
print(json.dumps(["%d.%d" % sys.version_info[:2], sys.base_prefix, v.get("LIBDIR") or "", v.get("INSTSONAME") or "",
    s.get_path("stdlib"), "%d.%d.%d" % sys.version_info[:3]]))
"""
_PROBE_SECONDS = 30.0


class Python(NamedTuple):
    """An installed Python: its version (`3.11`), prefix, executable, libpython and standard library."""

    version: str
    prefix: Path
    executable: Path
    libpython: Path
    standard_library: Path
    full_version: str

    @property
    def why_not_relocatable(self) -> str:
        """The reason why this Python cannot be copied to another machine; empty if it can."""
        if self.prefix == Path("/usr"):
            return f"{self.executable} is the system's Python, whose parts are spread over /usr"
        if self.standard_library != self.prefix / "lib" / f"python{self.version}":
            return f"the standard library of {self.executable} is {self.standard_library}, not in its prefix"
        if not self.libpython.is_file() or self.libpython.parent != self.prefix / "lib":
            return f"{self.prefix} has no lib/libpython{self.version}.so, which Triton's stub needs"
        return ""


@functools.cache
def probe(executable: str) -> Python | None:
    """Return the interpreter's description of itself; None for a file that is not a Python that runs here."""
    try:
        done = subprocess.run(
            [executable, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_SECONDS, cwd="/"
        )
        version, prefix, libdir, library, stdlib, full = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    root = Path(prefix)
    found = root / "bin" / f"python{version}"
    return Python(
        version,
        prefix=root,
        executable=found if found.exists() else Path(executable),
        # a moved prefix still names the place of its build
        libpython=next(
            (path for path in (root / "lib" / library, Path(libdir) / library) if path.is_file()), root / "lib" / "-"
        ),
        standard_library=Path(stdlib),
        full_version=full,
    )


def find_python(version: str) -> Python | None:
    """Return a Python of that version, `3.11`: this process's, pyenv's or one on PATH; one that can be copied is
    preferred. None if this machine has none."""
    found = [python for name in _candidates(version) if (python := probe(name)) and python.version == version]
    return next((python for python in found if not python.why_not_relocatable), found[0] if found else None)


def own_python() -> Python:
    """Return the Python that runs this process."""
    found = probe(sys.executable)
    assert found is not None, f"{sys.executable} does not run"
    return found


def _candidates(version: str) -> Iterator[str]:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        yield sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    yield from (str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python{version}")))
    if on_path := shutil.which(f"python{version}"):
        yield on_path


def python_of_prefix(prefix: Path) -> str:
    """Return the version of the Python in an environment's directory, `3.11`; empty if it has none."""
    found = sorted((prefix / "lib").glob("python3.*/os.py"))
    return found[0].parent.name.removeprefix("python") if found else ""


def kind_of_prefix(prefix: Path) -> str:
    """Return `venv`, `conda`, `prefix` or, for other directories, an empty text."""
    if (prefix / "pyvenv.cfg").exists():
        return "venv"
    if (prefix / "conda-meta").is_dir():
        return "conda"
    return "prefix" if python_of_prefix(prefix) and (prefix / "bin").is_dir() else ""


def why_refused(prefix: Path, what: str = "") -> str:
    """Return why a directory cannot be shipped as an environment; empty if it can. `what`: the directory's name in the
    sentence."""
    kind, what = kind_of_prefix(prefix), what or str(prefix)
    if kind == "venv":
        return venv_refusal((prefix / "pyvenv.cfg").read_text(errors="replace"), what)
    if not kind:
        return f"{what} is not a Python environment: it has no bin/ with a standard library in lib/python3.*"
    if kind == "prefix" and not list((prefix / "lib").glob("libpython3.*.so*")):
        return f"{what} has no lib/libpython3.*.so, which Triton's stub needs"
    return ""


def venv_refusal(config: str, what: str) -> str:
    """Return why a virtual environment cannot be shipped. `config`: the text of its pyvenv.cfg."""
    settings = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in config.splitlines())}
    return (
        f"{what} is a virtual environment: it has no interpreter and no standard library of its own, only links "
        f"to {settings.get('home', 'another directory')}, which the target does not have. There it fails with "
        "\"No module named 'numpy'\", or silently runs with the target's own packages"
    )
