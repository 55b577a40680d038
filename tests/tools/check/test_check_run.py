"""`tritonlab check`: its exit status, and what it writes."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.models import IDENTITY, answers
from tests.serving import write_model
from tritonlab.__main__ import main

CONFIG = """max_batch_size: 4
input { name: "IN" data_type: TYPE_FP32 dims: [2] }
output { name: "OUT" data_type: TYPE_FP32 dims: [2] }
"""
ANY_LENGTH = (
    'input { name: "IN" data_type: TYPE_FP32 dims: [-1] } output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }'
)
#: Depends on how many requests are executed with one.
SOCIABLE = answers("x + np.float32(len(requests))")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "models"
    write_model(root, "sound", IDENTITY, CONFIG)
    write_model(root, "sociable", SOCIABLE, CONFIG + "dynamic_batching { max_queue_delay_microseconds: 50000 }\n")
    write_model(root, "broken", "import nothing_of_this_name\n", CONFIG)
    return root


def test_the_exit_status_says_whether_something_was_found(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"--model-repository={repository}", "--relations=company"]
    assert main(["check", *options, "--model=sound", "--seconds=1"]) == 0
    assert "sound" in capsys.readouterr().out
    written = tmp_path / "found"
    more = ["--model=sociable", f"--tests={written}", f"--junit={tmp_path / 'junit.xml'}", "--json"]
    assert main(["check", *options, *more, "--seconds=20"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["model"] == "sociable" and found["findings"]
    assert list(written.glob("test_*.py")) and "sociable" in (tmp_path / "junit.xml").read_text()


def test_what_cannot_be_checked_is_neither_right_nor_wrong(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", f"--model-repository={repository}", "--model=broken", "--seconds=1"]) == 2
    assert "tritonlab: broken: ModuleNotFoundError: No module named 'nothing_of_this_name'" in capsys.readouterr().err
    assert main(["check", f"--model-repository={repository}", "--model=absent"]) == 2
    assert "has no model 'absent'; it has broken, sociable, sound" in capsys.readouterr().err


def test_each_model_has_its_result_whether_it_loads_or_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path / "models", "broken", "raise ValueError('\\x1b[31m\\0')", ANY_LENGTH)
    write_model(tmp_path / "models", "sound", IDENTITY, ANY_LENGTH)
    monkeypatch.chdir(tmp_path / "models")
    options = ["--seconds", "0.5", "--relations", "answers", "--json", "--junit", "found/check.xml"]
    assert main(["check", "--model-repository", ".", *options]) == 2
    broken, sound = json.loads(capsys.readouterr().out)
    assert (broken["model"], broken["checked"]) == ("broken", False) and "ValueError" in broken["error"]
    assert (sound["model"], sound["ok"]) == ("sound", True)
    suites = ElementTree.parse("found/check.xml").getroot()
    assert [(suite.get("name"), suite.get("errors")) for suite in suites] == [("broken", "1"), ("sound", "0")]


def test_a_repository_without_models_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--model-repository", str(tmp_path / "nowhere")]) == 2
    assert "there is no model repository" in capsys.readouterr().err
    assert main(["check", "--model-repository", str(tmp_path)]) == 2
    assert "has no model: no directory with a config.pbtxt or a version" in capsys.readouterr().err
