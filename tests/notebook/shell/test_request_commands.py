"""`%triton golden` and `%triton profile`, in the numbers of the cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.models import answers, cell

CELL = cell("m --quiet --max-batch-size 8 --input IN:FP32[2] --output OUT:FP32[2]", answers("x * 2"))


@pytest.fixture(autouse=True)
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITONLAB_NOTEBOOK", str(tmp_path / "book.ipynb"))
    return tmp_path / "book.golden"


def test_kept_answers_are_compared_after_every_reload(notebook: Any, beside: Path) -> None:
    assert "golden" not in notebook.run(CELL).text
    assert f"kept: {beside}/m/001.json" in notebook.run("%triton golden add m IN=[[1, 2]]").text
    assert "golden: 1 of 1 answers are the same" in notebook.run("%triton golden check").text
    same = notebook.run(CELL + "# a comment\n")
    assert same.text.strip() == "golden: 1 of 1 answers are the same"
    other = notebook.run(CELL.replace("* 2", "* 3"))
    assert other.success and other.text.strip() == (
        "golden: 0 of 1 answers are the same; different: m/001\n"
        "m/001: different\nOUT: differs, largest difference 2 (0.33 relative), first at [0, 0]"
    )
    assert notebook.run("%triton golden check m").result.passed is False
    assert f"{beside}/m/001.json" in notebook.run("%triton golden update m").text
    assert "every answer is as it was" in notebook.run("%triton golden update").text
    assert notebook.run("%triton golden check m").result.passed


def test_an_error_that_is_kept_is_reported(notebook: Any, beside: Path) -> None:
    notebook.run(CELL)
    refused = notebook.run("%triton golden add m").text
    assert "nothing was kept: the answer is an error" in refused and "--error" in refused and not beside.exists()
    kept = notebook.run("%triton golden add --error m")
    assert f"kept: {beside}/m/001.json\nwhat is kept is an error: " in kept.text and "expected 1 inputs" in kept.text
    assert "expected 1 inputs" in kept.result.to_dict()["error"]


def test_what_cannot_be_read_is_reported(notebook: Any, beside: Path) -> None:
    notebook.run(CELL)
    for line in ("", "nonsense", "add", "check m IN=1"):
        assert "%triton golden add [--error] NAME INPUT0=expression" in notebook.run(f"%triton golden {line}").text
    assert "Request for unknown model: 'nobody'" in notebook.run("%triton golden check nobody").text
    (beside / "m").mkdir(parents=True)
    (beside / "m" / "bad.json").write_text("[]")
    assert "bad.json is not a golden case" in notebook.run("%triton golden check").text
    assert "golden: " in notebook.run(CELL + "# again\n").text


PROFILED = """%%triton_model slow --max-batch-size 4 --input IN:FP32[-1] --output OUT:FP32[-1] --quiet
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.01)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
"""


def test_the_lines_have_the_numbers_of_the_cell(notebook: Any) -> None:
    notebook.run(PROFILED)
    place = f"Cell In[{notebook.number()}]"
    result = notebook.run("found = %triton profile slow --seconds 0.3 --batch 2\nfound")
    assert result.success and "Lines of slow: " in result.text
    slowest = notebook["found"].slowest
    assert (slowest.place, slowest.line, slowest.text.strip()) == (place, 7, "time.sleep(0.01)")
    assert notebook["found"].sizes == [2]


def test_it_is_json_for_programs(notebook: Any) -> None:
    notebook.run(PROFILED)
    found = notebook.run("%triton profile slow --seconds 0.2 --json").result
    assert found["lines"][0]["line"] == 7 and found["lines"][0]["sizes"]["1"]["own_s"] > 0.05


def test_it_watches_what_others_send(notebook: Any) -> None:
    notebook.run(PROFILED)
    assert "nothing was executed" in notebook.run("%triton profile slow --watch --seconds 0.05").text


def test_it_looks_at_memory(notebook: Any) -> None:
    notebook.run(PROFILED)
    result = notebook.run("%triton profile slow --seconds 0.2 --memory")
    assert result.success and "Memory by line of slow: " in result.text
