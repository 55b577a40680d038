from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.models import IDENTITY
from tests.serving import write_model
from tritonlab import Server, export
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Exchange
from tritonlab.tools.deploy.verify.shipped_requests import ship_requests
from tritonlab.tools.deploy.verify.verdict_history import VerdictHistory

TEXT = 'input { name: "IN" data_type: TYPE_FP32 dims: [-1] } output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }'


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_zip_has_the_verdict_on_its_files_and_the_requests(tmp_path: Path, is_whole: bool) -> None:
    write_model(tmp_path / "source", "one", IDENTITY, TEXT)
    with Server(tmp_path / "source", warm=0) as server:
        report = export(server.model("one"), tmp_path / "out" / "models")
    (tmp_path / "out" / "models.export.json").unlink()
    plain = set(zipfile.ZipFile(report.zip().path).namelist())
    root = tmp_path / "out" if is_whole else tmp_path / "out" / "models"
    history = VerdictHistory(root, report.repository)
    history.record.write_text(json.dumps({"files": history.files}))
    history.page.write_text("page")
    inputs = {"IN": Tensor(DataType.FP32, (1,), np.array([1], np.float32))}
    ship_requests(root, [Exchange(InferenceRequest(name, inputs), name="ok") for name in ("one", "other")])
    added = set(zipfile.ZipFile(report.zip().path).namelist()) - plain
    before = "" if is_whole else "models."
    assert {f"{before}verify.html", f"{before}export.json", f"{before}requests/one/ok.json"} <= added
    assert not [name for name in added if "other" in name]
    (report.path / "1" / "model.py").write_text("changed")  # then it is a verdict on other files
    assert set(zipfile.ZipFile(report.zip().path).namelist()) == plain
