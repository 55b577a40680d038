"""Environments of exports from an installed wheel, outside of the checkout, as everybody else has it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interpreters import ROOT, UV

#: Its releases for Python 3.11 do not install on 3.10, which the target's image has.
PACKAGE = "networkx>=3.5"
PROGRAM = """
import sys
from pathlib import Path
import tritonlab

root = Path(sys.argv[1])
with tritonlab.Server(root / "source", warm=0) as server:
    model = server.model("m")
    for choice in ("requirements", "dir"):
        print(tritonlab.export(model, root / choice / "models", env=choice, deploy="docker").environment)
print(tritonlab.__file__)
"""
MODEL = """
import networkx
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.get_input_tensor_by_name(each, "IN")]) for each in requests]
"""
TEXT = 'input { name: "IN" data_type: TYPE_FP32 dims: [-1] } output { name: "IN" data_type: TYPE_FP32 dims: [-1] }'


def install_wheel(place: Path, interpreter: str, *packages: str) -> Path:
    """Return the Python of a new environment that has the wheel of this checkout, and the packages."""
    pytest.importorskip("hatchling")
    if not UV.exists():
        pytest.skip("uv is not there: make matrix brings it")
    environment = {**os.environ, "UV_CACHE_DIR": str(ROOT / "build/matrix/cache")}
    made = place / "venv" / "bin" / "python"
    for command in (
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place],
        [UV, "venv", "-q", "--seed", "--python", interpreter, place / "venv"],
    ):
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
    wheel = next(place.glob("*.whl"))
    install = [UV, "pip", "install", "-q", "--python", made, "-c", ROOT / "tests/constraints.txt", wheel, *packages]
    subprocess.run(install, env=environment, check=True, capture_output=True, timeout=300)
    wheel.unlink()  # as after an installation from an index
    return made


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment that has the wheel of this checkout."""
    return install_wheel(tmp_path_factory.mktemp("installed"), sys.executable, PACKAGE)


def test_the_environment_has_the_imports_of_the_model_only(python: Path, tmp_path: Path) -> None:
    model = tmp_path / "source" / "m" / "1" / "model.py"
    model.parent.mkdir(parents=True)
    model.write_text(MODEL)
    (model.parents[1] / "config.pbtxt").write_text(TEXT)
    # the new environment has no bytecode yet, which its processes share
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    done = subprocess.run(
        [python, "-c", PROGRAM, tmp_path], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    locked, placed, file = done.stdout.splitlines()
    assert locked == "requirements.lock has 2 packages for Python 3.10" and file.startswith(str(python.parents[1]))
    assert placed.startswith("env has ") and "Python 3.11" in placed
    here, there = (pins(tmp_path / choice / "requirements.lock") for choice in ("dir", "requirements"))
    assert set(here) == set(there) == {"networkx", "numpy"}
    assert here["networkx"] > there["networkx"] == "3.4.2"  # the last one for 3.10
    packages = {path.name for path in (tmp_path / "dir/models/m/env/lib/python3.11/site-packages").iterdir()}
    assert {"networkx", "numpy"} <= packages and not [name for name in packages if "triton" in name]
    shutil.rmtree(tmp_path / "dir")  # 100 MB


def pins(lock: Path) -> dict[str, str]:
    lines = [line.partition(" ")[0] for line in lock.read_text().splitlines() if not line.startswith("#")]
    return dict((name, version) for name, _, version in (line.partition("==") for line in lines))
