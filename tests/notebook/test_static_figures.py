"""What a notebook keeps that was executed without a browser: nbconvert --execute, papermill, CI."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from tests.models import cell, counts

CELLS = [
    "%load_ext tritonlab",
    cell(
        "echo --max-batch-size 4 --input X:FP32[1] --output Y:FP32[1] --quiet",
        counts("rows_total", reads="X", writes="Y"),
    ),
    "for kind in ('timeline', 'metrics', 'memory', 'graph'):\n    display(echo.view(kind))\necho(X=[[1.0]])",
    "for n in range(4):\n    echo(X=[[1.0]])",
    "'nothing new'",
]


def test_a_notebook_executed_without_a_browser_has_the_figures_of_its_end(tmp_path: Path) -> None:
    nbconvert = pytest.importorskip("nbconvert")
    preprocessors = pytest.importorskip("nbconvert.preprocessors")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    preprocessors.ExecutePreprocessor(timeout=120, kernel_name="python3").preprocess(
        notebook, {"metadata": {"path": str(tmp_path)}}
    )
    texts = [
        "".join(output["data"]["text/plain"])
        for output in notebook.cells[2]["outputs"]
        if output.get("data", {}).get("text/plain")
    ]
    assert texts[0].startswith("Timeline of echo: 5 requests in 5 batches (1 each) within ")
    assert texts[1].splitlines()[1].strip().startswith("rows_total 5")
    assert re.match(r"Memory of echo: the same on Triton takes about --shm-size=\d+m\.", texts[2])
    assert re.match(r"Graph of echo: request \d+ took ", texts[3])
    page, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    assert "no request has been executed yet" not in page
    for begin in (
        "Timeline of echo: 5 requests in 5 batches",
        "Custom metrics: 1",
        "Memory of echo",
        "Graph of echo: r",
    ):
        assert re.search(f'<img alt="{begin}', page)
    assert "None has changed yet" not in page
