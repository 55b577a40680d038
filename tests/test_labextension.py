"""The built bundle of the JupyterLab extension is what its sources say, and reaches the wheel.

What needs node runs where there is one; `make check` builds the bundle anew and compares.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTENSION = ROOT / "extension"
BUNDLE = ROOT / "tritonlab" / "labextension"


def files(folder: Path) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.splitlines()] or [p for p in folder.rglob("*") if p.is_file()]


def test_the_bundle_is_built_from_these_sources() -> None:
    names = [".yarnrc.yml", "package.json", "tsconfig.json", "webpack.config.cjs", "yarn.lock"]
    names += [f"{folder}/{p.name}" for folder in ("schema", "src", "style") for p in (EXTENSION / folder).iterdir()]
    total = hashlib.sha256()
    for name in sorted(names):
        total.update(f"{name}\0".encode() + (EXTENSION / name).read_bytes() + b"\0")
    stamp = (BUNDLE / "sources.sha256").read_text().strip()
    assert stamp == total.hexdigest(), "run `make extension` and commit tritonlab/labextension"


def test_it_has_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for package in (EXTENSION / "package.json", BUNDLE / "package.json"):
        assert json.loads(package.read_text())["version"] == version


def test_what_the_bundle_loads_is_there() -> None:
    load = json.loads((BUNDLE / "package.json").read_text())["jupyterlab"]["_build"]["load"]
    assert (BUNDLE / load).is_file()


def test_no_file_names_a_package_registry() -> None:
    host = re.compile(r"\bregistry\.[\w.-]+|\"resolved\"|archiveUrl|npmRegistryServer|index-url|yarnpkg\.com")
    for path in [*files(EXTENSION), *files(BUNDLE)]:
        if not {"node_modules", "media"} & set(path.parts):
            found = host.search(path.read_text(encoding="utf-8"))
            assert found is None, f"{path}: {found and found[0]}"
