"""`make matrix`: the built wheel in clean environments of each supported version, and the smoke suite in each.

    python -m tests.matrix [ROW ...]

Each row is a Python and the versions that are pinned; the rest is the newest that pip finds. The table is printed and
written to build/matrix.json; the documentation's page of supported versions shows what was proved.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.interpreters import VERSIONS, interpreters

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "matrix"
SMOKE = Path(__file__).with_name("smoke.py")


class Row(NamedTuple):
    """One environment: its Python, and the requirements that are pinned in it. `stubs`: the Pythons of stubs that are
    tried there."""

    python: str
    pins: Sequence[str] = ()
    stubs: Sequence[str] = ()


ROWS = {
    "oldest": Row(
        "3.11",
        (
            "anywidget==0.9.18",
            "grpcio==1.67.0",
            "httptools==0.6.3",
            "ipykernel==6.31.0",
            "ipywidgets==8.1.0",
            "jupyterlab==4.4.0",
            "matplotlib==3.8.0",
            "numpy==1.26.4",
            "packaging==24.0",
            "protobuf==5.28.0",
            "python-rapidjson==1.9",
            "tritonclient==2.54.0",
            "uvloop==0.21.0",
        ),
    ),
    "3.11": Row("3.11", stubs=VERSIONS),
    "3.12": Row("3.12"),
    "3.13": Row("3.13"),
    "3.14": Row("3.14"),
    "jupyterlab-4.5": Row("3.12", ("jupyterlab~=4.5.0",)),
    "notebook-7.4": Row("3.12", ("notebook~=7.4.0",)),
    "notebook-7": Row("3.12", ("notebook>=7.5",)),
    "ipykernel-6": Row("3.12", ("ipykernel<7",)),
    "numpy-1.26": Row("3.12", ("numpy==1.26.4",)),
    "numpy-2.0": Row("3.12", ("numpy~=2.0.0",)),
    "tritonclient-2.59": Row("3.12", ("tritonclient==2.59.0",)),
}


def build_wheel() -> Path:
    """Build the wheel from the sources and return it."""
    shutil.rmtree(BUILD / "dist", ignore_errors=True)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "-w", str(BUILD / "dist"), str(ROOT)], check=True)
    return next((BUILD / "dist").glob("*.whl"))


def try_row(row: Row, wheel: Path) -> str:
    """Return "passed", or why not, "not here: …" if there is no such Python."""
    python = interpreters().get(row.python)
    if python is None:
        return f"not here: no Python {row.python}; name one in TRITONLAB_TEST_PYTHONS"
    with tempfile.TemporaryDirectory(prefix="matrix-", dir=BUILD) as scratch:
        venv = Path(scratch) / "venv"
        subprocess.run([python, "-m", "venv", str(venv)], check=True)
        run([str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--upgrade", "pip"], scratch)
        installed = run([str(venv / "bin" / "pip"), "install", "-q", f"{wheel}[lab]", *row.pins], scratch)
        if installed is not None:
            return f"cannot be installed: {installed}"
        stubs = []
        for version in row.stubs:
            if version in interpreters():
                stubs.append(stub_python(Path(scratch), version))
        failed = run([str(venv / "bin" / "python"), str(SMOKE), scratch, *stubs], scratch)
        return failed or "passed"


def stub_python(scratch: Path, version: str) -> str:
    """Make an environment of that Python with numpy and return its interpreter."""
    place = scratch / f"stub-{version}"
    subprocess.run([interpreters()[version], "-m", "venv", str(place)], check=True)
    subprocess.run([str(place / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", "numpy"], check=True)
    return str(place / "bin" / "python")


def run(command: Sequence[str], directory: str) -> str | None:
    """Run it and return None, or the end of what it printed if it failed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=directory)
    return None if done.returncode == 0 else (done.stdout + done.stderr).strip()[-1500:] or f"status {done.returncode}"


def main(names: Sequence[str]) -> int:
    BUILD.mkdir(parents=True, exist_ok=True)
    wheel = build_wheel()
    print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    found = {}
    for name in names or ROWS:
        start = time.monotonic()
        found[name] = try_row(ROWS[name], wheel)
        print(f"{name:<20} {time.monotonic() - start:4.0f} s  {found[name]}", flush=True)
    (BUILD.parent / "matrix.json").write_text(json.dumps(found, indent=1))
    return int(any(not text.startswith(("passed", "not here")) for text in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
