"""The transcripts of `cases/`; `tests/transcripts.py` says how they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebook.conftest import Notebook
from tests.transcripts import mask, read_cases, run_case, write_case
from tritonlab.notebook.authoring.workspace import Workspace

FOLDER = Path(__file__).with_name("cases")
ROOT = Path(__file__).resolve().parents[2]
CASES = [
    pytest.param(file, name, id=f"{file.stem}: {name}")
    for file in sorted(FOLDER.glob("*.md"))
    for name, _ in read_cases(file)
]


@pytest.mark.parametrize(("file", "name"), CASES)
def test_the_cells_print_it(
    file: Path,
    name: str,
    notebook: Notebook,
    workspace: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRITONLAB_NOTEBOOK", str(tmp_path / "book.ipynb"))
    text = dict(read_cases(file))[name]
    places = {str(workspace.repository): "<repository>", str(tmp_path): "<here>", str(ROOT): "<tritonlab>"}

    def run(cell: str) -> tuple[str, bool]:
        result = notebook.run(cell)
        return result.text, bool(result.success)

    found = run_case(text, run, places, notebook.number() + 1)
    if request.config.getoption("--write-cases"):
        difference = write_case(file, name, found)
        with capsys.disabled():
            print(difference, end="")
    else:
        assert found == text


def run_nothing(cell: str) -> tuple[str, bool]:
    return cell.upper(), "fails" not in cell


@pytest.mark.parametrize("printed", ["", "```text\nX\n```\n", "```error\nX = 1\n```\n", "```text\nX = 1\nY\n```\n"])
def test_a_transcript_has_all_that_is_printed(printed: str) -> None:
    right = "```python\nx = 1\n```\n```text\nX = 1\n```\n"
    assert run_case(right, run_nothing, {}, 1) == right
    assert run_case(f"```python\nx = 1\n```\n{printed}", run_nothing, {}, 1) == right


def test_a_cell_that_fails_differs_from_one_that_succeeds() -> None:
    assert run_case("```python\nfails\n```\n", run_nothing, {}, 1).endswith("```error\nFAILS\n```\n")


def test_a_test_is_written_into_its_file(tmp_path: Path) -> None:
    file = tmp_path / "some.md"
    file.write_text("# Some\n\n## One\nold\n## Two\nkept\n")
    difference = write_case(file, "One", "new\n")
    assert "-old" in difference and "+new" in difference and "-kept" not in difference
    assert dict(read_cases(file)) == {"One": "new\n", "Two": "kept\n"}


def test_what_differs_between_runs_is_masked() -> None:
    line = "\x1b[31mIn[7]\x1b[0m: ready in 0.12 s at 13:04:05, pid 77, 12 MB of /tmp/x/m, 127.0.0.1:8000  "
    expected = "In[2]: ready in <time> at <clock>, pid <number>, <size> of <here>/m, 127.0.0.1:<port>\n"
    assert mask(line, {"/tmp/x": "<here>"}, first=6) == expected
