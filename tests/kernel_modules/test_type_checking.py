"""mypy on a model.py, with nothing but tritonlab installed: the types are in triton_python_backend_utils-stubs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

MODEL = """\
from __future__ import annotations

import json

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config: pb_utils.ModelConfig) -> pb_utils.ModelConfig:
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]})
        return config

    def initialize(self, args: dict[str, str]) -> None:
        self.config = json.loads(args["model_config"])
        self.family = pb_utils.MetricFamily("calls", "how often", pb_utils.MetricFamily.COUNTER)
        self.calls = self.family.Metric(labels={"model": args["model_name"]})

    def execute(self, requests: list[pb_utils.InferenceRequest]) -> list[pb_utils.InferenceResponse]:
        responses = []
        for request in requests:
            data = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            bls = pb_utils.InferenceRequest(inputs=request.inputs(), requested_output_names=[], model_name="other")
            answer = bls.exec()
            if answer.has_error():
                raise pb_utils.TritonModelException(answer.error().message())
            for part in bls.exec(decoupled=True):
                pb_utils.Logger.log_info(str(len(part.output_tensors())))
            self.calls.increment(1)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", data)]))
        return responses
"""


WRONG = (
    MODEL.replace("data)]))", "data.tolist())], error='late'))")
    .replace("request.inputs(),", "request.input(),")
    .replace("pb_utils.MetricFamily.COUNTER", "pb_utils.MetricFamily.TALLY")
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what mypy finds of both, in one run, which reads the types of numpy once."""
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    if not any((Path(folder) / "triton_python_backend_utils-stubs").is_dir() for folder in sys.path):
        pytest.skip("tritonlab is not installed, only imported from its checkout: type checkers cannot find it there")
    directory = tmp_path_factory.mktemp("typed")
    for name, text in (("model", MODEL), ("wrong", WRONG)):
        (directory / f"{name}.py").write_text(text)
    # without the project's own settings, as in an author's directory
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-color-output", "--config-file=", "model.py", "wrong.py"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=110,
    )
    return done.stdout + done.stderr


def test_a_good_model_passes_strict(found: str) -> None:
    assert found.splitlines()[-1].endswith("in 1 file (checked 2 source files)")
    assert "model.py" not in found


def test_mistakes_are_found(found: str) -> None:
    assert '"InferenceRequest" has no attribute "input"' in found
    assert 'has no attribute "TALLY"' in found
    assert 'Argument "error" to "InferenceResponse" has incompatible type "str"' in found


def test_the_types_have_the_names_of_the_module() -> None:
    import triton_python_backend_utils as pb_utils

    stubs = Path(__file__).resolve().parents[2] / "tritonlab" / "site_packages" / "triton_python_backend_utils-stubs"
    (line,) = [line for line in (stubs / "__init__.pyi").read_text().splitlines() if not line.startswith("#")]
    assert line == f"from tritonlab.kernel_modules.{pb_utils.__name__} import *"
