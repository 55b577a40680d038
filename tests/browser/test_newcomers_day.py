"""What a notebook stores is what was seen, whatever executed it and wherever it is read.

One notebook (`newcomers_day.py`) is executed by JupyterLab, by `nbconvert --execute` and by papermill, and each of the
three is read in another JupyterLab, trusted and not, in Notebook 7, and as a page of nbconvert.
"""

from __future__ import annotations

import copy
import html
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert import HTMLExporter, MarkdownExporter
from nbformat.sign import NotebookNotary
from playwright.sync_api import expect

from tests.browser.conftest import NOTEBOOK, JupyterServer, Lab, Pages, new_context, python_path, serving
from tests.browser.newcomers_day import DRAWN_COUNTS, FAILING, OUTPUT_PATTERNS, PICTURES, cell_id, new_notebook
from tests.long_proofs import long
from tests.models import IDENTITY, cell

pytestmark = [long, pytest.mark.timeout(600)]

WRITERS = ("lab", "nbconvert", "papermill")
OUTPUT = ".jp-Cell-outputArea, .jp-OutputArea"
#: Scrolls to an output, until it is there.
IN_SIGHT = """output => {
    output.scrollIntoView({ block: "nearest" });
    const { top, bottom } = output.getBoundingClientRect();
    return bottom > 0 && top < window.innerHeight && output.innerText.trim() !== "";
}"""
#: Whether every picture of an output is drawn.
DRAWN = "output => [...output.querySelectorAll('img')].every(i => i.complete && i.naturalWidth > 200)"
#: What a person reads of an output: without what is folded away or hidden.
TEXT = "output => output.innerText.replaceAll('\\u00a0', ' ')"
#: Whether JupyterLab trusts all outputs of a notebook.
TRUSTED = "() => [...window.jupyterapp.shell.currentWidget.model.cells].every(c => c.type !== 'code' || c.trusted)"
#: The tables and the values that the live form of an output shows; not the charts, which count what is in view.
SEEN = """output => [...output.querySelectorAll('.tl-tensors td, .tl-value, .tl-note, .tl-name, .tl-frame > summary')]
    .filter(part => part.checkVisibility() && part.innerText.trim() && !part.closest('.tl-chart'))
    .map(part => part.innerText)"""


class Outputs(HTMLParser):
    """The texts of a page's outputs, and the alternative texts of its images."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.images: list[dict[str, str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "img":
            self.images.append({name: value or "" for name, value in attrs})


@contextmanager
def page_of(server: JupyterServer, chromium: Any) -> Iterator[Lab]:
    context = new_context(chromium)
    yield Lab(server, context.new_page())
    context.close()


def execute_outside(writer: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start the execution of the notebook in a program without a browser."""
    (folder / writer).mkdir()
    source, target = folder / writer / "day.ipynb", folder / f"{writer}.ipynb"
    nbformat.write(new_notebook(), source)
    if writer == "papermill":
        command = ["papermill", "--no-progress-bar", str(source), str(target)]
    else:
        command = ["nbconvert", "--to", "notebook", "--execute", str(source), "--output", str(target)]
    environment = {**os.environ, "PYTHONPATH": python_path(), "IPYTHONDIR": str(folder / "ipython")}
    command = [sys.executable, "-m", *command]
    with open(folder / f"{writer}.log", "wb") as log:
        return subprocess.Popen(command, cwd=folder / writer, env=environment, stdout=log, stderr=log)


@pytest.fixture(scope="module")
def seen() -> dict[str, list[str]]:
    """Return what a person saw in the JupyterLab that executed the notebook, by the words of the cells."""
    return {}


@pytest.fixture(scope="module")
def stored(
    jupyter: JupyterServer, pages: Pages, tmp_path_factory: pytest.TempPathFactory, seen: dict[str, list[str]]
) -> dict[str, Any]:
    """Return the executed notebooks, by their writers."""
    folder = tmp_path_factory.mktemp("written")
    programs = {writer: execute_outside(writer, folder) for writer in WRITERS[1:]}
    lab = pages.take()
    execute_in_lab(lab, seen)
    pages.give_back(lab, passed=True)
    for writer, program in programs.items():
        # papermill ends with the error of a cell that is to fail, after it has executed all
        assert program.wait(240) in (0, 1), (folder / f"{writer}.log").read_text()
    paths = {"lab": jupyter.notebooks / "day.ipynb", **{writer: folder / f"{writer}.ipynb" for writer in WRITERS[1:]}}
    return {writer: nbformat.read(path, as_version=4) for writer, path in paths.items()}


