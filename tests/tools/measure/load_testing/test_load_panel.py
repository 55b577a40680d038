"""The form of load tests and their progress, without a browser."""

from __future__ import annotations

import io
import json
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models import ADD_SUB, ADD_SUB_CONFIG
from tests.serving import SOON, Lab, eventually
from tritonlab import Model
from tritonlab.exchanges.golden import GoldenSet
from tritonlab.exchanges.sending import ask
from tritonlab.notebook.views import widget, work_view
from tritonlab.notebook.views.ticker import Ticker
from tritonlab.record.recorder import Recorder
from tritonlab.tools.measure.load_testing import load_panel
from tritonlab.tools.measure.load_testing.load_panel import LoadPanel, form_of

START = {"do": "start", "mode": "concurrency", "levels": "1, 2", "seconds": "0.1", "inputs": "random", "batch": "2"}


@pytest.fixture
def model(lab: Lab) -> Model:
    found = lab.server.model("panel")
    return found if found.ready() else lab.load("panel", ADD_SUB, ADD_SUB_CONFIG + "max_batch_size: 8")


@pytest.fixture
def ticker(monkeypatch: pytest.MonkeyPatch) -> Ticker:
    """Return a ticker that ticks when the test says so, and each time looks at what runs."""
    monkeypatch.setattr(load_panel, "_EVERY", 0)
    ticker = Ticker()
    ticker._running = True
    return ticker


def ended(panel: LoadPanel, ticker: Ticker) -> dict[str, Any]:
    """Return the state of the panel once its test has ended."""
    assert panel._test is not None
    panel._test.wait(SOON)
    ticker.tick()
    assert not ticker.tick()  # nothing is left to look at
    return panel.state


def test_the_form_asks_for_what_the_model_needs(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITONLAB_NOTEBOOK", str(tmp_path / "book.ipynb"))
    shapes = [{"name": name, "dims": "1"} for name in ("INPUT0", "INPUT1")]
    Recorder.for_instruments(model.server.instruments).recording.clear()
    assert form_of(model) == {"shapes": shapes, "batches": 8, "golden": 0, "arrivals": ""}
    one = np.ones((1, 3), np.float32)
    GoldenSet().add(ask(model, model.create_request(inputs={"INPUT0": one, "INPUT1": one})))
    model(INPUT0=one, INPUT1=one)
    eventually(lambda: form_of(model)["arrivals"].startswith("2 in "))  # an execution is recorded after its answer
    assert form_of(model)["golden"] == 1


def test_a_form_starts_a_test_and_shows_its_result(model: Model, ticker: Ticker) -> None:
    panel = LoadPanel(model, ticker=ticker)
    assert panel.text() == "Load test of panel: not started; press Start, or call load_test()"
    assert "Start" not in panel.html()
    assert panel.to_dict() == {"model": "panel", "running": False}
    panel.on_message({**START, "shapes": {"INPUT0": "4", "INPUT1": "4"}})
    assert panel.state["running"] and panel.state["problem"] == ""
    state = ended(panel, ticker)
    assert not state["running"] and state["problem"] == ""
    assert panel.result is not None
    assert [row.level for row in panel.result.rows] == [1, 2]
    assert panel.result.rows[0].server is not None and panel.result.rows[0].server.batch_size == 2
    assert state["html"] == panel.result.html(live=True)
    assert panel.text() == panel.result.text()
    assert json.loads(json.dumps(panel.to_dict()))["rows"][1]["level"] == 2


def test_golden_requests_and_recorded_arrivals_can_be_sent(
    model: Model, ticker: Ticker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITONLAB_NOTEBOOK", str(tmp_path / "book.ipynb"))
    one = np.ones((1, 3), np.float32)
    recording = Recorder.for_instruments(model.server.instruments).recording
    recording.clear()
    GoldenSet().add(ask(model, model.create_request(inputs={"INPUT0": one, "INPUT1": one})))
    model(INPUT0=one, INPUT1=one)
    eventually(lambda: len(recording.arrivals("panel")) == 2)
    panel = LoadPanel(model, ticker=ticker)
    panel.on_message({"do": "start", "mode": "arrivals", "inputs": "golden"})
    assert ended(panel, ticker)["problem"] == ""
    assert panel.result is not None
    assert [(row.requests, row.failed) for row in panel.result.rows] == [(2, 0)]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"levels": "two"}, "'two' is not a list of numbers: write 1, 2, 8"),
        ({"levels": ""}, "write at least one number"),
        ({"levels": "0"}, "concurrency must be more than 0"),
        ({"seconds": "-1"}, "seconds must be more than 0"),
        ({"shapes": {}}, "is any size"),
    ],
)
def test_fields_that_cannot_be_read_are_reported(model: Model, fields: dict[str, Any], problem: str) -> None:
    panel = LoadPanel(model)
    panel.on_message({**START, "shapes": {"INPUT0": "4", "INPUT1": "4"}, **fields})
    assert problem in panel.state["problem"]
    assert not panel.state["running"]


