"""The author's module in every Python that a model may bring: each one found here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interpreters import VERSIONS, environment
from tritonlab.stub import triton_python_backend_utils

STUB = Path(triton_python_backend_utils.__file__).parent
CHECK = Path(__file__).with_name("self_check.py")


@pytest.mark.rule("1.1.3")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_module_works_on(version: str) -> None:
    done = subprocess.run(
        [str(environment(version) / "bin" / "python"), "-W", "error", "-X", "dev", str(CHECK), str(STUB)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
    )
    assert (done.returncode, done.stdout.splitlines()[-1:], done.stderr) == (0, ["ok"], "")
