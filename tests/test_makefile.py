"""What `make lab` and `make demo` would do on a machine that has nothing yet; nothing is run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Settings without which JupyterLab asks in a corner about news; tests/browser has them and sees no toast.
QUIET = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def commands(target: str, *settings: str) -> str:
    command = ["make", "--dry-run", target, *settings]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_lab_starts_as_any_user_and_opens_the_quickstart(tmp_path: Path) -> None:
    text = commands("lab", f"VENV={tmp_path}/venv", "LAB_ARGS=--ip=0.0.0.0")
    assert ("--allow-root" in text) == (os.getuid() == 0)
    assert "/lab/tree/00_quickstart.ipynb --ip=0.0.0.0" in text
    # the clone stays clean
    assert "cp -n notebooks/*.ipynb" in text and "--ServerApp.root_dir=build/lab " in text
    assert f"echo '{json.dumps(QUIET)}' > {tmp_path}/venv/share/jupyter/lab/settings/overrides.json" in text


@pytest.mark.parametrize("target", ["lab", "demo"])
def test_a_cold_start_says_what_it_installs_before_it_does(target: str, tmp_path: Path) -> None:
    text = commands(target, f"VENV={tmp_path}/venv")
    assert 0 < text.index("Installing JupyterLab, PyTorch") < text.index("minutes") < text.index("-m pip install -")
