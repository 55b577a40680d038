from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.record.events import RecorderHooks, make_request
from tritonlab.core.status import ModelError
from tritonlab.notebook.views.record import record_view as module
from tritonlab.notebook.views.record.record_view import RecordView
from tritonlab.notebook.views.ticker import Ticker
from tritonlab.record.model_record import REQUESTS


class Plain(RecordView):
    MODULE = "timeline.js"
    LABEL = "Plain"
    TABLES = ("batches", "requests")

    def text(self) -> str:
        return f"{self.record.batches.total} batches"

    def html(self) -> str:
        return self.text()


class Browser:
    """What a view sends, and time."""

    def __init__(self, hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.now = 100.0
        self.sent: list[tuple[dict[str, Any], list[bytes]]] = []
        self.ticker = Ticker()
        monkeypatch.setattr(self.ticker, "_running", True)  # ticks are the test's
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        self.view = Plain(hooks.recording, "add", ticker=self.ticker, **options)
        monkeypatch.setattr(self.view, "send", lambda content, buffers=(): self.sent.append((content, list(buffers))))
        self.frozen = 0

        def freeze() -> None:
            self.frozen += 1

        monkeypatch.setattr(self.view, "freeze", freeze)

    def tick(self, seconds: float = 0.05) -> dict[str, Any]:
        """Tick once and return the message: of each table the serial numbers or the count, and all else."""
        self.now += seconds
        self.sent.clear()
        self.ticker.tick()
        found: dict[str, Any] = {}
        for content, buffers in self.sent:
            found |= content
            for row, data in zip(content.get("rows", ()), buffers, strict=True):
                table = np.frombuffer(data).reshape(-1, len(self.view.record.tables[row["table"]].columns))
                found[row["table"]] = [row["at"], len(table)]
        return found


@pytest.fixture
def hooks() -> RecorderHooks:
    return RecorderHooks(events=50_000)


def test_nothing_is_sent_while_no_view_is_open(hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser(hooks, monkeypatch)
    hooks.execute(make_request(1), start=1, end=2)
    assert browser.tick() == {}
    browser.view.on_message({"do": "open", "known": {}})
    assert browser.tick()["batches"] == [0, 1]  # what came before is shown
    assert browser.tick() == {}
    hooks.execute(make_request(2), make_request(3), start=2, end=3)
    found = browser.tick()
    assert (found["batches"], found["requests"], found["done"]) == ([1, 1], [1, 2], True)
    browser.view.on_message({"do": "close"})
    hooks.execute(make_request(4), start=3, end=4)
    assert browser.tick() == {}
    assert browser.frozen == 1


def test_a_view_that_was_closed_ticks_no_more(hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser(hooks, monkeypatch)
    watched: list[bool] = []
    browser.view.watched = watched.append
    browser.view.on_message({"do": "open", "known": {}})
    assert browser.view in browser.ticker
    browser.view.close()
    assert browser.view not in browser.ticker and watched == [True, False]


def test_a_browser_that_lost_something_gets_it_again(hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser(hooks, monkeypatch)
    for serial in range(4):
        hooks.execute(make_request(serial, request_id=f"r{serial}"), start=serial, end=serial + 1)
    browser.view.on_message({"do": "open", "known": {}})
    first = browser.tick()
    assert first["words"]["reason"] == (0, ["full"])
    known = {"epoch": first["epoch"], "rows": {"batches": 4, "requests": 2}, "marks": 0, "words": {"reason": 0}}
    browser.view.on_message({"do": "open", "known": known})
    again = browser.tick()
    assert "batches" not in again
    assert (again["requests"], again["ids"], again["words"]["reason"]) == (
        [2, 2],
        [(2, "r2"), (3, "r3")],
        (0, ["full"]),
    )


def test_much_comes_in_pieces(hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser(hooks, monkeypatch)
    record = hooks.recording.model("add")
    record.requests.add([0.0] * len(REQUESTS) * 45_000)
    browser.view.on_message({"do": "open", "known": {}})
    pieces = [browser.tick() for _ in range(3)]
    assert [piece["requests"] for piece in pieces] == [[0, 20_000], [20_000, 20_000], [40_000, 5_000]]
    assert [piece["done"] for piece in pieces] == [False, False, True]


def test_what_was_dropped_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = RecorderHooks(events=3)
    browser = Browser(hooks, monkeypatch)
    for serial in range(5):
        hooks.execute(make_request(serial), start=serial, end=serial + 1)
    browser.view.on_message({"do": "open", "known": {}})
    found = browser.tick()
    assert (found["batches"], found["dropped"], found["rows"][0]["oldest"]) == ([2, 3], 4, 2)


def test_a_recording_that_was_cleared_begins_again(hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser(hooks, monkeypatch)
    hooks.execute(make_request(1), start=1, end=2)
    browser.view.on_message({"do": "open", "known": {}})
    epoch = browser.tick()["epoch"]
    hooks.recording.clear()
    hooks.execute(make_request(2), start=1, end=2)
    found = browser.tick()
    assert (found["batches"], found["epoch"] != epoch) == ([0, 1], True)


def test_what_happens_now_is_sent_when_it_changes(hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, Any] = {"waiting": [], "running": []}
    browser = Browser(hooks, monkeypatch, live=lambda: dict(state))
    browser.view.on_message({"do": "open", "known": {}})
    assert browser.tick()["live"] == state
    assert browser.tick() == {}
    state["waiting"] = [5]
    assert browser.tick()["live"] == {"waiting": [5], "running": []}


def test_marks_come_once(hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser(hooks, monkeypatch)
    browser.view.on_message({"do": "open", "known": {}})
    hooks.respond(make_request(3), at=4, error=ModelError("no"))
    assert browser.tick()["marks"] == [[0, 4_000_000, "error", "request 3: no", 3]]
    assert browser.tick() == {}


def test_a_page_that_was_closed_gets_nothing_after_a_while(
    hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = Browser(hooks, monkeypatch)
    browser.view.on_message({"do": "open", "known": {}})
    browser.tick(200)
    browser.view.on_message({"do": "alive"})
    browser.tick(200)
    assert browser.view in browser.ticker
    browser.tick(301)
    assert browser.view not in browser.ticker


def test_the_static_form_follows_when_it_is_quiet(hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser(hooks, monkeypatch)
    browser.view.on_message({"do": "open", "known": {}})
    hooks.execute(make_request(1), start=1, end=2)
    browser.tick()
    browser.tick(1.0)
    assert browser.frozen == 0
    browser.tick(1.5)
    browser.tick(5)
    assert browser.frozen == 1


def test_a_view_that_fails_says_so_and_the_others_go_on(
    hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    browser = Browser(hooks, monkeypatch, live=lambda: {}["gone"])
    other = Plain(hooks.recording, "other", ticker=browser.ticker)
    browser.view.on_message({"do": "open", "known": {}})
    other.on_message({"do": "open", "known": {}})
    assert browser.tick() == {"kind": "problem", "text": "This view has stopped: KeyError: 'gone'"}
    assert (browser.view in browser.ticker, other in browser.ticker) == (False, True)
    assert "cannot be shown any more" in caplog.text


def test_the_lines_of_a_stored_form_stay_lines_without_a_style(hooks: RecorderHooks) -> None:
    page = Plain(hooks.recording, "add").page("first line\nsecond <line>", "")
    assert "first line<br>second &lt;line&gt;" in page
