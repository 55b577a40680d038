"""What `make lab` and `make demo` would do on a machine that has nothing yet; nothing is run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Settings without which JupyterLab asks in a corner about news and cuts the names of files; tests/browser has them.
QUIET = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/filebrowser-extension:browser": {"showLastModifiedColumn": False},
}

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def commands(target: str, *settings: str) -> str:
    command = ["make", "--dry-run", target, *settings]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_lab_starts_as_any_user_and_opens_the_quickstart(tmp_path: Path) -> None:
    text = commands("lab", f"VENV={tmp_path}/venv", "LAB_ARGS=--ip=0.0.0.0")
    assert ("--allow-root" in text) == (os.getuid() == 0)
    assert "/lab/tree/00_quickstart.ipynb --ip=0.0.0.0" in text
    # the clone stays clean
    assert "copy(Path('notebooks'), Path('build/lab'))" in text and "--ServerApp.root_dir=build/lab " in text
    assert f"echo '{json.dumps(QUIET)}' > {tmp_path}/venv/share/jupyter/lab/settings/overrides.json" in text


@pytest.mark.parametrize("target", ["lab", "demo"])
def test_a_cold_start_says_what_it_installs_before_it_does(target: str, tmp_path: Path) -> None:
    text = commands(target, f"VENV={tmp_path}/venv")
    assert 0 < text.index("Installing JupyterLab, PyTorch") < text.index("minutes") < text.index("-m pip install -")


@pytest.mark.parametrize("status", [0, 3])
def test_most_lines_of_pip_go_to_its_log_only(status: int, tmp_path: Path) -> None:
    """A Python that plays pip: 120 packages in 243 lines."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    wheels = "; ".join(f"echo Collecting 'p{n}>=1'; echo '  Downloading p{n}-1.whl (2 MB)'" for n in range(120))
    ends = "echo 'Installing collected packages: p0, p1'; echo Successfully installed p0-1"
    python.write_text(f"#!/bin/sh\n{wheels}; {ends if not status else 'echo ERROR: no disk >&2'}; exit {status}\n")
    python.chmod(0o755)
    command = ["make", "--no-print-directory", f"VENV={tmp_path}", f"{tmp_path}/.lab"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    lines = found.stdout.splitlines()
    assert "50 of about 140 packages: p49" in lines
    assert len((tmp_path / "pip.log").read_text().splitlines()) == 241 + (2 if not status else 1)
    assert (found.returncode == 0, (tmp_path / ".lab").exists()) == (not status, not status)
    if status:
        assert "ERROR: no disk" in lines
    else:
        assert len(lines) < 12
        assert lines[-2:] == [f"Writing 120 packages to {tmp_path} ...", "120 packages are installed."]
