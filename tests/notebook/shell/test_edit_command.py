"""Models of a repository that come into cells of a real IPython shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.notebook.conftest import Notebook
from tests.notebook.repositories import contents, write_repository

ROW = np.array([1, 2], np.float32)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_repository(tmp_path / "models")


def next_cell(notebook: Notebook) -> str:
    texts = [item["text"] for item in notebook.shell.payload_manager.read_payload()] or [notebook.shell.rl_next_input]
    notebook.shell.payload_manager.clear_payload()
    return str(texts[-1])


def test_open_shows_the_table_and_binds_the_models(notebook: Notebook, root: Path) -> None:
    result = notebook.run("%triton open models")
    assert result.success
    for text in ("pre", "READY", "template", "FAILED", "${max_batch_size}", "backend tensorrt"):
        assert text in result.text
    assert notebook["post"](T=ROW)["Y"].tolist() == [2, 3]
    assert "all" not in notebook.shell.user_ns and "the variable 'all' is Python's own" in result.text
    facts = notebook.run("%triton open models post --json").result
    assert {row["name"]: row["state"] for row in facts["models"]}["pre"] == "NOT OPENED"


def test_cells_of_a_repository_go_through_ipython_unchanged(notebook: Notebook, root: Path, tmp_path: Path) -> None:
    notebook.run("import tritonlab")
    opened = notebook.run("%triton open models").result
    for name in ("pre", "post", "all"):
        for cell in opened[name].to_cells():
            result = notebook.run(cell)
            assert result.success, result.text
    assert [name for name in opened if opened[name].in_cells] == ["all", "post", "pre"]
    assert notebook["pre"](X=ROW)["T"].tolist() == [2, 4]
    opened.export(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(root)


def test_edit_brings_a_model_of_a_repository(notebook: Notebook, root: Path, tmp_path: Path) -> None:
    opened: Any = notebook.run("%triton open models").result
    result = notebook.run("%triton edit pre")
    cell = next_cell(notebook)
    assert cell == opened["pre"].to_cells()[-1]
    assert "%%triton_file pre helper.py" in result.text and "models/pre" in result.text
    assert notebook.run(cell.replace("scaled(x, self.factor)", "-scaled(x, self.factor)")).success
    assert notebook["pre"](X=ROW)["T"].tolist() == [-2, -4]
    # what the cell does not write counts as it is in the directory
    opened.export(tmp_path / "out")
    before, after = contents(root), contents(tmp_path / "out")
    assert {path for path in before if after[path] != before[path]} == {"pre/1/model.py"}
    # edited again, it is the cell that ran
    assert notebook.run("%triton edit pre").success
    again = next_cell(notebook)
    assert again.startswith("%%triton_model pre --base models/pre\n") and "-scaled" in again
    assert notebook.run(again).success
    assert notebook.run("%triton edit all").success
    assert next_cell(notebook).startswith("%%triton_config all --base models/all\n")


def test_a_cell_without_the_base_stands_alone(notebook: Notebook, root: Path) -> None:
    opened: Any = notebook.run("%triton open models").result
    *_, cell = opened["post"].to_cells()
    assert notebook.run(cell).success
    alone = cell.replace(" --base models/post", " --input T:FP32[2] --output Y:FP32[2]")
    result = notebook.run(alone)
    assert result.success, result.text
    assert not opened["post"].in_cells and opened["post"].facts().state == "NOT SERVED"


def test_a_wrong_base_is_refused_in_words(notebook: Notebook, root: Path) -> None:
    result = notebook.run("%%triton_model pre --base models/nowhere\nclass TritonPythonModel: pass")
    assert not result.success
    assert "there is no model directory 'models/nowhere'" in result.text


def test_an_error_in_a_helper_of_the_repository_names_its_file(notebook: Notebook, root: Path) -> None:
    (root / "pre" / "1" / "helper.py").write_text("def scaled(x, factor):\n    return absent\n")
    opened: Any = notebook.run("%triton open models").result
    notebook.run(opened["pre"].to_cells()[-1])
    result = notebook.run("pre(X=[1, 2])")
    assert "NameError: name 'absent' is not defined" in result.text
    assert f"{root}/pre/1/helper.py" in result.text
