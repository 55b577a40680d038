"""The committed notebooks as they are read on a page. `make test` also runs every one of them (nbmake)."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))
#: A page should load, and a diff should be readable.
LARGEST = 100_000


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request: Any) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def notebook(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def test_it_is_valid_and_small(path: Path, notebook: Any) -> None:
    nbformat.validate(notebook)
    assert path.stat().st_size < LARGEST


def test_no_cell_failed(notebook: Any) -> None:
    assert [output for output in outputs(notebook) if output.output_type == "error"] == []


def test_only_what_reads_well_on_a_page_is_kept(notebook: Any) -> None:
    """Not widgets, which need a kernel; of cards and views the static form, without what differs in each run."""
    for output in outputs(notebook):
        data = output.get("data", {})
        assert set(data) <= {"text/plain", "text/html", "image/png"}
        assert "text/html" not in data or (data["text/plain"] and "class='tl-static" in data["text/html"])
        assert not re.search(
            r"\b\d\d:\d\d\b|\bprocess \d+|ready in \d", data.get("text/html", "") + data.get("text/plain", "")
        )
        assert output.get("name", "stdout") == "stdout"
    assert "widgets" not in notebook.metadata


def test_the_quickstart_shows_its_cards_before_it_is_run() -> None:
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)  # type: ignore[no-untyped-call]
    cards = [output.data for output in outputs(notebook) if "text/html" in output.get("data", {})]
    assert [card["text/plain"].split()[:2] for card in cards] == [["add_sub", "READY"], ["digit_classifier", "READY"]]
    assert not any("<style>" in card["text/html"] for card in cards)  # nobody would see it


def test_nothing_tells_where_it_ran(notebook: Any) -> None:
    for output in outputs(notebook):
        text = output.get("text", "") + output.get("data", {}).get("text/plain", "")
        assert not any(place in text for place in ("/tmp/", "/home/", "/root/", " object at 0x", "'Bearer "))


def test_it_was_run_from_top_to_bottom_or_not_at_all(notebook: Any) -> None:
    numbers = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert numbers in ([None] * len(numbers), list(range(1, len(numbers) + 1)))


def test_it_begins_with_a_title(notebook: Any) -> None:
    first = notebook.cells[0]
    assert first.cell_type == "markdown" and first.source.startswith("# ")


def test_it_answers_one_question(notebook: Any) -> None:
    assert notebook.cells[0].source.splitlines()[0].endswith("?")


def test_it_says_how_long_it_runs(notebook: Any) -> None:
    last = notebook.cells[0].source.splitlines()[-1]
    assert re.fullmatch(r"\*Runs in about \d+ (seconds|minutes)\.( Needs .+\.)?\*", last)


def test_the_answer_has_a_picture(notebook: Any) -> None:
    assert any("image/png" in output.get("data", {}) for output in outputs(notebook))


def test_it_leads_on(path: Path, notebook: Any) -> None:
    """A link to the next one, or from the last to the first."""
    (last,) = re.findall(r"\]\((\w+\.ipynb)\)", notebook.cells[-1].source.splitlines()[-1])[:1]
    assert (path.parent / last).exists() and last != path.name
    linked = [name for cell in notebook.cells for name in re.findall(r"\]\((\w+\.ipynb)\)", cell.source)]
    assert all((path.parent / name).exists() for name in linked)


def test_nothing_is_asserted_before_the_reader(path: Path, notebook: Any) -> None:
    """What must hold stands in a cell's metadata, which nbmake runs after it: `nbmake.post_cell_execute`."""
    if path.stem == "80_testing_a_model":
        return  # asserts are what it is about
    lines = [line for cell in notebook.cells if cell.cell_type == "code" for line in cell.source.splitlines()]
    assert [line for line in lines if line.lstrip().startswith("assert ")] == []


def test_the_index_is_that_of_the_documentation() -> None:
    """It is written by `python docs/_extensions/generated_reference.py`."""
    assert (NOTEBOOKS[0].parent / "README.md").read_text(encoding="utf-8") == generated_reference().questions_page()


def generated_reference() -> Any:
    path = NOTEBOOKS[0].parents[1] / "docs/_extensions/generated_reference.py"
    spec = importlib.util.spec_from_file_location("generated_reference", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_notebook_can_be_reached() -> None:
    books = {path.name: path.read_text(encoding="utf-8") for path in NOTEBOOKS}
    reached, left = set(), ["00_quickstart.ipynb"]
    while left:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            left += re.findall(r"\]\((\w+\.ipynb)\)", books[name])
    assert reached == set(books)
