from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.models import IDENTITY
from tests.serving import write_model
from tritonlab.__main__ import main

CONFIG = 'input { name: "IN" data_type: TYPE_FP32 dims: [-1] } output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("place")
    write_model(place / "model_repository", "sound", IDENTITY, CONFIG)
    write_model(
        place / "model_repository", "ready", IDENTITY + "    def is_ready(self):\n        return True\n", CONFIG
    )
    write_model(place / "model_repository", "broken", "import nothing_of_this_name\n", CONFIG)
    write_model(place / "model_repository", "unreadable", IDENTITY, "input { name: ")
    return place


def test_the_exit_status_says_whether_the_model_will_work(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert main(["preflight", "sound", "--target", "24.08"]) == 0
    assert capsys.readouterr().out.startswith("sound on Triton 2.49 (24.08): ")
    assert main(["preflight", str(place / "model_repository" / "ready")]) == 1
    text = capsys.readouterr().out
    assert text.startswith("ready on Triton 2.51 (24.10): it differs there\n")
    assert "P7  it uses is_ready(), which Triton 2.51 (24.10) lacks: it is never called" in text
    assert main(["preflight", "ready", "--target", "26.05"]) == 0
    assert "judged by the release table and rules only" in capsys.readouterr().out


def test_a_repository_is_judged_model_by_model(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", str(place / "model_repository"), "--json"]) == 1
    found = {each["model"]: each for each in json.loads(capsys.readouterr().out)}
    assert {name: each["outcome"] for name, each in found.items()} == {
        "broken": "does not load",
        "ready": "differs",
        "sound": "equal",
        "unreadable": "does not load",
    }
    assert found["unreadable"]["findings"][0]["sentence"].startswith("it does not load here (Poll failed for model")
    assert found["broken"]["findings"][0]["row"] == "P0"
    assert "nothing_of_this_name" in found["broken"]["findings"][0]["sentence"]


def test_what_cannot_be_judged_is_reported(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", str(place / "model_repository"), "--target", "2.5"]) == 2
    assert "'2.5' is not a release of Triton in the table" in capsys.readouterr().err
    assert main(["preflight", str(place / "nowhere")]) == 2
    assert main(["preflight", str(place)]) == 2
    assert "is not a model directory" in capsys.readouterr().err
