"""The author's module in every Python that a model may bring: each one found here that has numpy."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tritonlab.stub import triton_python_backend_utils

STUB = Path(triton_python_backend_utils.__file__).parent
CHECK = Path(__file__).with_name("self_check.py")
VERSIONS = ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13"]


def candidates() -> list[str]:
    """Interpreters named in TRITONLAB_TEST_PYTHONS (paths, separated as in PATH), those of pyenv, those on PATH."""
    named = [path for path in os.environ.get("TRITONLAB_TEST_PYTHONS", "").split(os.pathsep) if path]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(str(path) for path in pyenv.glob("3.*/bin/python"))
    return [*named, *found, *(f"python{version}" for version in VERSIONS)]


def version_with_numpy(python: str) -> str:
    """`3.8` if `python` is an interpreter of that version with numpy, else nothing."""
    script = "import sys, numpy; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=60, cwd="/")
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


@pytest.fixture(scope="module")
def interpreters() -> dict[str, str]:
    """One interpreter with numpy for each version; the first found counts."""
    found: dict[str, str] = {}
    for python in candidates():
        if version := version_with_numpy(python):
            found.setdefault(version, python)
    return found


@pytest.mark.rule("1.1.3")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_module_works_on(version: str, interpreters: dict[str, str]) -> None:
    if version not in interpreters:
        pytest.skip(f"no Python {version} with numpy here; name one in TRITONLAB_TEST_PYTHONS")
    done = subprocess.run(
        [interpreters[version], "-W", "error", "-X", "dev", str(CHECK), str(STUB)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
    )
    assert (done.returncode, done.stdout.splitlines()[-1:], done.stderr) == (0, ["ok"], "")
