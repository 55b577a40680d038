from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.rules import rule
from tritonlab.core.config.model_config import ModelConfig
from tritonlab.core.status import InvalidArgumentError
from tritonlab.server.models.backend_choice import (
    CHOICES_FILE,
    PARAMETER,
    BackendChoice,
    BackendChoices,
    Use,
    choice_words,
)


def chosen(written: Any, base: Path = Path("/base")) -> BackendChoice:
    return BackendChoice.from_written("m", written, base)


@rule("2.13.3")
def test_a_choice_is_a_text_or_a_table() -> None:
    assert chosen("real") == BackendChoice(Use.REAL)
    assert chosen("borrow:host:8001") == BackendChoice(Use.BORROW, {"server": "host:8001"})
    assert chosen({"use": "borrow", "server": "host:8001"}) == chosen("borrow:host:8001")
    assert chosen("stand-in:echo") == BackendChoice(Use.STAND_IN, {"values": "echo"})
    assert chosen("recorded").settings["directory"] == "/base/recordings"
    assert chosen("recorded:taken").settings["directory"] == "/base/taken"
    assert chosen({"use": "borrow", "server": "h:1", "record": True}).settings["directory"] == "/base/recordings"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("borrowed", "the choice for 'm' is 'borrowed', expected one of 'real', 'recorded', 'stand-in' and"),
        ("real:5", "the choice for 'm' is 'real:5', expected one of"),
        (5, "the choice for 'm' is 5, expected one of"),
        ({"values": "echo"}, "the choice for 'm' is {'values': 'echo'}, expected one of"),
        ("borrow:host", "the choice for 'm' borrows from 'host', expected the gRPC address of a server, as in"),
        ("borrow", "the choice for 'm' borrows from '', expected the gRPC address"),
        ("stand-in:ones", "the choice for 'm' invents 'ones', expected one of zeros, echo, random"),
        ({"use": "stand-in", "delay": 5}, "the choice for 'm' has 'delay', and 'stand-in' does not: its fields are"),
        ({"use": "stand-in", "delay_ms": "5"}, "the choice for 'm' has delay_ms='5', expected a float"),
        ({"use": "stand-in", "delay_ms": -1}, "the choice for 'm' has delay_ms=-1, expected 0 or more"),
        ({"use": "borrow", "server": "h:1", "otherwise": "real"}, "the choice for 'm' has otherwise='real', expected"),
    ],
)
def test_a_wrong_choice_says_what_is_expected(written: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        chosen(written)
    assert str(caught.value).startswith(text)


@rule("2.13.2")
def test_the_model_comes_before_the_backend_and_the_options_before_the_file(tmp_path: Path) -> None:
    (tmp_path / CHOICES_FILE).write_text('[backends]\nonnxruntime = "stand-in:echo"\nsmall = "stand-in:random"\n')
    repository = tmp_path / "models"
    choices = BackendChoices({"tensorrt": "stand-in", "big": "borrow:h:1"})
    assert choices.find("any", "python", repository) is None
    assert choices.find("small", "onnxruntime", repository) == BackendChoice(Use.STAND_IN, {"values": "random"})
    assert choices.find("other", "onnxruntime", repository) == BackendChoice(Use.STAND_IN, {"values": "echo"})
    assert choices.find("small", "tensorrt", repository) == BackendChoice(Use.STAND_IN)
    assert choices.find("big", "tensorrt", repository) == BackendChoice(Use.BORROW, {"server": "h:1"})


def test_the_working_directory_is_looked_at_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / CHOICES_FILE).write_text('[backends]\ntensorrt = "recorded"\nllm = "stand-in"\n')
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / CHOICES_FILE).write_text('[backends]\ntensorrt = "stand-in:echo"\n')
    found = BackendChoices()
    assert found.find("m", "tensorrt", tmp_path / "project" / "models").use is Use.STAND_IN
    assert found.find("llm", "vllm", tmp_path / "project" / "models").use is Use.STAND_IN
    assert found.find("m", "tensorrt", Path("/nowhere/models")).settings["directory"] == str(tmp_path / "recordings")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / CHOICES_FILE
    for text, message in (("[backends", f"{file} cannot be read: "), ("backends = 5", f"{file}: 'backends' is 5, ")):
        file.write_text(text)
        with pytest.raises(InvalidArgumentError) as caught:
            BackendChoices().find("m", "tensorrt", tmp_path / "models")
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("real", ""),
        ("borrow:host:8001", "borrowed from host:8001"),
        (
            {"use": "borrow", "server": "h:1", "otherwise": "recorded"},
            "borrowed from h:1, with recorded answers if that fails",
        ),
        ("recorded", "recorded answers from /base/recordings"),
        ("stand-in", "stand-in that invents its answers (zeros)"),
    ],
)
def test_words(written: Any, words: str) -> None:
    choice = chosen(written)
    config = ModelConfig()
    assert choice_words(config) == ""
    config.parameters[PARAMETER].string_value = choice.parameter
    assert choice_words(config) == words
    assert json.loads(choice.parameter)["use"] == choice.use.value
