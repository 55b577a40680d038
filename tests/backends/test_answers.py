"""The card, the status table, the graph and exports of models that do not answer themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tritonlab
from tests.backends.onnx_models import three_layers, write
from tests.conformance.rules import rule
from tests.models import IDENTITY
from tests.serving import config
from tritonlab import Server
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.views.card.card import card_text
from tritonlab.notebook.views.card.model_facts import current_facts
from tritonlab.notebook.views.card.status_table import status_table
from tritonlab.server.models.backend_choice import CHOICES_FILE, PARAMETER
from tritonlab.tools.deploy.left_out import NotDeployable

BEFORE = config("IN FP32 64", "OUT FP32 64", "max_batch_size: 4")
ENGINE = """# tuned by hand
platform: "tensorrt_plan" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 64 } output { name: "y" data_type: TYPE_FP32 dims: 16 }
instance_group { kind: KIND_GPU }
"""
ENSEMBLE = """platform: "ensemble" max_batch_size: 4
input { name: "RAW" data_type: TYPE_FP32 dims: 64 } output { name: "Y" data_type: TYPE_FP32 dims: 16 }
ensemble_scheduling { step [
  { model_name: "before" model_version: -1 input_map { key: "IN" value: "RAW" } output_map { key: "OUT" value: "X" } },
  { model_name: "STEP" model_version: -1 input_map { key: "x" value: "X" } output_map { key: "y" value: "Y" } } ] }
"""
STAND_IN = "stand-in that invents its answers (random)"
REAL = "real: the model itself, run by ONNX Runtime here"


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    write(repository, "before", {"model.py": IDENTITY}, BEFORE)
    write(repository, "mlp", {"model.onnx": three_layers()})
    write(repository, "engine", {"model.plan": b"of another machine"}, ENGINE)
    write(repository, "nothing", {}, ENGINE)
    write(repository, "elsewhere", {"model.savedmodel/saved_model.pb": b"graph"})
    write(repository, "pipeline", {}, ENSEMBLE.replace("STEP", "mlp"))
    write(repository, "engines", {}, ENSEMBLE.replace("STEP", "engine"))
    (repository.parent / CHOICES_FILE).write_text('[backends]\ntensorrt = "stand-in:random"\n')
    with Server(repository, exit_on_error=False) as server:
        yield server


@pytest.fixture(scope="module")
def workspace(server: Server, repository: Path) -> Iterator[Workspace]:
    workspace = Workspace(server, repository)
    yield workspace
    workspace.close()


@rule("2.13.1")
def test_a_model_whose_backend_is_missing_does_not_stop_the_others(server: Server, workspace: Workspace) -> None:
    states = {name: model.state for (name, _), model in server.models().items()}
    assert states.pop("elsewhere") == "UNAVAILABLE"
    assert set(states.values()) == {"READY"}
    line = 'tritonlab.reset(backends={"elsewhere": "stand-in"})'
    assert line in server.model("elsewhere").reason
    assert line in str(status_table(workspace))
    assert line in card_text(current_facts(workspace, "elsewhere"))


def test_cards_and_the_status_table_say_what_answers(server: Server, workspace: Workspace) -> None:
    table = str(status_table(workspace))
    assert f"engine: {STAND_IN}" in table and f"mlp: {REAL}" in table
    assert STAND_IN in card_text(current_facts(workspace, "engine"))
    assert REAL in card_text(current_facts(workspace, "mlp"))
    assert current_facts(workspace, "before").answers == current_facts(workspace, "pipeline").answers == ""


def test_the_graph_says_what_answered_a_step(server: Server) -> None:
    for name, step, words in (("pipeline", "mlp", REAL), ("engines", "engine", STAND_IN)):
        model = server.model(name)
        view = model.view("graph")
        (response,) = model.infer(inputs={"RAW": np.ones((1, 64), np.float32)})
        assert response.outputs["Y"].shape == (1, 16)
        assert f" {step}: {words}." in view.text()


@rule("2.13.2")
def test_an_export_has_the_real_model_and_no_choice(server: Server, tmp_path: Path) -> None:
    report = tritonlab.export(server.model("pipeline"), tmp_path)
    assert (tmp_path / "mlp" / "1" / "model.onnx").read_bytes() == three_layers().SerializeToString()
    assert not report.plan.warnings and not [each.plan.warnings for each in report.composing if each.plan.warnings]
    report = tritonlab.export(server.model("engine"), tmp_path)
    assert (tmp_path / "engine" / "config.pbtxt").read_text() == ENGINE
    assert (tmp_path / "engine" / "1" / "model.plan").read_bytes() == b"of another machine"
    assert report.plan.warnings == (
        f"it did not answer itself here ({STAND_IN}): what was exported are its own files, which never ran here",
    )
    assert PARAMETER in server.model("engine").config()["parameters"]


@rule("2.13.2")
def test_a_stand_in_without_its_model_is_not_exported(server: Server, tmp_path: Path) -> None:
    with pytest.raises(NotDeployable, match=r"'nothing' cannot be exported: it does not answer itself here \(stand-in"):
        tritonlab.export(server.model("nothing"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
