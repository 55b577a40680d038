"""The plugin in test runs of their own, as a model's author has them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models import answers

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = ROOT / "tritonlab" / "site_packages"

MODEL = answers("2 * x")
CONFIG = """\
input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }
"""

Run = Callable[[str], tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run pytest on a test file beside a model directory `models/double`; return exit code and output."""
    version = tmp_path / "models" / "double" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(MODEL)
    (version.parent / "config.pbtxt").write_text(CONFIG)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --triton-simulated-gpus=2\n")

    def run(text: str) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(textwrap.dedent(text))
        done = subprocess.run(
            # named, because a checkout need not be installed; the entry point names the same module
            [sys.executable, "-m", "pytest", "-q", "-p", "pytest_tritonlab", "-p", "no:cacheprovider", "test_it.py"],
            env={"PYTHONPATH": f"{ROOT}:{PLUGIN}", "PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=110,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_models_are_loaded_and_unloaded(run: Run) -> None:
    code, output = run(
        """
        import numpy as np
        import pytest
        import triton_python_backend_utils as pb_utils

        SOURCE = open("models/double/1/model.py").read()


        def test_a_directory(triton_model, triton_server):
            double = triton_model("models/double")
            assert double(IN=np.float32([1, 2]))["OUT"].tolist() == [2, 4]
            assert [(each["kind"], each["device_id"]) for each in double.instances()] == [("GPU", 0), ("GPU", 1)]
            assert [entry["name"] for entry in triton_server.index() if entry.get("state") == "READY"] == ["double"]


        def test_a_text_with_options(triton_model, triton_server):
            model = triton_model("other", SOURCE, max_batch_size=2, inputs=["IN:FP32[1]"], outputs=["OUT:FP32[1]"])
            assert model(IN=[[1.5]])["OUT"].tolist() == [[3.0]]
            assert not triton_server.model("double").ready()


        def test_a_broken_one(triton_model):
            with pytest.raises(Exception, match="NameError"):
                triton_model("broken", "x = y\\n", inputs=["IN:FP32[1]"], outputs=["OUT:FP32[1]"])


        def test_without_a_server():
            request = pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name="m")
            assert request.inputs() == []
        """
    )
    assert (code, "4 passed" in output) == (0, True), output


def test_a_check_fails_with_what_it_found(run: Run) -> None:
    code, output = run(
        """
        import pytest

        import triton_python_backend_utils as pb_utils


        class Typed:
            def execute(self, requests):
                arrays = [pb_utils.get_input_tensor_by_name(each, "IN").as_numpy() for each in requests]
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each.astype("f8"))]) for each in arrays]


        @pytest.mark.triton_check(seconds=3, relations=["answers"])
        def test_right(triton_check):
            result = triton_check("models/double", seed=5)
            assert (result.ok, result.seed, [one.relation for one in result.tried]) == (True, 5, ["answers"])


        @pytest.mark.triton_check(seconds=3, relations=["answers"])
        def test_wrong(triton_model, triton_check):
            triton_check(triton_model("typed", Typed, inputs=["IN:FP32[1]"], outputs=["OUT:FP32[1]"]))
        """
    )
    assert (code, "1 failed, 1 passed" in output) == (1, True), output
    assert "Check of typed: 1 finding" in output and "FP64" in output
    assert "Traceback" not in output and "pytest_tritonlab.py" not in output


def test_a_marker_without_the_fixture_fails(run: Run) -> None:
    code, output = run(
        """
        import pytest


        @pytest.mark.triton_check(seconds=3)
        def test_nothing_is_checked():
            pass


        @pytest.mark.triton_check(seconds=3)
        class TestOthers:
            def test_takes_it(self, triton_check):
                pass

            def test_needs_no_check(self):
                pass
        """
    )
    assert (code, "2 passed, 1 error" in output) == (1, True), output
    assert "triton_check at test_nothing_is_checked checks nothing" in output


def test_an_unused_plugin_imports_nothing(run: Run) -> None:
    code, output = run(
        """
        import sys


        def test_nothing():
            loaded = {name.partition(".")[0] for name in sys.modules}
            assert "pytest_tritonlab" in loaded
            assert not loaded & {"tritonlab", "numpy", "google", "grpc", "IPython"}
        """
    )
    assert code == 0, output


def test_pyproject_names_the_plugin() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"tritonlab": "pytest_tritonlab"}
    assert (PLUGIN / "pytest_tritonlab.py").is_file()
