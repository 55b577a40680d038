"""A player that sees the text of outputs, and nothing else, takes a broken model to a verified export."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tritonlab.core.plain_facts import MOST_LINES

pytestmark = pytest.mark.timeout(180)

LINE = "%%triton_model scale --max-batch-size 8 --input X:FP32[4] --output Y:INT32[4]"
BROKEN = """import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests)
        found = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x / abs(x).max())]) for x in found]
"""


def text_of(output: Any) -> str:
    """Return an output as programs that drive notebooks read it: a picture hides the text beside it, HTML is a
    placeholder.
    """
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(output.traceback))
    data = output.data
    if "image/png" in data:
        return "[a picture]"
    return next((str(data[kind]) for kind in ("text/markdown", "text/plain") if kind in data), "[HTML output]")


class Player:
    """A kernel that runs cells, with the text of each."""

    def __init__(self, client: NotebookClient) -> None:
        self._client = client

    def run(self, source: str) -> str:
        cell = nbformat.v4.new_code_cell(source)
        self._client.nb.cells.append(cell)
        self._client.execute_cell(cell, len(self._client.nb.cells) - 1, store_history=True)
        texts = [text_of(output) for output in cell.outputs]
        for text in texts:
            assert "VBox(" not in text and " object at 0x" not in text and text != "[HTML output]"
            assert len(text.rstrip("\n").split("\n")) <= MOST_LINES
        return "\n".join(texts)

    def facts(self, source: str) -> Any:
        return json.loads(self.run(f"{source} --json"))


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Player]:
    monkeypatch.setenv("TRITONLAB_NOTEBOOK", str(tmp_path / "book.ipynb"))
    monkeypatch.chdir(tmp_path)
    resources = {"metadata": {"path": str(tmp_path)}}
    notebook = nbformat.v4.new_notebook()
    client = NotebookClient(notebook, timeout=60, allow_errors=True, resources=resources, kernel_name="python3")
    with client.setup_kernel():
        yield Player(client)


@pytest.mark.filterwarnings("ignore:.*TCP without encryption")
def test_a_broken_model_becomes_a_verified_export(player: Player) -> None:
    player.run("%load_ext tritonlab")
    line, source = LINE, BROKEN

    # the syntax error: which line, and what is expected there
    output = player.run(f"{line}\n{source}")
    found = re.search(r"Cell In\[\d+\], line (\d+)[\s\S]*SyntaxError: expected '(.)'", output)
    assert found is not None, output
    assert player.facts("%triton status scale")["error"]["where"].endswith(f"line {found[1]}")
    lines = [line, *source.splitlines()]
    lines[int(found[1]) - 1] += found[2]
    source = "\n".join(lines[1:])
    assert re.search(r"^scale  READY", player.run(f"{line}\n{source}"), re.MULTILINE)

    # the wrong shape: what to send instead
    output = player.run("scale(X=[1, 2])")
    found = re.search(r"Hint: send an array of shape \[batch ≤ \d+, (\d+)\]", output)
    assert found is not None, output
    request = f"X=[{[float(n + 1) for n in range(int(found[1]))]}]"
    (response,) = player.facts(f"%triton infer scale {request}")["responses"]
    assert response["error"] is None and response["outputs"]["Y"]["values"] == [[0.25, 0.5, 0.75, 1.0]]

    # the wrong datatype, which Triton would pass on without a word
    (warning,) = player.facts("%triton status scale")["warnings"]
    found = re.search(r"'(\w+)' is (\w+) where the config says (\w+)", warning)
    assert found is not None, warning
    line = line.replace(f"{found[1]}:{found[3]}", f"{found[1]}:{found[2]}")
    output = player.run(f"{line}\n{source}")
    assert "READY" in output and "warning" not in output
    player.run(f"%triton infer scale {request}")
    assert player.facts("%triton status scale")["warnings"] == []

    # kept, exported, and requested again of a server of the export alone
    assert player.facts(f"%triton golden add scale {request}")["kept"].endswith("001.json")
    assert player.facts("%triton golden check")["passed"] is True
    written = player.facts("%triton export scale book")
    assert written["models"][0]["files"] == ["1/model.py", "config.pbtxt"]
    verdict = player.run(f"!{sys.executable} -m tritonlab test {written['repository']}")
    assert "golden: 1 of 1 answers are the same" in verdict
