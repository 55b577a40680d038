from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.test_release import PROJECT
from tritonlab import __main__, quickstart


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return what would have been started in the place of this process."""
    commands: list[list[str]] = []
    monkeypatch.setattr(quickstart.os, "execv", lambda program, command: commands.append(command))
    return commands


def test_lab_opens_a_copy_of_the_quickstart(tmp_path: Path, started: list[list[str]]) -> None:
    __main__.main(["lab", str(tmp_path / "new"), "--", "--ip=0.0.0.0"])
    source = Path(__file__).resolve().parents[1] / "notebooks" / "00_quickstart.ipynb"
    written, copied = (nbformat.read(path, 4).cells for path in (source, tmp_path / "new" / quickstart.NAME))
    assert [cell.source for cell in copied if cell.cell_type == "code"] == [
        cell.source for cell in written if cell.cell_type == "code"
    ]
    assert started[0][:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--LabApp.default_url=/lab/tree/{quickstart.NAME}" in started[0] and started[0][-1] == "--ip=0.0.0.0"


def test_links_of_the_copy_lead_to_the_site(tmp_path: Path, started: list[list[str]]) -> None:
    """The other notebooks are not beside it."""
    __main__.main(["lab", str(tmp_path)])
    cells = nbformat.read(tmp_path / quickstart.NAME, 4).cells  # type: ignore[no-untyped-call]
    links = [link for cell in cells for link in re.findall(r"\]\(([^)]+)\)", cell.source)]
    site = PROJECT["urls"]["Documentation"]
    assert f"{site}/page/how-to/index.html" in links
    assert f"{site}/page/how-to/10_numpy_and_pytorch.html" in links
    assert [link for link in links if not link.startswith("https://")] == []


def test_lab_keeps_a_copy_that_is_something_else(tmp_path: Path, started: list[list[str]]) -> None:
    (tmp_path / quickstart.NAME).write_text("mine")
    __main__.main(["lab", str(tmp_path)])
    assert (tmp_path / quickstart.NAME).read_text() == "mine" and len(started) == 1


def notebook(*cells: str) -> str:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])  # type: ignore[no-untyped-call]
    return str(nbformat.writes(made))  # type: ignore[no-untyped-call]


def run_cells(path: Path, edit: str = "") -> None:
    """Do to a notebook what JupyterLab does when a person runs it to the end, and what an edit does."""
    found = nbformat.read(path, 4)  # type: ignore[no-untyped-call]
    for cell in found.cells:
        cell.outputs = [nbformat.v4.new_output("stream", text="4")]  # type: ignore[no-untyped-call]
    found.cells[0].source += edit
    found.cells.append(nbformat.v4.new_code_cell(""))  # type: ignore[no-untyped-call]
    nbformat.write(found, path)  # type: ignore[no-untyped-call]


def test_a_copy_follows_its_notebook_until_it_is_edited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, copies = tmp_path / "notebooks", tmp_path / "lab"
    source.mkdir()
    for name in ("run.ipynb", "edited.ipynb"):
        (source / name).write_text(notebook("2 + 2"))
    (source / "README.md").write_text("old")
    quickstart.copy_notebooks(source, copies)
    run_cells(copies / "run.ipynb")
    run_cells(copies / "edited.ipynb", edit=" + 1")
    before = (copies / "run.ipynb").read_text()
    quickstart.copy_notebooks(source, copies)
    assert (copies / "run.ipynb").read_text() == before, "outputs stay while the notebook is the same"
    assert capsys.readouterr().out == "", "there is no newer one"

    for path in source.iterdir():
        path.write_text(notebook("2 * 2") if path.suffix == ".ipynb" else "new")
    quickstart.copy_notebooks(source, copies)
    sources = {path.name: nbformat.read(path, 4).cells[0].source for path in copies.glob("*.ipynb")}  # type: ignore[no-untyped-call]
    assert sources == {"run.ipynb": "2 * 2", "edited.ipynb": "2 + 2 + 1"}
    assert (copies / "README.md").read_text() == "new"
    output = capsys.readouterr().out
    assert "have your edits and stay" in output and "edited.ipynb" in output and "run.ipynb" not in output


def test_options_go_without_a_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, started: Any) -> None:
    monkeypatch.chdir(tmp_path)
    __main__.main(["lab", "--", "--no-browser"])
    assert (tmp_path / quickstart.NAME).exists() and started[0][-1] == "--no-browser"


def test_without_jupyterlab_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quickstart.importlib.util, "find_spec", lambda name: None)
    assert __main__.main(["lab", str(tmp_path)]) == 1
    assert "pip install 'tritonlab[lab]'" in capsys.readouterr().err
