"""A Python-based backend goes with the models that it runs, wherever they are exported."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tritonlab
from tritonlab import Server, export
from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.tools.deploy.export_options import ExportOptionError
from tritonlab.tools.deploy.left_out import NotDeployable
from tritonlab.tools.deploy.own_backends import find_own_backend

MODEL = """import os
import numpy as np
import triton_python_backend_utils as pb_utils
import helper

class TritonPythonModel:
    def initialize(self, args):
        self.factor = float(open(os.path.join(os.path.dirname(__file__), "table.txt")).read()) * helper.ONE

    def execute(self, requests):
        values = [pb_utils.get_input_tensor_by_name(each, "X").as_numpy() for each in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * np.float32(self.factor))]) for x in values]
"""
CONFIG = """backend: "mine"
input { name: "X" data_type: TYPE_FP32 dims: [-1] }
output { name: "Y" data_type: TYPE_FP32 dims: [-1] }
"""


def write_backend(directory: Path) -> None:
    """Write the backend `mine` to a backend directory: it answers `X * 7`."""
    for name, text in {"model.py": MODEL, "helper.py": "ONE = 1\n", "table.txt": "7", ".hidden": "x"}.items():
        (directory / "mine").mkdir(parents=True, exist_ok=True)
        (directory / "mine" / name).write_text(text)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with the model `m` of the backend `mine`, whose directory has a compiled-looking neighbour."""
    write_backend(tmp_path / "author" / "backends")
    (tmp_path / "source" / "m" / "1").mkdir(parents=True)
    (tmp_path / "source" / "m" / "1" / "weights.txt").write_text("1")
    (tmp_path / "source" / "m" / "config.pbtxt").write_text(CONFIG)
    with Server(tmp_path / "source", backend_directory=tmp_path / "author" / "backends") as server:
        yield server


def test_the_backend_is_exported_next_to_the_repository(server: Server, tmp_path: Path) -> None:
    report = tritonlab.export(server.model("m"), tmp_path / "out" / "models", deploy="docker,kserve")
    brought = tmp_path / "out" / "backends" / "mine"
    assert sorted(path.name for path in brought.iterdir()) == ["helper.py", "model.py", "table.txt"]
    assert report.backends == ["mine"] and not report.incomplete
    (place, hidden) = [each for each in report.plan.warnings if "mine" in each]
    assert "exported to backends/mine/" in place and "/opt/tritonserver/backends/mine/" in place and ".hidden" in hidden
    assert not [each for each in report.plan.warnings if "table.txt" in each]  # which goes with it
    assert (
        "COPY --chown=1000:1000 backends /opt/tritonserver/backends"
        in (tmp_path / "out" / "deploy" / "Dockerfile").read_text()
    )
    assert "m:24.10" in (tmp_path / "out" / "deploy" / "kserve" / "serving-runtime.yaml").read_text()
    assert "`mine`" in (tmp_path / "out" / "README.md").read_text()
    triton, here = report.commands()
    assert f"-v {brought}:/opt/tritonserver/backends/mine" in triton
    assert here.endswith(f" --backend-directory={tmp_path}/out/backends")
    assert {"backends/mine/model.py", "backends/mine/table.txt"} <= set(zipfile.ZipFile(report.zip().path).namelist())
    with pytest.raises(ExportOptionError, match="the Python-based backend 'mine' runs a model of this export"):
        tritonlab.export(server.model("m"), tmp_path / "ray" / "models", deploy="ray")
    # what was exported serves alone
    with Server(tmp_path / "out" / "models", backend_directory=tmp_path / "out" / "backends", warm=0) as again:
        np.testing.assert_array_equal(again.model("m")(X=np.ones(2, np.float32))["Y"], [7, 7])


def test_a_plain_export_has_it_and_does_not_replace_another_unasked(server: Server, tmp_path: Path) -> None:
    export(server.model("m"), tmp_path / "plain")
    brought = tmp_path / "plain.backends" / "mine"
    assert (brought / "table.txt").read_text() == "7" and not (tmp_path / "backends").exists()
    (brought / "table.txt").write_text("8")
    with pytest.raises(FileExistsError, match=r"plain.backends/mine/table.txt"):
        export(server.model("m"), tmp_path / "plain")
    export(server.model("m"), tmp_path / "plain", overwrite=True)
    assert (brought / "table.txt").read_text() == "7"


def test_a_backend_that_is_gone_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "author" / "backends" / "mine" / "model.py").unlink()
    with pytest.raises(NotDeployable, match=r"it is run by the backend 'mine', and .*/mine/model.py does not exist"):
        export(server.model("m"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_preflight_takes_its_files_and_modules_for_the_models_own(server: Server) -> None:
    found = server.model("m").preflight()
    assert [each.row for each in found.findings if each.row != "P5"] == []


def test_an_opened_repository_is_exported_with_it(server: Server, tmp_path: Path) -> None:
    tritonlab.reset(backend_directory=tmp_path / "author" / "backends", warm=0)
    try:
        report = tritonlab.open(tmp_path / "source").export(tmp_path / "whole")
        assert (tmp_path / "whole.backends" / "mine" / "model.py").is_file() and report.differs
        assert "exported to whole.backends/mine/" in str(report)
    finally:
        tritonlab.reset()


@pytest.mark.parametrize("config", ['backend: "onnxruntime"', 'backend: "python"', 'backend: "tensorrt"'])
def test_other_backends_are_the_servers(config: str, tmp_path: Path) -> None:
    assert find_own_backend("m", parse_pbtxt(config, ""), tmp_path) is None
