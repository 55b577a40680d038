from __future__ import annotations

import logging
from typing import Any

import pytest

from tritonlab.core.observe.instrument import HOOKS, Instrument, Instruments


class LogListener(Instrument):
    def __init__(self) -> None:
        self.records: list[Any] = []

    def log(self, record: Any) -> None:
        self.records.append(record)


class Broken(LogListener):
    def log(self, record: Any) -> None:
        super().log(record)
        raise RuntimeError("broken view")

    def metric(self, name: str, labels: dict[str, str], value: float, now: int) -> None:
        self.records.append(name)


def test_a_hook_nobody_overrides_is_none() -> None:
    instruments = Instruments()
    assert [name for name in HOOKS if getattr(instruments, name) is not None] == []
    instruments.add(Instrument())
    instruments.add(LogListener())
    assert [name for name in HOOKS if getattr(instruments, name) is not None] == ["log"]


def test_every_hook_is_annotated() -> None:
    """Callers read hooks as attributes; a hook without annotation would be a typing error, one without method a lie."""
    assert set(HOOKS) == {name for name in Instruments.__annotations__ if not name.startswith("_")}


def test_every_listener_hears_in_order_of_arrival() -> None:
    instruments = Instruments()
    first, second = LogListener(), LogListener()
    instruments.add(first)
    instruments.add(second)
    assert instruments.log is not None
    instruments.log("line")
    assert first.records == second.records == ["line"]
    assert list(instruments) == [first, second]


def test_a_listener_that_raises_is_dropped_and_the_others_still_hear(caplog: pytest.LogCaptureFixture) -> None:
    instruments = Instruments()
    broken, listener = Broken(), LogListener()
    instruments.add(broken)
    instruments.add(listener)
    assert instruments.log is not None
    with caplog.at_level(logging.ERROR):
        instruments.log("first")
        instruments.log("second")
    assert (broken.records, listener.records) == (["first"], ["first", "second"])
    (record,) = caplog.records
    assert "raised in hook log and was removed" in record.getMessage()
    assert record.exc_info is not None
    assert instruments.metric is None  # gone from its other hooks too


def test_the_last_listener_that_raises_leaves_no_hook(caplog: pytest.LogCaptureFixture) -> None:
    instruments = Instruments()
    instruments.add(Broken())
    assert instruments.log is not None
    instruments.log("line")
    assert instruments.log is None
    assert len(caplog.records) == 1


def test_removed_listeners_hear_nothing() -> None:
    instruments = Instruments()
    listener = LogListener()
    instruments.add(listener)
    instruments.remove(listener)
    instruments.remove(listener)
    assert instruments.log is None
    assert list(instruments) == []


def test_a_listener_may_remove_itself_while_it_listens() -> None:
    instruments = Instruments()

    class Once(LogListener):
        def log(self, record: Any) -> None:
            super().log(record)
            instruments.remove(self)

    once, always = Once(), LogListener()
    instruments.add(once)
    instruments.add(always)
    for line in ("first", "second"):
        assert instruments.log is not None
        instruments.log(line)
    assert (once.records, always.records) == (["first"], ["first", "second"])


def test_one_of_a_class_is_in_place_of_the_others() -> None:
    class Listener(Instrument):
        def log(self, record: object) -> None:
            callers.append(self)

    callers: list[Instrument] = []
    instruments, first, second, other = Instruments(), Listener(), Listener(), Instrument()
    for instrument in (first, other):
        instruments.add(instrument)
    instruments.replace(second)
    assert list(instruments) == [other, second]
    instruments.replace(second)
    assert list(instruments) == [other, second]
    assert instruments.log is not None
    instruments.log("line")
    assert callers == [second]
