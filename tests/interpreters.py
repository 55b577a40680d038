"""Other Pythons for the tests: one virtual environment with numpy per interpreter, made once and kept under build/.

TRITONLAB_TEST_PYTHONS names interpreters, separated by `:`; without it those of pyenv are used. A test that asks for a
version that cannot be had is skipped with the reason.
"""

from __future__ import annotations

import fcntl
import functools
import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "pythons"

#: The versions the stub is written for.
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")

_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


@functools.cache
def interpreters() -> dict[str, str]:
    """`3.9` -> path of an interpreter of that version that runs."""
    named = os.environ.get("TRITONLAB_TEST_PYTHONS")
    if named is not None:
        candidates = [path for path in named.split(":") if path]
    else:
        candidates = [str(p) for p in sorted((Path.home() / ".pyenv" / "versions").glob("3.*/bin/python"))]
    found = {}
    for path in candidates:
        done = subprocess.run([path, "-c", _VERSION], capture_output=True, text=True, timeout=30)
        if done.returncode == 0:
            found[done.stdout.strip()] = path
    return found


def environment(version: str) -> Path:
    """A virtual environment of that Python with numpy; skips the test if there is none."""
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
            [python, "-m", "venv", "--clear", str(made)],
            [str(made / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "numpy"],
        ):
            done = subprocess.run(command, capture_output=True, text=True, timeout=100)
            if done.returncode:
                pytest.skip(f"no environment of Python {version}: {(done.stderr or done.stdout).strip()[-300:]}")
        stamp.write_text(python)
        return made


def bare_environment(version: str) -> Path:
    """A virtual environment of that Python without numpy."""
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"no Python {version}: name one in TRITONLAB_TEST_PYTHONS")
    made = BUILD / f"{version}-bare"
    if not (made / "bin" / "activate").exists():
        subprocess.run([python, "-m", "venv", "--without-pip", str(made)], check=True, timeout=100)
    return made


#: As conda-pack's: it works wherever the environment lies. The newest peer does not execute it, 2.51 does (rule 2.10.4).
ACTIVATE = """\
export VIRTUAL_ENV="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export PATH="$VIRTUAL_ENV/bin:$PATH"
export FROM_ACTIVATE=yes
"""


def pack_environment(venv: Path, archive: Path, mode: str = "w:gz") -> Path:
    """A small archive of an environment like `venv`: its interpreter and configuration, and instead of its packages a
    .pth file that says where they are."""
    packages = next((venv / "lib").glob("python3.*/site-packages"))
    python = os.path.realpath(venv / "bin" / "python")
    with tarfile.open(archive, mode) as tar:
        for name, text in (
            ("bin/activate", ACTIVATE),
            ("pyvenv.cfg", (venv / "pyvenv.cfg").read_text()),
            (f"lib/{packages.parent.name}/site-packages/packages.pth", f"{packages}\n"),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
        for name, target in (("bin/python", python), ("bin/python3", "python")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return archive
