"""The base install, without IPython and ipywidgets: everything but the widgets works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.models import answers

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import sys
for name in ("IPython", "ipywidgets", "ipykernel", "torch", "jupyterlab"):
    sys.modules[name] = None  # importing it raises

import numpy
import tritonlab

if __name__ == "__main__":
    model = tritonlab.load("m", SOURCE, max_batch_size=4, inputs=["IN:FP32[2]"], outputs="OUT:FP32[2]")
    print(model(IN=numpy.array([[1, 2]], numpy.float32))["OUT"].tolist())
    print(tritonlab.export(model, sys.argv[1]).plan.files)
    again = tritonlab.load("again", SOURCE)
    try:
        tritonlab.load("bad", "import nothere\\n")
    except tritonlab.ModelLoadError as error:
        print(error.exception.type_name)
    try:
        tritonlab.playground(model)
    except ModuleNotFoundError as error:
        print(error)
    tritonlab.reset()
"""


def test_the_functions_work_without_the_notebook_extras(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"SOURCE = {answers('-x')!r}\n{SCRIPT}")
    command = [sys.executable, "-W", "error", str(tmp_path / "script.py"), str(tmp_path / "models")]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, timeout=100
    )
    assert done.stdout.splitlines() == [
        "[[-1.0, -2.0]]",
        "('1/model.py', 'config.pbtxt')",
        "ModuleNotFoundError",
        "the playground needs ipywidgets: pip install 'tritonlab[lab]'",
    ], done.stderr
    assert done.stderr == ""
