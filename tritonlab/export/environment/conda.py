"""An environment of conda's, packed by conda-pack (the extra `conda`), which knows the paths that conda wrote."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path

from ..child_command import Say, run_command
from .lock import EnvironmentRefused

_PACK = "import conda_pack, sys; conda_pack.pack(prefix=sys.argv[1], output=sys.argv[2], ignore_missing_files=True)"


def pack_conda(prefix: Path, archive: Path, say: Say, cancel: threading.Event) -> Path:
    """Pack a conda prefix into `archive`, a `.tar.gz`. Raises EnvironmentRefused where conda-pack is not installed."""
    if importlib.util.find_spec("conda_pack") is None:
        raise EnvironmentRefused(
            f"{prefix} is an environment of conda's, and packing it needs conda-pack", "pip install 'tritonlab[conda]'"
        )
    say(f"environment: conda-pack packs {prefix}")
    run_command([sys.executable, "-c", _PACK, str(prefix), str(archive)], cancel=cancel)
    return archive
