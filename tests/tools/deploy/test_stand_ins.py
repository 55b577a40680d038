"""A model that something else answers for is never exported, kept or proved as the real one without a line about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tritonlab
from tritonlab import Server
from tritonlab.exchanges.golden import GoldenSet, read_exchange
from tritonlab.exchanges.last_cases import answered_cases
from tritonlab.exchanges.sending import ask, asks_of
from tritonlab.record.recorder import Recorder
from tritonlab.server.api.needed_models import stood_in, stood_in_words
from tritonlab.tools.deploy.manifests.facts import deployment_of
from tritonlab.tools.deploy.manifests.files import render
from tritonlab.tools.deploy.verify.judgement import kept_answer

IO = 'input { name: "X" data_type: TYPE_FP32 dims: [-1] } output { name: "Y" data_type: TYPE_FP32 dims: [-1] }'
ENSEMBLE = """platform: "ensemble" ensemble_scheduling { step { model_name: "net" model_version: -1
  input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" } } }
"""
CALLS = """import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        asked = pb_utils.InferenceRequest(model_name="net", requested_output_names=["Y"], inputs=request.inputs())
        return pb_utils.InferenceResponse(asked.exec().output_tensors())
"""
WORDS = "stand-in that invents its answers (zeros)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of `net`, a network for TensorRT that a stand-in answers for, and two models that need it."""
    repository = tmp_path_factory.mktemp("stand-ins") / "models"
    files = {
        "net/config.pbtxt": 'platform: "tensorrt_plan"' + IO,
        "net/1/model.plan": "a network",
        "steps/config.pbtxt": ENSEMBLE + IO,
        "steps/1/.gitkeep": "",
        "calls/config.pbtxt": 'backend: "python"' + IO,
        "calls/1/model.py": CALLS,
    }
    for name, text in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    with Server(repository, backends={"net": "stand-in"}, warm=0) as server:
        Recorder.for_instruments(server.instruments)
        for name in NAMES:
            server.model(name)(X=np.ones(2, np.float32))
        yield server


NAMES = ("net", "steps", "calls")


def test_an_export_names_it_also_where_it_is_needed(server: Server, tmp_path: Path) -> None:
    report = tritonlab.export([server.model(name) for name in NAMES], tmp_path / "out" / "models", deploy="docker")
    for each in report.reports:
        (warning,) = [text for text in each.plan.warnings if WORDS in text]
        assert each.path.name == "net" or warning.startswith("it needs 'net', which did not answer itself here")
    page = (tmp_path / "out" / "README.md").read_text()
    assert f"They never ran there.\n\n- `net`: {WORDS}\n" in page
    alone = tritonlab.export(server.model("steps"), tmp_path / "alone", alone=True)
    assert any("it needs 'net', which did not answer itself here" in text for text in alone.plan.warnings)


@pytest.mark.parametrize("name", NAMES)
def test_its_answers_are_not_called_the_notebooks(server: Server, name: str, tmp_path: Path) -> None:
    model = server.model(name)
    assert stood_in(model) == {"net": WORDS}
    (case,) = [each for each in answered_cases([server.model(each) for each in NAMES]) if each.model == name]
    assert case.unanswered == stood_in_words(model) and kept_answer(case) is None
    golden = GoldenSet(tmp_path, asks_of(server), lambda each: stood_in_words(server.model(each)))
    kept = read_exchange(golden.add(ask(model, model.create_request(inputs={"X": np.ones(2, np.float32)}))))
    assert kept.unanswered == stood_in_words(model) and kept_answer(kept) is None
    assert golden.check().passed  # it still notices that the stand-in answers otherwise
    deployed = deployment_of([model], "2.51", cases=[kept])
    assert not deployed.models[0].recorded and WORDS in render("README.md", deployed)
