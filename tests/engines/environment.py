"""The environments of the engines, each of which has its own Python packages and this checkout on its path."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ROOT / "build" / "engines"


def python_of(engine: str) -> str:
    """Return the interpreter of `dynamo` or `ray`. `make engines` installs them."""
    return str(ENGINES / engine / "bin" / "python")


#: Ray gives its workers niceness 15 otherwise, and a replica waits for every other program of the machine.
_RAY = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}


def environment(*paths: Path, **more: str) -> Mapping[str, str]:
    """Return the variables of a process of an engine: those of this one without settings of Dynamo's, this checkout on
    its path behind `paths`, and `more`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DYN_")}
    return {**inherited, "PYTHONPATH": os.pathsep.join(map(str, (*paths, ROOT))), **_RAY, **more}
