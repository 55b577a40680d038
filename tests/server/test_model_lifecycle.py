"""What a load says of a configuration that this server cannot serve as the peer would."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonlab.core.status import Code, ModelLoadError
from tritonlab.server.in_process import Server
from tritonlab.server.model_lifecycle import TRANSITIONS, ModelEvent, ModelState

MODEL = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
ENSEMBLE = """
platform: "ensemble"
input [{ name: "A" data_type: TYPE_FP32 dims: [1] }]
output [{ name: "B" data_type: TYPE_FP32 dims: [1] }]
ensemble_scheduling {
  step [{ model_name: "plain" model_version: -1 input_map { key: "I" value: "A" } output_map { key: "O" value: "B" } }]
}
"""


def place(repository: Path, name: str, config: str) -> None:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1" / "model.py").write_text(MODEL)
    (repository / name / "config.pbtxt").write_text(config)


def test_an_ensemble_is_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    place(tmp_path, "chain", ENSEMBLE)
    with (
        Server(tmp_path, model_control_mode="explicit", warm_stubs=0) as server,
        pytest.raises(ModelLoadError, match=r"ensembles are not supported yet.*InferenceRequest\.exec") as failure,
    ):
        server.load("chain")
    assert "Unsupported: ensemble 'chain' cannot be loaded" in failure.value.message
    assert failure.value.code is Code.INVALID_ARG


def test_settings_without_an_effect_are_told(tmp_path: Path) -> None:
    place(tmp_path, "plain", 'model_warmup [{ name: "w" batch_size: 1 }]\nresponse_cache { enable: true }\n')
    with Server(tmp_path, model_control_mode="explicit", warm_stubs=0) as server:
        assert server.load("plain").state == "READY"
        warnings = [record.text for record in server.logs("plain") if record.level == "WARNING"]
    assert warnings == [
        "model_warmup is not run here: the model is READY after initialize",
        "response_cache has no effect here: every request is executed",
    ]


def test_a_version_that_serves_cannot_load_again() -> None:
    assert (ModelState.READY, ModelEvent.LOADED) not in TRANSITIONS
    assert {state for state, event in TRANSITIONS if event is ModelEvent.UNLOAD} == {ModelState.READY}
