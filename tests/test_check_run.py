"""`tritonlab check`, the way it is run in CI."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.models import IDENTITY
from tests.serving import write_model
from tritonlab.__main__ import main

CONFIG = 'input { name: "IN" data_type: TYPE_FP32 dims: [-1] } output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }'


def test_each_model_has_its_result_whether_it_loads_or_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path / "models", "broken", "raise ValueError('\\x1b[31m\\0')", CONFIG)
    write_model(tmp_path / "models", "sound", IDENTITY, CONFIG)
    monkeypatch.chdir(tmp_path / "models")
    options = ["--seconds", "0.5", "--relations", "answers", "--json", "--junit", "found/check.xml"]
    assert main(["check", "--model-repository", ".", *options]) == 2
    broken, sound = json.loads(capsys.readouterr().out)
    assert (broken["model"], broken["checked"]) == ("broken", False) and "ValueError" in broken["error"]
    assert (sound["model"], sound["ok"]) == ("sound", True)
    suites = ElementTree.parse("found/check.xml").getroot()
    assert [(suite.get("name"), suite.get("errors")) for suite in suites] == [("broken", "1"), ("sound", "0")]


def test_what_cannot_be_checked_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--model-repository", str(tmp_path / "nowhere")]) == 2
    assert "there is no model repository" in capsys.readouterr().err
    assert main(["check", "--model-repository", str(tmp_path)]) == 2
    assert "has no model: no directory with a config.pbtxt or a version" in capsys.readouterr().err
