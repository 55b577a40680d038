"""The documentation: it is built without a warning, its links lead somewhere, and nothing public is left out."""

from __future__ import annotations

import json
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
        flag.name for flags in GROUPS.values() for flag in flags if f"--{flag.name}<" not in reference["command-line"]
    ] == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loads = re.compile(r'<script[^>]*src="https?:|<link[^>]*rel="stylesheet"[^>]*href="https?:')
    pages = [page.name for page in site.rglob("*.html") if loads.search(page.read_text(encoding="utf-8"))]
    assert pages == []


def test_each_verdict_has_its_picture(site: Path) -> None:
    page = (site / "explanation" / "what-a-verdict-means.html").read_text()
    assert page.count("<div class='verdict-picture'><svg role='img'") == len(re.findall("<h2>", page)) == 7


#: What a user types, and the page that answers it.
QUERIES = {
    "dynamic batching": "how-to/25_batching",
    "why is my batch not full": "how-to/25_batching",
    "find the best batch size": "how-to/26_tuning",
    "load test": "how-to/26_tuning",
    "debug a model": "how-to/75_debugging",
    "breakpoint": "how-to/75_debugging",
    "unit test model.py": "how-to/80_testing_a_model",
    "call another model": "how-to/30_calling_other_models",
    "stream tokens": "how-to/45_streams",
    "decoupled": "how-to/40_many_responses",
    "openai chat": "how-to/95_openai",
    "export docker": "how-to/92_deploying",
    "kubernetes": "how-to/92_deploying",
    "conda environment": "how-to/92_deploying",
    "use a gpu": "how-to/82_gpus",
    "custom metric": "how-to/55_metrics",
    "token for clients": "how-to/90_serving",
    "curl": "how-to/90_serving",
    "resize images": "how-to/60_image_pipeline",
    "ensemble": "how-to/65_ensembles",
    "open an existing model repository": "how-to/63_opening_a_repository",
    "pytorch weights": "how-to/10_numpy_and_pytorch",
    "config.pbtxt": "how-to/20_configuration",
    "memory leak": "how-to/78_checking_a_model",
    "what differs from triton": "explanation/differences",
    "model state unavailable": "reference/states",
}


def test_what_users_type_finds_its_page_among_the_first_three(site: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node, which runs the site's own search")
    program = ROOT / "tests" / "search_pages.mjs"
    done = subprocess.run([node, program, site, *QUERIES], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {query: pages[:3] for query, pages in found.items() if QUERIES[query] not in pages[:3]} == {}


def test_every_how_to_page_is_a_notebook_that_is_run(site: Path) -> None:
    pages = {page.stem for page in (site / "how-to").glob("*.html")} - {"index"}
    notebooks = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} - {"00_quickstart"}
    assert pages == notebooks


def test_its_search_needs_no_server(site: Path) -> None:
    """The index is a script, not something to be fetched, which browsers refuse for files."""
    assert (site / "searchindex.js").read_text(encoding="utf-8").startswith("Search.setIndex(")
