"""Google Colab's kernel has IPython 7.34 and ipykernel 6.17, which have no public name for a cell's file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from .test_player import Player

pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings("ignore:.*TCP without encryption")]

#: What the two need beside what is installed here.
PACKAGES = ("ipython==7.34.0", "ipykernel==6.17.1", "pickleshare", "backcall", "nest_asyncio", "decorator")

MODEL = """%%triton_model half --max-batch-size 4 --input X:FP32[2] --output Y:FP32[2]
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        print("asked by", len(requests))
        found = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        assert all(x.min() >= 0 for x in found), "negative"
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x / np.float32(2))]) for x in found]
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("older")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"no IPython 7.34: {done.stderr.strip()[-300:]}")
    return target


@pytest.fixture
def player(packages: Path, tmp_path: Path) -> Iterator[Player]:
    notebook = nbformat.v4.new_notebook()
    resources = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(notebook, timeout=60, allow_errors=True, resources=resources, kernel_name="python3")
    with client.setup_kernel(env={**os.environ, "PYTHONPATH": str(packages)}):
        yield Player(client)


def test_a_cell_becomes_a_model_and_its_errors_point_into_it(player: Player) -> None:
    assert player.run("import IPython; IPython.__version__") == "'7.34.0'"
    player.run("%load_ext tritonlab")
    assert player.run(MODEL).startswith("half  READY")
    said = player.run("half(X=[[1.0, 3.0]])")
    assert said.startswith("half | asked by 1\n") and "[[0.5, 1.5]]" in said
    said = player.run("half(X=[[1.0, -3.0]])")
    assert "----> 1 half(X=[[1.0, -3.0]])" in said
    assert "Cell In[3] in execute()" in said
    assert '----> 9         assert all(x.min() >= 0 for x in found), "negative"' in said
    assert "AssertionError: negative" in said


def test_a_broken_cell_keeps_the_version_that_serves(player: Player) -> None:
    player.run("%load_ext tritonlab")
    player.run(MODEL)
    said = player.run(MODEL.replace("requests):", "requests)"))
    assert "SyntaxError" in said and "Cell In[3]" in said and "line 6" in said
    assert player.facts("%triton why half")["reasons"][0]["where"] == "Cell In[3], line 6"
    assert "[[0.5, 1.5]]" in player.run("half(X=[[1.0, 3.0]])")
    assert player.run(MODEL.replace("numpy as np", "numpyy as np")).count("No module named 'numpyy'") >= 1
    assert player.facts("%triton why half")["reasons"][0]["where"] == "Cell In[6], line 2"
