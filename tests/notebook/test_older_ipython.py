"""Kernels that many have: Google Colab's has IPython 7.34 and ipykernel 6.17, where a cell's file has no public name;
ipykernel 6.29 shows what a thread prints below the cell that started the thread."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from .test_player import Player

pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings("ignore:.*TCP without encryption")]

COLAB = ("7.34.0", "6.17.1")
USUAL = ("8.37.0", "6.29.5")
#: What they need beside what is installed here.
MORE = ("pickleshare", "backcall", "nest_asyncio", "decorator")

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


@pytest.fixture(scope="module", params=[COLAB, USUAL], ids="IPython-{0[0]}".format)
def packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("older")
    wanted = [f"ipython=={request.param[0]}", f"ipykernel=={request.param[1]}", *MORE]
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), *wanted]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"no {wanted[0]}: {done.stderr.strip()[-300:]}")
    return target


@pytest.fixture
def player(packages: Path, tmp_path: Path) -> Iterator[Player]:
    notebook = nbformat.v4.new_notebook()
    resources = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(notebook, timeout=60, allow_errors=True, resources=resources, kernel_name="python3")
    with client.setup_kernel(env={**os.environ, "PYTHONPATH": str(packages)}):
        yield Player(client)


def test_a_cell_becomes_a_model_and_its_errors_point_into_it(player: Player) -> None:
    version = player.run("import IPython; IPython.__version__")
    assert version in ("'7.34.0'", "'8.37.0'")
    player.run("%load_ext tritonlab")
    assert player.run(MODEL).startswith("half  READY")
    output = player.run("half(X=[[1.0, 3.0]])")  # what the model prints, another thread reads
    assert output.startswith("half | asked by 1\n") and "[[0.5, 1.5]]" in output
    output = player.run("half(X=[[1.0, -3.0]])")
    assert "----> 1 half(X=[[1.0, -3.0]])" in output
    assert ("Cell In[3] in execute()" if version == "'7.34.0'" else "Cell In[3], line 9, in execute()") in output
    assert re.search(r'^----> 9 +assert all\(x.min\(\) >= 0 for x in found\), "negative"$', output, re.MULTILINE)
    assert "AssertionError: negative" in output


def test_a_broken_cell_keeps_the_version_that_serves(player: Player) -> None:
    player.run("%load_ext tritonlab")
    player.run(MODEL)
    output = player.run(MODEL.replace("requests):", "requests)"))
    assert "SyntaxError" in output and "Cell In[3]" in output and "line 6" in output
    assert player.facts("%triton why half")["reasons"][0]["where"] == "Cell In[3], line 6"
    assert "[[0.5, 1.5]]" in player.run("half(X=[[1.0, 3.0]])")
    assert player.run(MODEL.replace("numpy as np", "numpyy as np")).count("No module named 'numpyy'") >= 1
    assert player.facts("%triton why half")["reasons"][0]["where"] == "Cell In[6], line 2"
