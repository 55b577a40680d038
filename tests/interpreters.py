"""Other Pythons for the tests: one virtual environment with numpy per interpreter, made once and kept under build/.

A test that asks for a version that cannot be had is skipped with the reason.
"""

from __future__ import annotations

import fcntl
import functools
import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "pythons"
#: It installs in a fifth of the processor time that pip takes, if `make test` has brought it.
UV = ROOT / "build" / "matrix" / "tools" / "bin" / "uv"

#: The versions the stub is written for.
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")

_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def candidates() -> list[str]:
    """Return the interpreters of TRITONLAB_TEST_PYTHONS (paths, separated as in PATH), of pyenv, and on PATH."""
    named = [path for path in os.environ.get("TRITONLAB_TEST_PYTHONS", "").split(os.pathsep) if path]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return [*named, *(str(p) for p in sorted(pyenv.glob("3.*/bin/python"))), *(f"python{v}" for v in VERSIONS)]


@functools.cache
def interpreters() -> dict[str, str]:
    """Return an interpreter that runs for each version, such as `3.9`; the first found counts."""
    found: dict[str, str] = {}
    for python in candidates():
        path = shutil.which(python)
        if path is None:
            continue
        done = subprocess.run([path, "-c", _VERSION], capture_output=True, text=True, timeout=30, cwd="/")
        if done.returncode == 0:  # a version manager's placeholder fails
            found.setdefault(done.stdout.strip(), path)
    return found


def environment(version: str) -> Path:
    """Return a virtual environment of that Python with numpy; skip the test if there is none."""
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"no Python {version}: name one in TRITONLAB_TEST_PYTHONS")
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / f"{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test runs may share the checkout
        made = BUILD / version
        stamp = made / ".made-with"
        if stamp.exists() and stamp.read_text() == python:
            return made
        for command in (
            [python, "-m", "venv", "--clear", "--without-pip", str(made)],
            _installer(made, version),
            [str(made / "bin" / "python"), "-c", "import numpy"],
        ):
            variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "UV_CACHE_DIR": str(UV.parents[2] / "cache")}
            done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=variables)
            if done.returncode:
                pytest.skip(f"no environment of Python {version}: {(done.stderr or done.stdout).strip()[-300:]}")
        stamp.write_text(python)
        return made


def _installer(made: Path, version: str) -> list[str]:
    """Return the command that installs numpy into a virtual environment, which has no pip of its own: to install that
    takes 3 s."""
    if UV.exists():
        return [str(UV), "pip", "install", "-q", "--python", str(made), "--only-binary=:all:", "numpy"]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
    site = made / "lib" / f"python{version}" / "site-packages"
    return [*pip, "--only-binary=:all:", f"--python-version={version}", f"--target={site}", "numpy"]


def bare_environment(version: str) -> Path:
    """Return a virtual environment of that Python without numpy."""
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"no Python {version}: name one in TRITONLAB_TEST_PYTHONS")
    made = BUILD / f"{version}-bare"
    if not (made / "bin" / "activate").exists():
        subprocess.run([python, "-m", "venv", "--without-pip", str(made)], check=True, timeout=100)
    return made


#: As that of conda-pack, it works wherever it lies. The newest Triton does not execute it, 2.51 does (rule 2.10.4).
ACTIVATE = """\
export VIRTUAL_ENV="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export PATH="$VIRTUAL_ENV/bin:$PATH"
export FROM_ACTIVATE=yes
"""


def pack_environment(venv: Path, archive: Path, mode: str = "w:gz", *, packages: bool = True, mark: str = "") -> Path:
    """Write a small archive of an environment like `venv`: its interpreter and configuration, and instead of its
    packages a .pth file that says where they are, unless it shall have none. `mark` is the text of a file of that name.
    """
    site = next((venv / "lib").glob("python3.*/site-packages"))
    python = os.path.realpath(venv / "bin" / "python")
    with tarfile.open(archive, mode) as tar:
        for name, text in (
            ("bin/activate", ACTIVATE),
            ("pyvenv.cfg", (venv / "pyvenv.cfg").read_text()),
            ("mark", mark),
            (f"lib/{site.parent.name}/site-packages/packages.pth", f"{site}\n" if packages else ""),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
        for name, target in (("bin/python", python), ("bin/python3", "python")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return archive
