"""The stores of the views, in node: no browser, no page."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = sorted(Path(__file__).parent.glob("*.test.mjs"))


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine")
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_a_store(path: Path) -> None:
    run = subprocess.run(["node", "--no-warnings", "--test", str(path)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
