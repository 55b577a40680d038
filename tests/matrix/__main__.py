"""`make matrix`: the built wheel in clean environments of each supported version, and the smoke suite in each.

    python -m tests.matrix [--write FILE] [ROW ...]

Each row is a Python and the versions that are pinned; the rest is the newest. The row `oldest` is a lock file with the
lowest version that pyproject.toml allows of each requirement, so that it is the same in every run of `.ci/run`:

    uv pip compile pyproject.toml --extra lab --resolution lowest-direct --only-binary :all: --python 3.11 \
        --no-annotate --no-header -o tests/matrix/oldest.txt

uv installs, because its resolver takes seconds where that of pip took more than 15 minutes (2 busy cores, November
2026). `--write` keeps the table that the documentation shows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.interpreters import VERSIONS, interpreters

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
BUILD = ROOT / "build" / "matrix"
#: Comes with the environment of `make matrix`.
UV = Path(sys.executable).with_name("uv")
ENVIRONMENT = {**os.environ, "UV_CACHE_DIR": str(BUILD / "cache")}
#: What the table tells of each environment.
PACKAGES = ("jupyterlab", "notebook", "ipykernel", "ipython", "numpy", "tritonclient", "protobuf", "grpcio")
COLOUR = re.compile(r"\x1b\[[\d;]*m")
SECONDS = 900


class Row(NamedTuple):
    """An environment: its Python, and the requirements that are pinned in it.

    lock: every package of it, a file beside this one.
    stubs: the Pythons of stubs that are tried there.
    in_notebook: whether the pins are there first, and the notebook's own `%pip install` brings the wheel.
    """

    python: str
    pins: Sequence[str] = ()
    lock: str = ""
    stubs: Sequence[str] = ()
    in_notebook: bool = False


ROWS = {
    "oldest": Row("3.11", lock="oldest.txt"),
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
    # what Google Colab's kernel has, as far as it meets tritonlab
    "colab": Row(
        "3.12",
        (
            "ipykernel==6.17.1",
            "ipython==7.34.0",
            "ipywidgets==7.7.1",
            "matplotlib==3.10.0",
            "notebook==6.5.7",
            "numpy==2.0.2",
            "traitlets==5.7.1",
        ),
        in_notebook=True,
    ),
}


class Failed(Exception):
    """The failure of a step of a row; the text is the end of what it printed."""


class Result(NamedTuple):
    """The outcome of a row: "passed", "not here: …" without such a Python, or why it failed; and what it had."""

    text: str
    seconds: float
    versions: dict[str, str]


def build_wheel() -> Path:
    """Build the wheel from the sources and return it."""
    shutil.rmtree(BUILD / "dist", ignore_errors=True)
    run([UV, "build", "-q", "--wheel", "--out-dir", BUILD / "dist", ROOT], BUILD)
    return next((BUILD / "dist").glob("*.whl"))


def try_row(row: Row, wheel: Path) -> Result:
    python = interpreters().get(row.python)
    if python is None:
        return Result(f"not here: no Python {row.python}; name one in TRITONLAB_TEST_PYTHONS", 0, {})
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="row-", dir=BUILD) as scratch:
        venv = Path(scratch) / "venv"
        versions: dict[str, str] = {}
        try:
            run([UV, "venv", "-q", "--seed", "--python", python, venv], scratch)
            install(row, wheel, venv)
            versions = versions_in(venv)
            stubs = [stub_python(Path(scratch), version) for version in row.stubs if version in interpreters()]
            install_cell = ["--install", wheel] if row.in_notebook else []
            run([venv / "bin" / "python", HERE / "smoke.py", *install_cell, scratch, *stubs], scratch)
            text = replaced(versions, versions_in(venv)) or "passed"
        except Failed as error:
            text = str(error)
        return Result(text, time.monotonic() - start, versions)


def install(row: Row, wheel: Path, venv: Path) -> None:
    """Install the wheel with its notebook half, or only what is there before a notebook installs it."""
    pip = [UV, "pip", "install", "-q", "--only-binary", ":all:", "--python", venv / "bin" / "python"]
    if row.lock:
        run([*pip, "-r", HERE / row.lock], BUILD)
        run([*pip, "--no-deps", wheel], BUILD)
    else:
        run([*pip, *([] if row.in_notebook else [f"{wheel}[lab]"]), *row.pins], BUILD)


def versions_in(venv: Path) -> dict[str, str]:
    found = run([UV, "pip", "list", "-q", "--format", "json", "--python", venv / "bin" / "python"], BUILD)
    return {package["name"]: package["version"] for package in json.loads(found)}


def replaced(before: dict[str, str], after: dict[str, str]) -> str:
    """Return what the notebook's installation changed of what its kernel had loaded, which would want a restart."""
    changed = [f"{name} {version}" for name, version in before.items() if after.get(name) != version]
    return f"replaced: {', '.join(changed)}" if changed else ""


def stub_python(scratch: Path, version: str) -> Path:
    """Make an environment of that Python with numpy and return its interpreter."""
    python = scratch / f"stub-{version}" / "bin" / "python"
    run([UV, "venv", "-q", "--python", interpreters()[version], python.parents[1]], scratch)
    run([UV, "pip", "install", "-q", "--python", python, "numpy"], scratch)
    return python


def run(command: Sequence[str | Path], directory: str | Path) -> str:
    """Return what the command printed; raise Failed with the end of it if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=directory, env=ENVIRONMENT)
    if done.returncode:
        printed = COLOUR.sub("", done.stdout + done.stderr).strip()
        raise Failed(printed[-1500:] or f"status {done.returncode}: {command[0]}")
    return done.stdout


def table(found: dict[str, Result]) -> str:
    """Return the results as the documentation shows them."""
    heading = (
        f"Run on {datetime.now(UTC):%Y-%m-%d} by `make matrix`, one row after the other, {os.cpu_count()} cores, "
        f"{platform.machine()}, glibc {platform.libc_ver()[1]}:"
    )
    lines = [heading, "", "| row | Python | with | result |", "|---|---|---|---|"]
    for name, result in found.items():
        had = " · ".join(f"{package} {result.versions[package]}" for package in PACKAGES if package in result.versions)
        text = f"passed, {result.seconds:.0f} s" if result.text == "passed" else result.text.splitlines()[-1]
        lines.append(f"| `{name}` | {ROWS[name].python} | {had} | {text} |")
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the results as a table of Markdown")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"all if none is named: {', '.join(ROWS)}")
    options = parser.parse_args(arguments)
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    BUILD.mkdir(parents=True, exist_ok=True)
    wheel = build_wheel()
    print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    found = {}
    for name in options.rows or ROWS:
        found[name] = result = try_row(ROWS[name], wheel)
        print(f"{name:<20} {result.seconds:4.0f} s  {result.text}", flush=True)
    if options.write:
        options.write.write_text(table(found), encoding="utf-8")
    return int(any(not result.text.startswith(("passed", "not here")) for result in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
