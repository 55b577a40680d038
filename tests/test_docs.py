"""The documentation: it is built without a warning, its links lead somewhere, and nothing public is left out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import tritonlab
import tritonlab.testing
import tritonlab.tritonserver as tritonserver
from tritonlab.frontends.cli.flags import GROUPS
from tritonlab.tool_table import magic_commands

#: It reads some hundred pages and every docstring: 20 s of a free machine.
pytestmark = pytest.mark.timeout(400)
ROOT = Path(__file__).resolve().parents[1]


class Links(HTMLParser):
    """The links of a page, and the anchors that it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors.update(filter(None, (found.get("id"), found.get("name"))))
        self.links += [link for name in ("href", "src") if (link := found.get(name))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site from a copy of its sources, because pages are written beside them."""
    place = tmp_path_factory.mktemp("docs")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("docs", "extension/media"):
        shutil.copytree(ROOT / name, place / name, ignore=ignored)
    for name in ("CONTRIBUTING.md", "SECURITY.md"):
        shutil.copyfile(ROOT / name, place / name)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", place / "docs", place / "site"]
    environment = {**os.environ, "TRITONLAB_DOCS_EXECUTE": "off", "PYTHONWARNINGS": "default"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=380, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return place / "site"


def test_every_link_leads_somewhere(site: Path) -> None:
    pages = {page: Links(page) for page in site.rglob("*.html") if "_static" not in page.parts}
    assert len(pages) > 80
    broken = []
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            anchors = pages[target].anchors if target in pages else None
            if not target.exists() or (parts.fragment and anchors is not None and parts.fragment not in anchors):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


@pytest.mark.parametrize(
    ("page", "module", "names"),
    [
        ("api", "tritonlab", [*tritonlab.__all__, "open"]),
        ("testing", "tritonlab.testing", [name for name in tritonlab.testing.__all__ if name != "MS"]),
        ("tritonserver", "tritonlab.tritonserver", sorted({*tritonserver.__all__} - {"TritonError", "__version__"})),
        ("ray", "tritonlab.ray", ["make_application", "application", "map_batches"]),
        ("in-a-model", "triton_python_backend_utils", ["Tensor", "InferenceRequest", "Logger", "get_model_dir"]),
    ],
)
def test_nothing_public_is_left_out(site: Path, page: str, module: str, names: list[str]) -> None:
    anchors = Links(site / "reference" / f"{page}.html").anchors
    assert [name for name in names if f"{module}.{name}" not in anchors] == []


def test_what_calls_return_is_described(site: Path) -> None:
    anchors = Links(site / "reference" / "returned.html").anchors
    returned = ("CheckResult", "Endpoints", "ExportReport", "KeptFailure", "LoadResult", "LogRecord", "TuneResult")
    assert [name for name in returned if name.lower() not in anchors] == []
    assert {"inferenceserver", "loadedmodel", "modelstub"}.isdisjoint(anchors)  # what only the server has


def test_every_command_and_flag_is_on_its_page(site: Path) -> None:
    reference = {name: (site / "reference" / f"{name}.html").read_text() for name in ("magics", "command-line")}
    anchors = {name: f'id="triton-{name.replace("_", "-")}"' for name in magic_commands()}
    assert [name for name, anchor in anchors.items() if anchor not in reference["magics"]] == []
    assert [
        flag.name for group in GROUPS for flag in group.flags if f"--{flag.name}<" not in reference["command-line"]
    ] == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loads = re.compile(r'<script[^>]*src="https?:|<link[^>]*rel="stylesheet"[^>]*href="https?:')
    pages = [page.name for page in site.rglob("*.html") if loads.search(page.read_text(encoding="utf-8"))]
    assert pages == []


def test_each_verdict_has_its_picture(site: Path) -> None:
    page = (site / "explanation" / "what-a-verdict-means.html").read_text()
    assert page.count("<div class='verdict-picture'><svg role='img'") == len(re.findall("<h2>", page)) == 6


def test_its_search_needs_no_server(site: Path) -> None:
    """The index is a script, not something to be fetched, which browsers refuse for files."""
    assert (site / "searchindex.js").read_text(encoding="utf-8").startswith("Search.setIndex(")
