"""Trace and log settings (rule 5.14): the same updates, in the same order, to both servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tritonlab.core.observe.trace_settings import TraceSetting

from .clients import Client, Failure
from .models import ECHO, config, model
from .observed import log_settings, serving, trace_settings
from .rules import rule

MODELS = {"add": model(ECHO, config("IN INT32 -1", "IN INT32 -1")), "other": model(ECHO, config("IN INT32 1", ""))}

START = {
    "trace_level": ["TIMESTAMPS"],
    "trace_rate": "1",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "/tmp/none.json",
    "trace_mode": "triton",
}


@pytest.fixture(scope="module", params=["real", "lab"])
def program(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def client(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    options = ["rate=1", "triton,file=/tmp/none.json", "level=TIMESTAMPS"]
    setting = TraceSetting(("TIMESTAMPS",), 1, file="/tmp/none.json")
    arguments = [f"--trace-config={option}" for option in options]
    with serving(program, tmp_path_factory.mktemp("settings"), MODELS, arguments, trace_setting=setting) as client:
        yield client


#: What is sent, and what changes of START; each after the one before.
UPDATES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"trace_rate": "5"}, {"trace_rate": "5"}),
    ({"trace_rate": None}, {}),
    ({"trace_level": ["OFF"]}, {"trace_level": ["OFF"]}),
    ({"trace_level": ["TENSORS", "FOO", "TIMESTAMPS"]}, {"trace_level": ["TIMESTAMPS", "TENSORS"]}),
    ({"trace_level": ["FOO"]}, {"trace_level": ["TIMESTAMPS", "TENSORS"]}),
    ({"trace_level": []}, {"trace_level": ["TIMESTAMPS", "TENSORS"]}),
    ({"trace_level": None, "foo": "bar"}, {}),
    ({"trace_rate": "-1", "log_frequency": "-1"}, {"trace_rate": "4294967295", "log_frequency": "4294967295"}),
    ({"trace_rate": "1x", "log_frequency": "7"}, {"log_frequency": "7"}),
    ({"trace_count": "3x", "log_frequency": None}, {"trace_count": "3"}),
    ({"trace_mode": "opentelemetry"}, {"trace_count": "3"}),
    ({"trace_count": "-1"}, {}),
]

FAILURES: list[tuple[dict[str, Any], str, str]] = [
    ({"trace_level": ["OFF", "TIMESTAMPS"]}, "400", "Expect only one trace level 'OFF' is specified"),
    ({"trace_rate": "abc"}, "400", "Unable to parse 'trace_rate', got: abc"),
    ({"trace_rate": ""}, "400", "Unable to parse 'trace_rate', got: "),
    ({"trace_rate": "0"}, "400", "Attempting to set invalid trace setting :sample rate must be non-zero"),
    (
        {"trace_rate": "99999999999999999999"},
        "400",
        "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: 99999999999999999999",
    ),
    ({"trace_count": "-2"}, "400", "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"),
    ({"trace_count": "abc"}, "400", "Unable to parse 'trace_count', got: abc"),
    (
        {"trace_count": "99999999999999999999"},
        "400",
        "Unable to parse 'trace_count', value is out of range [ -1, 2147483647 ], got: 99999999999999999999",
    ),
    ({"log_frequency": "abc"}, "400", "Unable to parse 'log_frequency', got: abc"),
    ({"trace_file": "/tmp/x"}, "501", "trace file location can not be updated through network protocol"),
    ({"trace_file": None}, "501", "trace file location can not be updated through network protocol"),
    ({"trace_rate": "9", "trace_count": "abc"}, "400", "Unable to parse 'trace_count', got: abc"),
]


@rule("5.14.1")
def test_trace_settings(client: Client) -> None:
    assert list(trace_settings(client).items()) == list(START.items())
    found = [trace_settings(client, sent) for sent, _ in UPDATES]
    assert found == [{**START, **changed} for _, changed in UPDATES]


@rule("5.14.1")
def test_trace_settings_of_a_model(client: Client) -> None:
    assert trace_settings(client, {"trace_rate": "7", "log_frequency": "9"}, "add") == {
        **START,
        "trace_rate": "7",
        "log_frequency": "9",
    }
    trace_settings(client, {"trace_rate": "8", "log_frequency": "11", "trace_count": "4"})
    assert trace_settings(client, None, "add") == {**START, "trace_rate": "7", "log_frequency": "9", "trace_count": "4"}
    assert trace_settings(client, None, "other")["trace_rate"] == "8"
    assert trace_settings(client, {"trace_rate": None}, "add")["trace_rate"] == "8"
    trace_settings(client, {"trace_rate": None, "log_frequency": None, "trace_count": None})
    assert trace_settings(client, None, "add") == {**START, "log_frequency": "9"}
    assert trace_settings(client, {"log_frequency": None}, "add") == START


@rule("5.14.2")
@pytest.mark.parametrize("name", ["", "add"])
def test_trace_settings_that_cannot_be(client: Client, name: str) -> None:
    found = [trace_settings(client, sent, name) for sent, _, _ in FAILURES]
    assert found == [Failure(code, text) for _, code, text in FAILURES]
    assert trace_settings(client, None, name) == START


@rule("5.14.2")
def test_trace_settings_of_a_model_that_is_not_there(client: Client) -> None:
    found = {trace_settings(client, sent, "nope") for sent in (None, {"trace_rate": "x"})}
    assert found == {Failure("400", "Request for unknown model : nope")}


LOG_START = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}


@rule("5.14.3")
def test_log_settings(client: Client) -> None:
    assert list(log_settings(client).items()) == list(LOG_START.items())
    changed = {"log_info": False, "log_warning": False, "log_verbose_level": 2, "log_format": "ISO8601"}
    assert log_settings(client, {**changed, "foo": 1}) == {**LOG_START, **changed}
    no_file = Failure("501", "log file location can not be updated through network protocol")
    assert log_settings(client, {"log_info": True, "log_file": ""}) == no_file
    bad = Failure("503", "invalid argument for --log_format, got: X")
    assert log_settings(client, {"log_error": False, "log_format": "X"}) == bad
    assert log_settings(client) == {**LOG_START, **changed, "log_error": False}
    assert log_settings(client, LOG_START | {"log_file": ""}) == no_file
    del (again := dict(LOG_START))["log_file"]
    assert log_settings(client, again) == LOG_START
