"""`tritonlab test` of notebooks that are run, and of a model repository."""

from __future__ import annotations

import json
import re
import shutil
import signal
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

from tests.models import answers, cell
from tritonlab.__main__ import main
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Exchange, arrivals_of
from tritonlab.exchanges.golden import GoldenSet

SOURCE = answers("x * 2")
CELL = cell("m --quiet --input IN:FP32[2] --output OUT:FP32[2]", SOURCE)
CONFIG = """
backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: [2] }
output { name: "OUT" data_type: TYPE_FP32 dims: [2] }
"""


def keep(directory: Path, answer: list[float]) -> None:
    inputs = {"IN": Tensor.from_numpy(np.array([1, 2], np.float32))}
    outputs = {"OUT": Tensor.from_numpy(np.array(answer, np.float32))}
    outcome = Exchange(InferenceRequest("m", inputs), arrivals_of([outputs]))
    GoldenSet(directory).add(outcome)


def write(path: Path, *cells: str, kernel: str = "python3") -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": kernel, "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)


@pytest.mark.filterwarnings("ignore:.*TCP without encryption")
def test_notebooks_are_run_and_compared(tmp_path: Path, capfd: Any) -> None:
    write(tmp_path / "good.ipynb", "%load_ext tritonlab", CELL)
    keep(tmp_path / "good.golden", [2, 4])
    assert main(["test", str(tmp_path / "good.ipynb")]) == 0
    assert "good.ipynb: golden: 1 of 1 answers are the same" in capfd.readouterr().out

    write(tmp_path / "broken.ipynb", "1 / 0")
    keep(tmp_path / "broken.golden", [2, 4])
    shutil.copy(tmp_path / "good.ipynb", tmp_path / "wrong.ipynb")
    keep(tmp_path / "wrong.golden", [2, 5])
    write(tmp_path / "without.ipynb", "1 / 0")
    assert main(["test", str(tmp_path), "--junit", str(tmp_path / "found.xml")]) == 1
    text = capfd.readouterr().out
    assert "ZeroDivisionError" in text and "without.ipynb" not in text
    assert "wrong.ipynb: golden: 0 of 1 answers are the same; different: m/001" in text
    root = ElementTree.parse(tmp_path / "found.xml").getroot()
    assert [(s.get("tests"), s.get("failures"), s.get("errors")) for s in root] == [
        ("1", "0", "1"),
        ("1", "0", "0"),
        ("1", "1", "0"),
    ]


def test_a_model_repository_is_served_and_compared(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "models" / "m"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(CONFIG)
    (model / "1" / "model.py").write_text(SOURCE)
    assert main(["test", str(tmp_path / "models")]) == 2
    assert "no golden set beside" in capfd.readouterr().out
    keep(tmp_path / "models.golden", [2, 4])
    assert main(["test", str(tmp_path / "models")]) == 0
    keep(tmp_path / "models.golden", [2, 4.5])
    assert main(["test", str(tmp_path / "models")]) == 1
    assert "OUT: differs, largest difference 0.5 (0.12 relative), first at [1]" in capfd.readouterr().out
    monkeypatch.chdir(tmp_path / "models")
    assert main(["test", ".", "--junit", "found/golden.xml"]) == 1
    assert ElementTree.parse("found/golden.xml").getroot()[0].get("failures") == "1"
    assert main(["test", str(tmp_path / "nothing.ipynb")]) == 1
    assert "there is no such notebook" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("", "its kernel 'other' is not installed here: run `.* -m ipykernel install --sys-prefix --name other`"),
        ("/nowhere/python", "its kernel does not start: .*/nowhere/python"),
        ("/bin/false", "its kernel does not start: Kernel died before replying"),
    ],
)
def test_a_notebook_whose_kernel_does_not_start_is_reported(
    tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch, program: str, text: str
) -> None:
    if program:
        (tmp_path / "kernels" / "other").mkdir(parents=True)
        spec = {"argv": [program], "display_name": "other", "language": "python"}
        (tmp_path / "kernels" / "other" / "kernel.json").write_text(json.dumps(spec))
        monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    write(tmp_path / "other.ipynb", "1", kernel="other")
    interrupts = signal.getsignal(signal.SIGINT)
    assert main(["test", str(tmp_path / "other.ipynb")]) == 1
    assert re.search(f"other.ipynb: {text}", capfd.readouterr().out)
    assert signal.getsignal(signal.SIGINT) is interrupts
