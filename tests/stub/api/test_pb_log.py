from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.stub.fake_bridge import FakeBridge
from tritonlab.stub._pb_stub.api import bridge
from tritonlab.stub._pb_stub.api.bridge import Bridge
from tritonlab.stub._pb_stub.api.enums import ErrorCode
from tritonlab.stub._pb_stub.api.pb_log import Logger


@pytest.mark.rule("1.13.1", "1.13.2")
@pytest.mark.parametrize(
    ("log", "level"),
    [
        (Logger.log, 0),
        (Logger.log_info, 0),
        (Logger.log_warn, 1),
        (Logger.log_error, 2),
        (Logger.log_verbose, 3),
        (lambda message: Logger.log(message, Logger.WARNING), 1),
    ],
)
def test_a_record_has_its_level_and_the_callers_line(
    fake_bridge: FakeBridge, log: Callable[..., None], level: int
) -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    log("hello")
    found_level, message, file, found_line = fake_bridge.logs[0]
    assert (found_level, message, file) == (level, "hello", __file__)
    assert found_line == line or log.__name__ == "<lambda>"


@pytest.mark.rule("1.13.1")
def test_the_keyword_is_message(fake_bridge: FakeBridge) -> None:
    Logger.log(message="a", level=Logger.ERROR)
    Logger.log_info(message="b")
    assert [(level, text) for level, text, _, _ in fake_bridge.logs] == [(2, "a"), (0, "b")]


@pytest.mark.rule("1.13.1")
@pytest.mark.parametrize(
    ("log", "arguments"),
    [
        (Logger.log_info, (1,)),
        (Logger.log_warn, (None,)),
        (Logger.log, (1,)),
        (Logger.log, ("a", 1)),
        (Logger.log, ("a", ErrorCode.INTERNAL)),
    ],
)
def test_other_types_are_refused(fake_bridge: FakeBridge, log: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        log(*arguments)
    assert fake_bridge.logs == []


@pytest.mark.rule("1.13.1")
def test_there_are_no_objects() -> None:
    with pytest.raises(TypeError, match=r"^c_python_backend_utils\.Logger: No constructor defined!$"):
        Logger()


@pytest.mark.rule("1.13.4")
def test_without_a_server_records_go_to_stderr(fake_bridge: FakeBridge, capsys: pytest.CaptureFixture[str]) -> None:
    bridge.install(Bridge())
    Logger.log_warn("a")
    assert re.fullmatch(r"W\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ test_pb_log\.py:\d+\]  a\n", capsys.readouterr().err)
