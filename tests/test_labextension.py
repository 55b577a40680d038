"""The bundles of the JupyterLab extension and of the live views are built from the committed sources.

`make check` builds them again, where there is node, and compares.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTENSION = ROOT / "extension"
BUNDLE = ROOT / "tritonlab" / "labextension"
VIEWS = ROOT / "tritonlab" / "notebook" / "static"


def files(folder: Path) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.splitlines()] or [p for p in folder.rglob("*") if p.is_file()]


def test_the_bundle_is_built_from_these_sources() -> None:
    names = [".yarnrc.yml", "bundleViews.mjs", "package.json", "tsconfig.json", "webpack.config.cjs", "yarn.lock"]
    names.append("../tritonlab/notebook/static/theme.css")
    below = (path for folder in ("schema", "src", "style") for path in (EXTENSION / folder).rglob("*"))
    names += [path.relative_to(EXTENSION).as_posix() for path in below if path.is_file()]
    total = hashlib.sha256()
    for name in sorted(names):
        total.update(f"{name}\0".encode() + (EXTENSION / name).read_bytes() + b"\0")
    stamp = (BUNDLE / "sources.sha256").read_text().strip()
    assert stamp == total.hexdigest(), "run `make extension` and commit what it changes"


def test_what_the_bundle_loads_is_there() -> None:
    load = json.loads((BUNDLE / "package.json").read_text())["jupyterlab"]["_build"]["load"]
    assert (BUNDLE / load).is_file()


def views() -> set[str]:
    """Return the modules that views of the package use."""
    named = re.compile(r'^    MODULE = "(\w+)\.js"$|module_text\("(\w+)\.js"\)', re.MULTILINE)
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tritonlab").rglob("*.py")]
    return {"".join(found) for text in texts for found in named.findall(text)}


def test_every_view_has_its_module_as_one_text() -> None:
    """anywidget makes a blob of the text, and a blob cannot import modules of ours."""
    built = {path.stem: path.read_text(encoding="utf-8") for path in VIEWS.glob("*.js")}
    assert sorted(built) == sorted(views())
    for name, text in built.items():
        assert re.search(r"export\s*\{\s*\w+ as default\s*\};?\s*$", text), name
        assert not re.search(r"\bimport\b", text), name
        assert str(ROOT) not in text, name


def test_no_file_names_a_package_registry() -> None:
    host = re.compile(r"\bregistry\.[\w.-]+|\"resolved\"|archiveUrl|npmRegistryServer|index-url|yarnpkg\.com")
    for path in [*files(EXTENSION), *files(BUNDLE), *files(VIEWS)]:
        if not {"node_modules", "media"} & set(path.parts):
            found = host.search(path.read_text(encoding="utf-8"))
            assert found is None, f"{path}: {found and found[0]}"
