from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models import IDENTITY
from tests.serving import write_model
from tritonlab import Server, export
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import Code
from tritonlab.exchanges.exchange import Exchange
from tritonlab.tools.deploy.verify.judgement import ModelJudgement, judge
from tritonlab.tools.deploy.verify.release_verdict import ReleaseVerdict
from tritonlab.tools.deploy.verify.shipped_requests import ship_requests
from tritonlab.tools.deploy.verify.verdict_history import VerdictHistory

from .test_differences import answer, error
from .test_judgement import answers, case_of

MISSING = error(Code.NOT_FOUND, "no such file")
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


def history_of(directory: Path, release: str, model: Mapping[str, Any]) -> VerdictHistory:
    """Return the history with one verdict on the present files."""
    history = VerdictHistory(directory, directory, {})
    verdict = {"triton": release, "verdict": "", "models": {"m": model}}
    history.record.write_text(json.dumps({"files": {}, "when": "2026-11-28T", "verified": [verdict]}))
    return VerdictHistory(directory, directory, {})


@pytest.mark.parametrize(
    ("notebook", "there", "release", "is_open"),
    [
        (answer(1), answer(1), "2.51", False),
        (answer(1), answer(2), "2.51", True),
        (MISSING, error(Code.NOT_FOUND, "worded differently"), "2.51", True),
        (MISSING, error(Code.INVALID_ARG, MISSING.error_text), "2.51", True),
        # known of that release
        (MISSING, error(Code.NOT_FOUND, "worded differently"), "2.41", False),
        (MISSING, error(Code.INVALID_ARG, MISSING.error_text), "2.41", False),
    ],
)
def test_a_difference_stays_open_until_its_request_is_sent_again(
    tmp_path: Path, notebook: Exchange, there: Exchange, release: str, is_open: bool
) -> None:
    case = case_of(notebook)
    found = judge(answers(notebook), answers(there), [case], release=release, places=("", ""))
    history = history_of(tmp_path, release, found.to_dict())
    silent = ReleaseVerdict(release, "wheel", models=(ModelJudgement("m", ()),))
    assert [*history.still_open(silent)] == ["m differed on 2026-11-28 for one, which was not sent again"] * is_open
    assert not [*history.still_open(ReleaseVerdict(release, "wheel", models=(found,)))]
    assert not [*history.still_open(ReleaseVerdict("2.50", "wheel", models=silent.models))]
