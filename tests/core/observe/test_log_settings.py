"""Settings of the log; texts and order are measured on 2.51."""

from __future__ import annotations

import pytest

from tritonlab.core.observe.log_settings import LogSetting, LogSettings
from tritonlab.core.status import UnavailableError, UnsupportedError


def test_the_defaults() -> None:
    assert list(LogSettings(LogSetting()).get().items()) == [
        ("log_file", ""),
        ("log_info", True),
        ("log_warning", True),
        ("log_error", True),
        ("log_verbose_level", 0),
        ("log_format", "default"),
    ]


def test_an_update_sets_what_it_names() -> None:
    settings = LogSettings(LogSetting(log_file="x"))
    settings.update({"log_info": False, "log_verbose_level": 2, "log_format": "ISO8601", "foo": 1})
    found = settings.get()
    assert (found["log_file"], found["log_info"], found["log_error"]) == ("x", False, True)
    assert (found["log_verbose_level"], found["log_format"]) == (2, "ISO8601")


def test_no_client_sets_the_file() -> None:
    settings = LogSettings(LogSetting())
    with pytest.raises(UnsupportedError, match=r"^log file location can not be updated through network protocol$"):
        settings.update({"log_info": False, "log_file": ""})
    assert settings.get()["log_info"]


def test_what_comes_before_a_bad_format_stays_set() -> None:
    settings = LogSettings(LogSetting())
    with pytest.raises(UnavailableError, match=r"^invalid argument for --log_format, got: X$"):
        settings.update({"log_error": False, "log_format": "X"})
    assert not settings.get()["log_error"]


@pytest.mark.parametrize(
    ("setting", "levels"),
    [
        (LogSetting(), {"INFO", "WARNING", "ERROR"}),
        (LogSetting(log_info=False), {"WARNING", "ERROR"}),
        (LogSetting(log_warning=False, log_error=False, log_verbose_level=1), {"INFO", "VERBOSE"}),
    ],
)
def test_settings_choose_the_levels(setting: LogSetting, levels: set[str]) -> None:
    assert {level for level in ("INFO", "WARNING", "ERROR", "VERBOSE") if setting.shows(level)} == levels