def execute_in_lab(lab: Lab, seen: dict[str, list[str]]) -> None:
    nbformat.write(new_notebook(), lab.jupyter.notebooks / "day.ipynb")
    lab.open("day.ipynb")
    lab.page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    last = lab.page.locator(f".jp-Cell[data-windowed-list-index='{len(new_notebook().cells) - 1}']")
    expect(last.locator(".jp-InputArea-prompt")).to_have_text(re.compile(r"\[\d+\]"), timeout=180_000)
    notebook = new_notebook()
    for word in OUTPUT_PATTERNS:
        area = output_of(lab, notebook, word)
        lab.page.wait_for_timeout(100)
        seen[word] = area.evaluate(SEEN)
        if word in DRAWN_COUNTS:
            count, words = DRAWN_COUNTS[word]
            drawn = area.locator("canvas").first.evaluate(f"canvas => Number(canvas.dataset.{count})")
            assert drawn > 0, word
            seen[word].append(words.format(drawn))
    replaced = output_of(lab, notebook, "failed load").locator(".tl-live .tl-head")
    expect(replaced).to_contain_text(re.compile(r"REPLACED by In\[\d+\]"))  # and is not READY above its traceback
    lab.shot("day_replaced", replaced)
    lab.shot("day_executed", output_of(lab, notebook, "timeline"))
    lab.save()
    assert (lab.foreign, lab.errors, lab.console) == ([], [], [])


def cell_of(notebook: Any, word: str) -> Any:
    (cell,) = (cell for cell in notebook.cells if cell.get("id") == cell_id(word))
    return cell


def stored_text(cell: Any) -> str:
    parts = []
    for output in cell.outputs:
        parts += [output.get("text", ""), output.get("ename", ""), output.get("evalue", "")]
        parts.append("".join(output.get("data", {}).get("text/plain", "")))
    return "\n".join(parts)


def output_of(lab: Any, notebook: Any, word: str) -> Any:
    """Return the output of a cell, scrolled to: what nobody sees is not drawn."""
    area = lab.cell([cell.get("id") for cell in notebook.cells].index(cell_id(word))).locator(OUTPUT).first
    lab.until(area, IN_SIGHT)
    return area


def pages(cell: Any) -> list[Outputs]:
    htmls = ["".join(output.get("data", {}).get("text/html", "")) for output in cell.outputs]
    return [Outputs(html) for html in htmls if html]


@pytest.mark.parametrize("writer", WRITERS)
def test_each_output_is_stored_in_words_and_pictures(stored: dict[str, Any], writer: str) -> None:
    notebook = stored[writer]
    for word, pattern in OUTPUT_PATTERNS.items():
        cell = cell_of(notebook, word)
        text = stored_text(cell)
        assert re.search(pattern, text, re.DOTALL), f"{word}: {text}"
        assert not {"svg", "script", "canvas"} & {tag for page in pages(cell) for tag in page.tags}, word
        images = [image for page in pages(cell) for image in page.images]
        assert bool(images) >= (word in PICTURES), word
        for image in images:
            assert image["src"].startswith("data:image/") and image["alt"], word
    assert "Bearer" not in nbformat.writes(notebook)
    assert {cell.id for cell in notebook.cells if any(o.output_type == "error" for o in cell.get("outputs", ()))} == {
        cell_id(word) for word in FAILING
    }


@pytest.mark.parametrize("writer", WRITERS)
def test_as_markdown_it_has_the_words_and_no_style_sheet(stored: dict[str, Any], writer: str) -> None:
    text, _ = MarkdownExporter().from_notebook_node(stored[writer])
    assert "<style" not in text
    read = html.unescape(re.sub(r"<[^<>]+>", " ", re.sub(r"data:image[^'\"]+", "", text)))
    for word, pattern in OUTPUT_PATTERNS.items():
        if word not in PICTURES and word not in FAILING:
            assert re.search(pattern.replace(" ", r"\s+"), words_of(read), re.DOTALL), word
    rest = len(re.sub(r"data:image[^'\"]+", "", text))
    assert rest < 4 * len(words_of(read)), f"{rest:,} characters of markdown for {len(words_of(read)):,} of words"


def words_of(text: str) -> str:
    return " ".join(text.split())


def read(lab: Lab, notebook: Any, seen: dict[str, list[str]] | None = None) -> None:
    """Check what a page shows of a stored notebook: what it stores, and what was seen of it."""
    # JupyterLab does not draw cells that are far away, and those above jump as they are drawn
    lab.page.add_style_tag(content=".jp-Cell { content-visibility: visible !important; }")
    for word, pattern in OUTPUT_PATTERNS.items():
        area = output_of(lab, notebook, word)
        lab.until(area, DRAWN)
        text = words_of(area.evaluate(TEXT))
        assert re.search(pattern.replace(" ", r"\s"), text), f"{word}: {text}"
        assert "Error displaying widget" not in text, word
        assert area.locator("canvas:visible").count() == 0, word
        images = [image["alt"] for page in pages(cell_of(notebook, word)) for image in page.images]
        assert area.locator("img:visible").evaluate_all("all => all.map(image => image.alt)") == images, word
        for part in (seen or {}).get(word, ()):
            assert words_of(part) in text, f"{word}: {part!r} was seen, and {text!r} is read"


