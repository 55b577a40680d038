"""Servers that try again to load a model that failed (rule 2.5.9)."""

from __future__ import annotations

import re

import pytest

from .clients import Client
from .models import CPU, model
from .rules import rule
from .scripts import eventually
from .test_load import ANSWERING, ANSWERING_CONFIG, answer_of
from .test_model_control import GONE, READY, settled, states, traceless, write

RETRIES = 2
OPTIONS = ((f"--model-load-retry-count={RETRIES}",), {"model_load_retry_count": RETRIES})


def failing(side: Client, name: str, good: int, where: str = "initialize") -> str:
    """Return a model that fails in the method `where` before its `good`-th try there; `tries` counts them."""
    attempt = f"""import pathlib
        count = pathlib.Path({str(side.repository / f"{name}.tries")!r})
        number = len(count.read_bytes()) + 1 if count.exists() else 1
        count.write_bytes(b"x" * number)
        if number < {good}:
            raise RuntimeError(f"try {{number}}")
        """
    if where == "initialize":
        return ANSWERING.format(attempt + "self.answer = number")
    method = f"\n    @staticmethod\n    def auto_complete_config(config):\n        {attempt}return config\n"
    return ANSWERING.format("self.answer = 0") + method


def tries(side: Client, name: str) -> int:
    return (side.repository / f"{name}.tries").stat().st_size


def last_error(version: int) -> str:
    return f"version {version} is at UNAVAILABLE state: Internal: RuntimeError: try {RETRIES + 1}\n\nAt:\n"


@rule("2.5.9")
@pytest.mark.parametrize("good", [2, RETRIES + 1])
def test_a_later_try_may_do(side: Client, good: int) -> None:
    name = f"late{good}"
    assert side.placed(name, model(failing(side, name, good), ANSWERING_CONFIG)) is None
    assert (answer_of(side, name), tries(side, name)) == (good, good)
    assert states(side, name) == {name: READY}
    side.unload(name)


@rule("2.5.9", "2.5.1")
def test_the_last_error_is_reported_and_all_are_logged(side: Client) -> None:
    failure = side.placed("hopeless", model(failing(side, "hopeless", 99), ANSWERING_CONFIG))
    assert failure is not None
    assert failure.text.startswith(f"load failed for model 'hopeless': {last_error(1)}")
    assert states(side, "hopeless") == {"hopeless": [("1", "UNAVAILABLE", "Internal: RuntimeError: try 3")]}
    text = "failed to load 'hopeless' version 1: Internal: RuntimeError: try "
    eventually(lambda: len(re.findall(text, side.log())) == RETRIES + 1)
    assert re.findall(text + r"(\d)", side.log()) == ["1", "2", "3"]


@rule("2.5.9", "2.4.2")
def test_the_completion_of_the_configuration_is_tried_again(side: Client) -> None:
    source = failing(side, "completes", RETRIES + 1, "auto_complete_config")
    assert side.placed("completes", model(source, ANSWERING_CONFIG)) is None
    assert tries(side, "completes") == RETRIES + 1
    side.unload("completes")


@rule("2.5.9", "5.8.2")
def test_so_is_a_warmup(side: Client) -> None:
    warmup = 'model_warmup { name: "w" batch_size: 1 inputs { key: "NO" value { data_type: TYPE_INT32 dims: 1 } } }'
    failure = side.placed("cold", model(failing(side, "cold", 0), ANSWERING_CONFIG + warmup))
    assert failure is not None
    assert tries(side, "cold") == RETRIES + 1


@rule("2.5.9")
def test_each_version_has_its_tries(side: Client) -> None:
    files = {f"{n}/model.py": failing(side, f"version{n}", good) for n, good in ((1, 2), (2, 99))}
    failure = side.placed("both", {"config.pbtxt": ANSWERING_CONFIG + "version_policy { all { } }", **files})
    assert failure is not None
    assert failure.text.startswith(f"load failed for model 'both': {last_error(2)}")
    assert (tries(side, "version1"), tries(side, "version2")) == (2, RETRIES + 1)
    assert settled(side, "both")["both"][0] == GONE[0]


@rule("2.5.9", "2.5.8")
def test_a_reload_has_its_tries_too(side: Client) -> None:
    assert side.placed("again", traceless(model(failing(side, "first", 0), ANSWERING_CONFIG))) is None
    write(side, "again", "1/model.py", failing(side, "second", 2))
    assert side.load("again") is None
    assert (answer_of(side, "again"), tries(side, "second")) == (2, 2)
    write(side, "again", "1/model.py", failing(side, "third", 99))
    assert side.load("again") is not None
    assert (answer_of(side, "again"), tries(side, "third")) == (2, RETRIES + 1)
    side.unload("again")


@rule("2.5.9", "5.11.2")
def test_what_is_not_tried_again(side: Client) -> None:
    failure = side.placed("unread", model(failing(side, "unread", 0), "nonsense: 1"))
    assert failure is not None
    assert not (side.repository / "unread.tries").exists()
    source = failing(side, "grows", 0).replace("number < 0", "number == 2")
    assert side.placed("grows", traceless(model(source, ANSWERING_CONFIG))) is None
    write(side, "grows", "config.pbtxt", ANSWERING_CONFIG.replace(CPU, "instance_group { kind: KIND_CPU count: 2 }"))
    failure = side.load("grows")
    assert failure is not None
    assert "version 1 is at READY state: Internal: RuntimeError: try 2" in failure.text
    assert tries(side, "grows") == 2
    side.unload("grows")
