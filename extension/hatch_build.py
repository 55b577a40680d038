"""The build of the JupyterLab extension and the live views for a wheel, where that is needed and there is node.

The bundles are committed, so that a clone can be installed without node. `sources.sha256` is a sum over their sources
(`stamp.mjs`), because the times of files in a clone mean nothing.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
STAMP = HERE.parent / "tritonlab" / "labextension" / "sources.sha256"
FILES = (".yarnrc.yml", "package.json", "bundleViews.mjs", "tsconfig.json", "webpack.config.cjs", "yarn.lock")
FILES += ("../tritonlab/notebook/static/theme.css",)
FOLDERS = ("schema", "src", "style")


def sources_sha256(extension: Path = HERE) -> str:
    """Return the sum over the sources of the bundles, as `stamp.mjs` does."""
    below = (path for folder in FOLDERS for path in (extension / folder).rglob("*") if path.is_file())
    files = [*FILES, *(path.relative_to(extension).as_posix() for path in below)]
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(f"{file}\0".encode() + (extension / file).read_bytes() + b"\0")
    return total.hexdigest()


class BundleHook(BuildHookInterface):
    """Runs before a wheel or an editable install is made."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if STAMP.is_file() and STAMP.read_text().strip() == sources_sha256():
            return
        if shutil.which("node") is None:
            state = "is older than its sources" if STAMP.is_file() else "is missing"
            self.app.display_warning(f"The bundle of the JupyterLab extension {state}; there is no node to build it")
            return
        for command in (["jlpm", "install", "--immutable"], ["jlpm", "build"]):
            subprocess.run(command, cwd=HERE, check=True)
