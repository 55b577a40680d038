"""A notebook that is executed without a browser does what it says, and stores that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.models import IDENTITY
from tests.notebook.conftest import IDENTITY_OPTIONS

pytestmark = pytest.mark.timeout(300)


def executed(cells: list[str], path: Path) -> list[Any]:
    """Return the outputs of each cell, once all have run."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(path)}}).execute()
    return [cell.outputs for cell in book.cells]


def test_a_load_test_measures(tmp_path: Path) -> None:
    model = f"%%triton_model m {IDENTITY_OPTIONS}\n{IDENTITY}"
    *_, outputs = executed(["%load_ext tritonlab", model, "%triton load_test m"], tmp_path)
    texts = [output["data"]["text/plain"] for output in outputs if "data" in output]
    assert not any("not started" in text for text in texts)
    assert any("inferences/s" in text and "p99" in text for text in texts)
