"""`%triton why`: sentences about what waits and what failed, with the cells' lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.notebook.conftest import IDENTITY, IDENTITY_OPTIONS, Notebook
from tests.serving import eventually

#: a name of its own, because the notebooks of all tests have one server
MODEL = f"%%triton_model awaited {IDENTITY_OPTIONS} --quiet\n{IDENTITY}"


@pytest.fixture
def why(notebook: Notebook) -> Any:
    def why(line: str = "") -> str:
        return repr(notebook.run(f"%triton why {line}").result)

    return why


def test_why_names_cells_and_fixes(notebook: Notebook, why: Any) -> None:
    notebook.run(MODEL)
    assert why("awaited") == "Nothing waits in model 'awaited': no request is in flight, no load goes on."
    notebook.run(f"{MODEL}\nimport nowhere_at_all")
    number, line = notebook.number(), MODEL.count("\n") + 2
    text = why("awaited")
    assert "the last load of model 'awaited' failed: ModuleNotFoundError: No module named 'nowhere_at_all'." in text
    assert f"  At Cell In[{number}], line {line}." in text
    assert "  Fix: %pip install brings one that others wrote, %%triton_file MODEL nowhere_at_all.py writes" in text
    reason = json.loads(repr(notebook.run("%triton why awaited --json").result))["reasons"][0]
    assert (reason["kind"], reason["where"]) == ("load", f"Cell In[{number}], line {line}")
    assert "The version from before serves on." in why("awaited")
    notebook.run(MODEL)
    # once the version from before has ended
    eventually(lambda: why("awaited").startswith("Nothing waits in model 'awaited'"))
    assert not notebook.run("%triton why nothing").success


def test_logs_of_one_request(notebook: Notebook) -> None:
    talking = MODEL.replace("responses = []", "responses = []\n        print([r.request_id() for r in requests])")
    notebook.run(talking)
    for name in ("one", "two"):
        notebook.run(f"next(awaited.infer(inputs={{'IN': [[1.0]]}}, request_id='{name}'))")
    assert repr(notebook.run("%triton logs awaited --request two").result).endswith("['two']")
    assert repr(notebook.run("%triton logs awaited --request three").result) == "no output"
    (line,) = json.loads(repr(notebook.run("%triton logs awaited --request one --json").result))["lines"]
    assert line["request_ids"] == ["one"] and len(line["serials"]) == 1
