"""What a notebook stores of each view and result: a picture with its data, its words and its date."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest

from tests.models import cell, counts, streams

ECHO = cell(
    "echo --max-batch-size 4 --input X:FP32[1] --output Y:FP32[1] --quiet", counts("rows_total", reads="X", writes="Y")
)
TICKS = cell(
    "ticks --decoupled --input X:FP32[1] --output Y:FP32[1] --quiet",
    streams("x", over="range(3)", reads="X", writes="Y"),
)
USE = "for n in range(4):\n    echo(X=[[1.0]])\nlist(ticks.infer(inputs={'X': [1.0]}))"
#: The cell of each kind, and the begin of its alternative text.
KINDS = {
    "timeline": ("echo.view('timeline')", "Timeline of echo: "),
    "metrics": ("echo.view('metrics')", "Custom metrics: 1 label set."),
    "memory": ("echo.view('memory')", "Memory of echo: "),
    "graph": ("echo.view('graph')", "Graph of echo: request "),
    "streams": ("ticks.view('streams')", "Streams of ticks: 1 ended"),
    "what_if": ("echo.what_if(instances=2)", "What if echo had "),
    "load_test": (
        "echo.load_test(concurrency=[1, 2], seconds=0.3, warmup=0.1, inputs={'X': [[1.0]]})",
        "Load test of echo, in this kernel",
    ),
}
DATE = re.compile(r"at \d\d:\d\d:\d\d, \d\d \w{3} \d{4}")


class Images(HTMLParser):
    """The attributes of the images in a page that have our class, or all of an output."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []
        self.tags: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "img":
            self.found.append({name: value or "" for name, value in attrs})


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    preprocessors = pytest.importorskip("nbconvert.preprocessors")
    sources = ["%load_ext tritonlab", ECHO, TICKS, USE, *(source for source, _ in KINDS.values())]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    folder = tmp_path_factory.mktemp("stored")
    preprocessors.ExecutePreprocessor(timeout=120, kernel_name="python3").preprocess(
        notebook, {"metadata": {"path": str(folder)}}
    )
    return notebook


def stored(notebook: Any, kind: str) -> dict[str, str]:
    """Return the last output with HTML of the cell of a kind: a load test has that of its progress before."""
    (cell,) = (cell for cell in notebook.cells if cell.source == KINDS[kind][0])
    found = [output["data"] for output in cell.outputs if output.get("data", {}).get("text/html")]
    return {name: "".join(text) for name, text in found[-1].items() if isinstance(text, str)}


@pytest.mark.parametrize("kind", KINDS)
def test_the_stored_picture_is_an_image_with_its_words_and_date(notebook: Any, kind: str) -> None:
    data = stored(notebook, kind)
    page = Images(data["text/html"])
    assert not page.tags & {"svg", "path", "text"}
    image = page.found[0]
    assert image["alt"].startswith(KINDS[kind][1]) and data["text/plain"].startswith(KINDS[kind][1])
    assert DATE.fullmatch(image["title"])
    assert image["title"] in data["text/html"].replace(f"title='{image['title']}'", "")  # and where it can be read
    kind_of, picture = image["src"].split(",", 1)
    assert kind_of == "data:image/svg+xml;base64"
    marks = {one.tag.rpartition("}")[2] for one in ElementTree.fromstring(base64.b64decode(picture)).iter()}
    assert marks & {"path", "polyline", "rect"} and "text" in marks


def test_a_page_of_nbconvert_has_the_pictures(notebook: Any) -> None:
    nbconvert = pytest.importorskip("nbconvert")
    page, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    images = {image["alt"]: image for image in Images(page).found}
    for kind, (_, begin) in KINDS.items():
        (wanted,) = Images(stored(notebook, kind)["text/html"]).found[:1]
        (image,) = (image for alt, image in images.items() if alt.startswith(begin))
        assert image["src"] == wanted["src"] and image["title"] == wanted["title"]


def test_what_a_sanitized_page_of_nbconvert_keeps_are_the_words_and_the_date(notebook: Any) -> None:
    # its list of elements for HTML (bleach's, and few more) has no image: what is not on it is shown as source text
    nbconvert = pytest.importorskip("nbconvert")
    page, _ = nbconvert.HTMLExporter(sanitize_html=True).from_notebook_node(notebook)
    assert re.search(r"Timeline of echo: [\d,]+ requests in [\d,]+ batches", page)
    assert len(DATE.findall(page)) >= 2 * len(KINDS)
    assert "&lt;title&gt;" not in page


def test_each_cell_keeps_its_own_moment(tmp_path: Path) -> None:
    preprocessors = pytest.importorskip("nbconvert.preprocessors")
    burst = "for n in range(4):\n    echo(X=[[1.0]])\n"
    sources = [
        "%load_ext tritonlab",
        ECHO.replace(" --quiet", ""),
        "%triton status",
        "echo(X=[[1.0]])\nview = echo.view()\nview",
        f"{burst}echo.view()",
        burst,
        f"{burst}view",
        "%triton serve",
        "%triton unload echo",
        "%triton status",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    executor = preprocessors.ExecutePreprocessor(timeout=120, kernel_name="python3")
    executor.preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    texts = ["".join(cell.outputs[0]["data"]["text/plain"]) if "view" in cell.source else "" for cell in notebook.cells]
    assert [re.findall(r"(\d+) requests?", text)[:1] for text in texts[3:7]] == [["1"], ["9"], [], ["13"]]
    first, last = (
        "".join(notebook.cells[n].outputs[0]["data"][kind]) for n, kind in ((2, "text/html"), (9, "text/html"))
    )
    assert "READY" in first and "UNLOAD" not in first and "http" not in first
    assert "UNLOADED" in last and "http" in last
    assert DATE.search(first) and DATE.search(last)
