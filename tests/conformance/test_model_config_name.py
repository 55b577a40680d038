"""Servers that read configurations with another name than config.pbtxt (rule 5.1.7)."""

from __future__ import annotations

from typing import Any

import pytest

from .clients import Client, Failure
from .models import model
from .rules import rule
from .test_load import ANSWERING_CONFIG
from .test_model_control import processes, traceless, who, write

OPTIONS = (("--model-config-name=h100",), {"model_config_name": "h100"})

PLAIN, H100 = "config.pbtxt", "configs/h100.pbtxt"


def tagged(tag: str) -> str:
    return ANSWERING_CONFIG + f'parameters {{ key: "tag" value {{ string_value: "{tag}" }} }}\n'


def tag(side: Client, name: str) -> Any:
    found = side.config(name)
    return found if isinstance(found, Failure) else {k: v["string_value"] for k, v in found["parameters"].items()}


@rule("5.1.7")
@pytest.mark.parametrize(
    ("files", "used"),
    [
        ({PLAIN: tagged("plain"), H100: tagged("named")}, {"tag": "named"}),
        ({H100: tagged("named")}, {"tag": "named"}),
        ({PLAIN: tagged("plain")}, {"tag": "plain"}),
        ({PLAIN: tagged("plain"), "configs/a100.pbtxt": tagged("other")}, {"tag": "plain"}),
        ({"configs/a100.pbtxt": tagged("other")}, {}),
    ],
)
def test_which_file_is_the_configuration(side: Client, files: dict[str, str], used: dict[str, str]) -> None:
    assert side.placed("chosen", model(who(""), **files)) is None
    assert tag(side, "chosen") == used
    side.unload("chosen")


@rule("5.1.7", "2.5.3")
def test_one_that_cannot_be_read_is_named(side: Client) -> None:
    failure = side.placed("chosen", model(who(""), tagged("plain"), **{H100: "nonsense: 1"}))
    assert failure is not None
    assert failure.text == "failed to load 'chosen', failed to poll from model repository"
    assert failure.reason.startswith("failed to read text proto from <repository>/chosen/configs/h100.pbtxt")


@rule("5.1.7", "5.11.2")
def test_what_a_reload_looks_at(side: Client) -> None:
    assert side.placed("again", traceless(model(who(""), tagged("plain"), **{H100: tagged("named")}))) is None
    first = processes(side, "again")

    def reloaded(path: str, text: str) -> bool:
        nonlocal first
        before = first
        write(side, "again", path, text)
        assert side.load("again") is None
        first = processes(side, "again")
        return first != before

    assert not reloaded(H100, tagged("named") + "# a comment\n")
    assert not reloaded("configs/a100.pbtxt", tagged("other"))
    assert reloaded(H100, tagged("changed"))
    assert reloaded(PLAIN, tagged("plain") + "# a comment\n")
    assert tag(side, "again") == {"tag": "changed"}
    (side.repository / "again" / H100).unlink()
    assert reloaded(PLAIN, tagged("plain"))
    assert tag(side, "again") == {"tag": "plain"}
    side.unload("again")