def test_progress_is_sent_and_stop_ends_the_test(model: Model, ticker: Ticker, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(LoadPanel, "send", lambda self, content, buffers=(): sent.append(content))
    there = threading.Event()

    def inputs(number: int) -> dict[str, Any]:
        if number == 20:
            there.set()
        return {"INPUT0": [[1.0]], "INPUT1": [[1.0]]}

    panel = LoadPanel(model, ticker=ticker)
    panel.start(concurrency=[2, 4], inputs=inputs, warmup=0, window=60)
    assert there.wait(SOON)
    ticker.tick()
    assert sent[-1]["kind"] == "progress" and 0 <= sent[-1]["share"] < 0.5
    assert sent[-1]["text"].startswith("concurrency 2 (1 of 2) · window 1 of at most 10 · ")
    assert [name for name, _ in sent[-1]["figures"]] == ["inferences/s", "p50", "p95", "p99", "failed", "under way"]
    assert "concurrency 2" in panel.text() and panel.to_dict()["running"]
    with pytest.raises(RuntimeError, match="stop it first"):
        panel.start()
    panel.on_message({"do": "stop"})
    assert "(stopped)" in ended(panel, ticker)["html"]


def test_a_test_that_a_cell_waits_for_leaves_a_line(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[tuple[dict[str, Any], dict[str, Any]]] = []
    monkeypatch.setattr(widget, "_display", lambda bundle, **how: displayed.append((bundle, how)))
    monkeypatch.setattr(widget, "in_kernel", lambda: True)
    monkeypatch.setattr(load_panel, "in_kernel", lambda: True)
    one = {"INPUT0": [[1.0]], "INPUT1": [[1.0]]}
    result = model.load_test(inputs=one, seconds=0.5, warmup=0.2)
    assert result.rows[0].requests > 0
    assert "concurrency 1" in displayed[0][0]["text/plain"]
    last, how = displayed[-1]
    assert last["text/plain"].startswith("Load test of panel, in this kernel: done after ") and how["update"]
    displayed.clear()
    model.load_test(inputs=one, seconds=0.5, warmup=0.2, progress=False)
    assert displayed == []


def test_a_terminal_has_one_line_of_progress(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(work_view, "_EVERY", 0.001)
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    model.load_test(seconds=0.1, shapes={"INPUT0": [3], "INPUT1": [3]})
    assert "Load test of panel, " in stream.getvalue() and "inferences/s" in stream.getvalue()
    assert stream.getvalue().endswith(" \r")


def test_a_test_that_fails_says_why(model: Model, ticker: Ticker) -> None:
    panel = LoadPanel(model, ticker=ticker)
    test = panel.start(inputs=lambda number: {"INPUT0": [1 / 0]})
    with pytest.raises(ZeroDivisionError):
        test.wait(SOON)
    ticker.tick()
    assert panel.state["problem"] == "division by zero" and not panel.state["running"]
