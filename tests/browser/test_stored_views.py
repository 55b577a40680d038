"""A notebook that was executed elsewhere shows the pictures of its views, trusted or not, with our extension or not."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from .conftest import JupyterServer, Lab, new_context
from .test_views_gone import FILL

pytestmark = pytest.mark.timeout(300)

DRAWN = "image => image.complete && image.naturalWidth > 700"
#: The filter of a stored picture by theme.
LOOKS = {"light": "none", "dark": "invert"}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a notebook as papermill and nbconvert store it: with the state of its widgets."""
    preprocessors = pytest.importorskip("nbconvert.preprocessors")
    sources = ["%load_ext tritonlab", FILL]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    executor = preprocessors.ExecutePreprocessor(timeout=120, kernel_name="python3", store_widget_state=True)
    executor.preprocess(notebook, {"metadata": {"path": str(tmp_path_factory.mktemp("elsewhere"))}})
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


@pytest.fixture(scope="module")
def bare(jupyter: JupyterServer, chromium: Any) -> Iterator[Lab]:
    """Return a page with the extensions of ipywidgets and anywidget, and without ours."""
    jupyter.disable("tritonlab")
    context = new_context(chromium)
    yield Lab(jupyter, context.new_page())
    context.close()
    jupyter.disable()


def trusted(lab: Any) -> bool:
    found: bool = lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.model.cells.get(1).trusted")
    return found


def test_an_untrusted_notebook_shows_the_picture(lab: Any, stored: Any, theme: str) -> None:
    nbformat.write(stored, Path(lab.jupyter.notebooks) / "stored.ipynb")
    lab.open("stored.ipynb")
    assert not trusted(lab)
    output = lab.cell(1).locator(".jp-OutputArea")
    for name in lab.themes():
        lab.until(output.locator("img"), DRAWN)
        lab.until(output.locator("img"), f"image => getComputedStyle(image).filter.startsWith({LOOKS[name]!r})")
        lab.shot(f"stored_{name}", output)
        assert "Timeline of add: 200 requests in 200 batches" in output.inner_text()
        assert len(output.inner_text().splitlines()) < 5  # not a wall of text
    assert (lab.foreign, lab.errors) == ([], [])


def test_a_trusted_notebook_without_its_kernel_shows_the_picture_alone(lab: Any, stored: Any) -> None:
    NotebookNotary(data_dir=str(lab.jupyter.settings.parent / "data")).sign(stored)
    nbformat.write(stored, Path(lab.jupyter.notebooks) / "stored_trusted.ipynb")
    lab.open("stored_trusted.ipynb")
    assert trusted(lab)
    output = lab.cell(1).locator(".jp-OutputArea").first
    lab.until(output.locator("img"), DRAWN)
    lab.page.wait_for_timeout(2000)  # what would come in the picture's place
    lab.shot("stored_trusted", output)
    assert output.locator("img").is_visible()
    assert output.locator("canvas:visible").count() == 0
    assert "No request has been executed" not in output.inner_text()
    assert "Error displaying widget" not in output.inner_text()
    assert (lab.foreign, lab.errors) == ([], [])


@pytest.mark.parametrize("has_state", [False, True], ids=["as the Lab stores it", "with the state of widgets"])
def test_a_lab_without_the_extension_shows_the_picture_alone(bare: Lab, stored: Any, has_state: bool) -> None:
    notebook, name = copy.deepcopy(stored), f"bare_{has_state}.ipynb"
    assert "widgets" in notebook.metadata
    if not has_state:
        del notebook.metadata["widgets"]
    NotebookNotary(data_dir=str(bare.jupyter.settings.parent / "data")).sign(notebook)
    nbformat.write(notebook, bare.jupyter.notebooks / name)
    bare.open(name)
    assert trusted(bare)
    assert bare.page.evaluate("() => getComputedStyle(document.body).getPropertyValue('--tl-text')") == ""
    output = bare.cell(1).locator(".jp-OutputArea").first
    bare.until(output.locator("img"), DRAWN)
    dead = output.locator(".jp-OutputArea-child").nth(1)
    bare.until(dead, "output => output.textContent !== '' && !output.textContent.includes('Loading')")
    bare.shot(name.removesuffix(".ipynb"), output)
    assert not dead.is_visible(), dead.inner_text()
    assert "Error" not in output.inner_text()
    assert (bare.foreign, bare.errors) == ([], [])
