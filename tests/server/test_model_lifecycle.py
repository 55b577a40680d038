"""What a load says of a configuration that this server cannot serve as the peer would."""

from __future__ import annotations

from pathlib import Path

from tritonlab.server.in_process import Server
from tritonlab.server.model_lifecycle import TRANSITIONS, ModelEvent, ModelState

MODEL = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
def place(repository: Path, name: str, config: str) -> None:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1" / "model.py").write_text(MODEL)
    (repository / name / "config.pbtxt").write_text(config)


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
