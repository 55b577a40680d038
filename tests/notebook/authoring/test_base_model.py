"""Models whose config comes from the type hints of a base class, which is exported as a plain file."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import tritonlab
from tritonlab import Server
from tritonlab.core.status import ModelLoadError
from tritonlab.kernel_modules import BASE_FILE
from tritonlab.notebook.authoring.workspace import Workspace

SOURCE = """\
from base_triton_python_model import BaseTritonPythonModel


class TritonPythonModel(BaseTritonPythonModel):
    max_batch_size = 8

    def predict(self, A: "FP32[4]", B: "FP32[4]?" = None) -> {"SUM": "FP32[4]"}:
        if A.min() < 0:
            raise ValueError("it is negative")
        return {"SUM": A if B is None else A + B}
"""
ROW = np.arange(4, dtype=np.float32).reshape(1, 4)


@pytest.mark.parametrize("head", ["", "from __future__ import annotations\n"])
def test_the_config_comes_from_hints_here_and_where_it_is_deployed(tmp_path: Path, head: str) -> None:
    (tmp_path / "source").mkdir()
    with Server(tmp_path / "source", model_control_mode="explicit") as server:
        model = Workspace(server, tmp_path / "source").load("hinted", head + SOURCE)
        config = model.config()
        assert (config["max_batch_size"], [each["name"] for each in config["input"]]) == (8, ["A", "B"])
        assert config["input"][1]["optional"] and config["output"][0]["dims"] == [4]
        assert model(A=ROW, B=ROW)["SUM"].tolist() == (ROW * 2).tolist()
        assert model(A=ROW)["SUM"].tolist() == ROW.tolist()
        with pytest.raises(tritonlab.TritonError, match="it is negative"):
            model(A=-ROW)
        report = tritonlab.export(server.model("hinted"), tmp_path / "models")
    assert report.plan.warnings == ()
    assert (tmp_path / "models/hinted/1" / BASE_FILE.name).read_bytes() == BASE_FILE.read_bytes()
    with Server(tmp_path / "models") as server:
        assert server.model("hinted")(A=ROW)["SUM"].tolist() == ROW.tolist()


def test_a_method_without_hints_is_refused_with_the_form(tmp_path: Path) -> None:
    with Server(tmp_path, model_control_mode="explicit") as server, pytest.raises(ModelLoadError) as raised:
        Workspace(server, tmp_path).load("hinted", SOURCE.replace(': "FP32[4]",', ","))
    assert "A of predict needs a hint as 'FP32[-1,4]'" in str(raised.value)


def test_the_file_stands_alone_on_the_oldest_python() -> None:
    text = BASE_FILE.read_text()
    ast.parse(text, feature_version=(3, 8))
    assert "tritonlab" not in text
