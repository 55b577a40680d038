from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from tritonlab.notebook.views import widget, work_view
from tritonlab.notebook.views.ticker import Ticker
from tritonlab.notebook.views.work_view import Work, WorkStep, WorkView, shown_work


class Seconds:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def work(seconds: Seconds) -> Work:
    return Work("Check of m", 40, WorkStep("loading"), seconds)


def test_it_shows_the_step_the_time_left_and_what_was_found(work: Work, seconds: Seconds) -> None:
    assert work.progress() == {"share": 0.0, "text": "loading · 0 s, about 40 s left", "figures": []}
    seconds.now += 10
    work.begin("answers", ("findings", "2"))
    work.begin("streams")
    assert work.progress() == {
        "share": 0.25,
        "text": "streams · 10 s, about 30 s left",
        "figures": [("findings", "2")],
    }
    assert work.line() == "Check of m: [#####...............] streams · 10 s, about 30 s left · findings 2"
    seconds.now += 50  # work may take longer than it was given
    assert (work.progress()["share"], work.progress()["text"]) == (1.0, "streams · 60 s, nearly done")


def test_a_notebook_has_stop_and_keeps_one_line(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[dict[str, Any]] = []
    monkeypatch.setattr(widget, "_display", lambda bundle, **how: displayed.append(bundle))
    for module in (widget, work_view):
        monkeypatch.setattr(module, "in_kernel", lambda: True)
    view = WorkView(work, Ticker(interval=0))
    sent: list[Any] = []
    monkeypatch.setattr(view, "send", lambda content: sent.append(content))
    view.show()
    view.tick()
    view.tick()  # sooner than a person reads
    assert sent == [{"kind": "progress", **work.progress()}]
    view.on_message({"do": "stop"})
    assert work.stopping.is_set()
    view.end()
    assert displayed[-1]["text/plain"] == "Check of m: stopped after 0.0 s"
    work.stopping.clear()
    with pytest.raises(RuntimeError), shown_work(work):
        raise RuntimeError("refused")
    assert displayed[-1]["text/plain"] == "Check of m: failed after 0.0 s"


def test_a_terminal_has_one_line_and_a_program_none(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(work_view, "_EVERY", 0.001)
    monkeypatch.setenv("COLUMNS", "60")
    for stream, shows in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stdout", stream)
        with shown_work(work):
            while shows and "loading" not in stream.getvalue():
                pass
        assert stream.getvalue().endswith(" \r") if shows else stream.getvalue() == ""
        assert {len(line) for line in stream.getvalue().split("\r")} == ({0, 59} if shows else {0})