@pytest.mark.parametrize(("writer", "theme"), [("lab", "light"), ("nbconvert", "dark"), ("papermill", "light")])
def test_a_lab_shows_the_same_without_trust(
    lab: Lab, stored: dict[str, Any], seen: dict[str, list[str]], writer: str, theme: str
) -> None:
    lab.jupyter.theme(theme)
    notebook = copy.deepcopy(stored[writer])
    notebook.metadata["from"] = "elsewhere"  # a JupyterLab trusts what it has executed, while that is the same
    nbformat.write(notebook, lab.jupyter.notebooks / f"{writer}.ipynb")
    lab.open(f"{writer}.ipynb")
    assert not lab.page.evaluate(TRUSTED)
    read(lab, stored[writer], seen if writer == "lab" else None)
    lab.shot(f"day_{writer}_untrusted", output_of(lab, stored[writer], "timeline"))
    lab.shot(f"day_{writer}_status", output_of(lab, stored[writer], "status"))
    assert (lab.foreign, lab.errors) == ([], [])


@pytest.mark.parametrize("writer", ["lab", "papermill"])
def test_a_lab_shows_the_same_with_trust(
    lab: Lab, stored: dict[str, Any], seen: dict[str, list[str]], writer: str
) -> None:
    lab.jupyter.theme("light")
    NotebookNotary(data_dir=str(lab.jupyter.settings.parent / "data")).sign(stored[writer])
    nbformat.write(stored[writer], lab.jupyter.notebooks / f"{writer}_trusted.ipynb")
    lab.open(f"{writer}_trusted.ipynb")
    assert lab.page.evaluate(TRUSTED)
    lab.page.wait_for_timeout(2000)  # what would come in the place of the static forms
    read(lab, stored[writer], seen if writer == "lab" else None)
    lab.shot(f"day_{writer}_trusted", output_of(lab, stored[writer], "timeline"))
    assert (lab.foreign, lab.errors) == ([], [])


@pytest.mark.parametrize("writer", WRITERS)
def test_a_page_of_nbconvert_shows_the_same(
    jupyter: JupyterServer, chromium: Any, stored: dict[str, Any], tmp_path: Path, writer: str
) -> None:
    html, _ = HTMLExporter().from_notebook_node(stored[writer])
    (tmp_path / "day.html").write_text(html, encoding="utf-8")
    context = new_context(chromium)
    page = context.new_page()
    page.route("**/*", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort())
    page.goto(f"file://{tmp_path / 'day.html'}", wait_until="domcontentloaded")
    for word, pattern in OUTPUT_PATTERNS.items():
        cell = page.locator(f"[id='cell-id={cell_id(word)}']")
        text = words_of(cell.evaluate(TEXT))
        assert re.search(pattern.replace(" ", r"\s"), text), f"{word}: {text}"
        alts = [image["alt"] for one in pages(cell_of(stored[writer], word)) for image in one.images]
        found = cell.locator("img:visible").evaluate_all("all => all.filter(i => i.naturalWidth > 200).map(i => i.alt)")
        assert found == alts, word
    context.close()


LIVE = cell("echo --input IN:FP32[-1] --output OUT:FP32[-1]", IDENTITY)


def test_notebook_7_shows_the_same_and_what_is_live(
    chromium: Any, stored: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving(tmp_path_factory.mktemp("notebook7"), app=NOTEBOOK) as server, page_of(server, chromium) as lab:
        nbformat.write(stored["nbconvert"], server.notebooks / "day.ipynb")
        lab.page.goto(f"{server.url}/notebooks/day.ipynb")
        lab.wait_until_idle()
        read(lab, stored["nbconvert"])
        lab.shot("day_notebook7", output_of(lab, stored["nbconvert"], "timeline"))

        server.write("live.ipynb", ["%load_ext tritonlab", LIVE, "%triton view echo", "echo(IN=[1.0])", "1 / 0"])
        lab.page.goto(f"{server.url}/notebooks/live.ipynb")
        lab.wait_until_idle()
        lab.run(0)
        card = lab.run(1)
        lab.cell(1).locator(".tritonlab-mark[data-mark=ready]").wait_for()
        canvas = lab.run(2).locator(".tl-view canvas")
        lab.run(3)
        lab.until(canvas, "canvas => +canvas.dataset.kept > 0")
        card.get_by_role("button", name="Playground").click()
        card.locator(".tl-form[data-keys=on]").wait_for()
        card.get_by_role("button", name="Send", exact=True).click()
        lab.wait_text(card.locator(".tl-form"), "OUT")
        lab.shot("notebook7_live", card)
        card.get_by_role("button", name="Export…").click()
        panel = lab.page.locator(".tritonlab-export")
        panel.get_by_label("Repository directory").fill("from7")
        lab.wait_text(panel.locator(".tritonlab-plan"), "config.pbtxt")
        lab.shot("notebook7_export")
        panel.locator(".jp-Dialog-footer .jp-mod-accept").click()
        panel.locator("[role=status]").wait_for()
        assert (server.notebooks / "from7" / "echo" / "1" / "model.py").read_text() == IDENTITY
        lab.page.keyboard.press("Escape")
        # one error is its own, with and without extensions (Notebook 7.6)
        assert lab.foreign == [] and [error for error in lab.errors if "'schema'" not in error] == []
