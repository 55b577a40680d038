"""Configs from a sample request: its inputs, and the outputs that the model answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonlab import Server
from tritonlab.core.status import TritonError
from tritonlab.notebook.authoring.config_options import ConfigOptions
from tritonlab.notebook.authoring.errors import OptionError
from tritonlab.notebook.authoring.workspace import Workspace

SOURCE = """\
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(*(tensor.as_numpy() for tensor in request.inputs())) for request in requests]
    def answer(self, x, name):
        text = np.array([each.upper() for each in name.reshape(-1)], np.object_).reshape(name.shape)
        tensors = [pb_utils.Tensor("SUM", x.sum(-1, keepdims=True)), pb_utils.Tensor("BIG", text)]
        return pb_utils.InferenceResponse(tensors)
"""
SAMPLE = {"IN": np.ones((2, 3), np.float32), "NAME": np.array([[b"a"], [b"b"]], np.object_)}


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Server(tmp_path, model_control_mode="explicit", warm=0) as server:
        yield Workspace(server, tmp_path)


def tensors(config: dict[str, Any]) -> list[tuple[str, str, list[int]]]:
    return [(each["name"], each["data_type"], each["dims"]) for each in (*config["input"], *config["output"])]


def test_a_sample_gives_inputs_and_outputs(workspace: Workspace) -> None:
    model = workspace.load("sampled", SOURCE, sample=SAMPLE)
    assert tensors(model.config()) == [
        ("IN", "TYPE_FP32", [2, 3]),
        ("NAME", "TYPE_STRING", [2, 1]),
        ("SUM", "TYPE_FP32", [2, 1]),
        ("BIG", "TYPE_STRING", [2, 1]),
    ]
    assert model(**SAMPLE)["SUM"].tolist() == [[3], [3]]


def test_the_batch_dimension_is_not_in_the_config(workspace: Workspace) -> None:
    model = workspace.load("sampled", SOURCE, sample=SAMPLE, options=ConfigOptions(max_batch_size=4))
    assert [dims for _, _, dims in tensors(model.config())] == [[3], [1], [1], [1]]
    assert model(IN=np.ones((4, 3), np.float32), NAME=np.array([[b"x"]] * 4, np.object_))["BIG"].shape == (4, 1)


def test_what_the_author_wrote_counts(workspace: Workspace) -> None:
    options = ConfigOptions(inputs=["IN:FP32[-1,3]", "NAME:STRING[-1,1]"])
    model = workspace.load("sampled", SOURCE, sample=SAMPLE, options=options)
    assert [dims for _, _, dims in tensors(model.config())] == [[-1, 3], [-1, 1], [2, 1], [2, 1]]


def test_a_sample_that_the_model_refuses_is_its_error(workspace: Workspace) -> None:
    with pytest.raises(TritonError, match="answer"):
        workspace.load("sampled", SOURCE, sample={"IN": np.ones(3, np.float32)})
    with pytest.raises(OptionError, match=r"the sample of IN has no dimension: give \[value\]"):
        workspace.load("sampled", SOURCE, sample={"IN": np.float32(1)})


def test_a_cell_names_it_as_a_request(notebook: Any) -> None:
    assert notebook.run("import numpy as np").success
    assert notebook.run(
        f"%%triton_model sampled --quiet --sample \"IN=np.ones((2, 3), 'f4'), NAME=[[b'a'], [b'b']]\"\n{SOURCE}"
    ).success
    assert notebook.run("sampled.config()['output'][0]['dims']").result == [2, 1]


@pytest.mark.parametrize(
    ("fails", "error"),
    [("1 / 0", TritonError), ("return pb_utils.InferenceResponse([pb_utils.Tensor('SUM', np.array(1))])", OptionError)],
)
def test_a_sample_that_fails_leaves_the_former_model(workspace: Workspace, fails: str, error: type[Exception]) -> None:
    workspace.load("sampled", SOURCE, sample=SAMPLE)
    failing = SOURCE.replace("text = np", f"{fails}\n        text = np")
    with pytest.raises(error):
        workspace.load("sampled", failing, sample=SAMPLE)
    assert workspace.server.model("sampled")(**SAMPLE)["SUM"].tolist() == [[3], [3]]
    assert (source := workspace.draft("sampled").source) is not None and source.text() == failing


def test_a_first_sample_that_fails_leaves_no_model(workspace: Workspace) -> None:
    with pytest.raises(TritonError):
        workspace.load("sampled", SOURCE, sample={"IN": np.ones(3, np.float32)})
    assert not workspace.server.model("sampled").ready()
