"""The result of a load test as text, JSON, CSV and a figure, and the options of a load test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.plots import closed_figures, drawn, facts
from tritonlab.core.status import InvalidArgumentError, UnavailableError
from tritonlab.tools.measure.load_testing.call_log import CallLog
from tritonlab.tools.measure.load_testing.load_plan import LoadPlan
from tritonlab.tools.measure.load_testing.load_result import LoadResult
from tritonlab.tools.measure.load_testing.load_row import LoadWindow, row_of

from .fakes import MS, ended, row

ERRORS = {f"error {number}\n  at line {number}": 10 - number for number in range(8)}


def result(*rows: Any, mode: str = "concurrency", stopped: str = "") -> LoadResult:
    return LoadResult("m", "in this kernel", mode, rows, stopped)


def test_the_text_states_the_facts() -> None:
    text = result(row(1, 950), row(8, 12_345.6, 1500, stable=False), stopped="interrupted").text()
    title, heads, first, second, note = text.splitlines()
    assert title == "Load test of m, in this kernel (interrupted)"
    assert heads.split()[:3] == ["concurrency", "inferences/s", "p50"]
    assert first.split()[:4] == ["1", "950", "100", "µs"]
    assert second.split()[:4] == ["8", "12,346", "1.5", "ms"]
    assert second.split()[-2:] == ["0", "no"]
    assert note.startswith("not stable at concurrency 8: ")


def test_errors_are_listed_with_their_texts_and_never_more_than_forty_lines() -> None:
    many = result(*(row(level, 100, errors=ERRORS, unanswered=3) for level in range(1, 61)))
    text = many.text()
    assert len(text.splitlines()) <= 40
    assert "at concurrency 1: 10 failed: error 0 at line 0" in text
    assert "at concurrency 1: 12 failed with other errors: to_dict()" in text
    assert "at concurrency 1: 3 still under way at the end, cancelled" in text
    assert "36 more rows" in text
    assert many.rows[0].failed == sum(ERRORS.values())


def test_a_rate_that_was_not_reached_is_reported() -> None:
    late = result(row(1000, 600), mode="request_rate").text()
    assert "at requests/s 1,000: only 600/s could be sent; latency counts from when each was due" in late
    assert "only" not in result(row(100, 97, seconds=1.0), mode="request_rate").text()  # chance


def test_nothing_measured_is_reported() -> None:
    nothing = result(stopped="stopped")
    assert nothing.text() == "Load test of m, in this kernel (stopped): nothing was measured"
    assert nothing.best is None
    assert nothing.figure() == ""
    assert "nothing was measured" in nothing.html()


def test_the_result_is_json_with_stable_keys() -> None:
    document = json.loads(json.dumps(result(row(1, 100), row(2, 150, latency=None, server=None)).to_dict()))
    assert set(document) == {"model", "place", "mode", "stopped", "rows"}
    first = document["rows"][0]
    assert set(first["latency_us"]) == {"avg", "p50", "p90", "p95", "p99", "max"}
    assert set(first) == {
        *("level", "seconds", "requests", "requests_per_s", "inferences_per_s", "responses_per_s", "sent_per_s"),
        *("latency_us", "first_response_us", "lag_us", "client_send_us", "client_receive_us", "network_us"),
        *("server", "errors", "failed", "unanswered", "stable", "windows", "tokens"),
    }
    assert first["server"]["queue_us"] == 10
    assert first["network_us"] == 100 - 5 - 2 - 33
    assert document["rows"][1]["network_us"] is None


def test_the_csv_has_the_columns_of_perf_analyzer(tmp_path: Path) -> None:
    path = result(row(8, 500.25, 200), row(1, 100), row(9, 600, latency=None, server=None)).to_csv(tmp_path / "l.csv")
    assert path.read_text().splitlines() == [
        "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,"
        "Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency",
        "1,100,5,60,10,1,20,2,2,100,200,300,400",
        "8,500.25,5,160,10,1,20,2,2,200,400,600,800",
        "9,600,5,,,,,,2,,,,",
    ]
    assert result(row(1, 1), mode="request_rate").to_csv(path).read_text().startswith("Request Rate,Inferences/Second,")


def test_the_figure_has_a_point_for_each_row() -> None:
    figure = result(row(1, 100), row(2, 150), row(4, 160, latency=None)).figure()
    assert figure.count("<circle") == 4  # p50 and p99 of two rows
    assert "aria-label='latency against throughput of m'" in figure
    assert "<circle" not in result(row(1, 100)).figure()
    assert ">latency</text>" in figure and "numbers at the points: concurrency" in figure
    assert ">150</td>" in result(row(2, 150)).html()


def test_a_row_is_made_of_the_last_windows_only() -> None:
    log = CallLog()
    for number in range(40):
        failed = log.error_number("no room") if number % 10 == 9 else 0
        log.add(ended(number * MS, (number + 2) * MS, sent=(number + 1) * MS, error=failed, batch=2))
    windows = [LoadWindow(start * MS, (start + 10) * MS, 1, 1) for start in (0, 10, 20, 30)]
    found = row_of(5, log, windows, windows[1:], (None, None), 60, True, False, True, 1)
    assert (found.seconds, found.requests, found.failed) == (0.03, 27, 3)
    assert (found.requests_per_s, found.inferences_per_s, found.sent_per_s) == (900, 1800, 3000)
    assert found.errors == {"no room": 3}
    assert found.latency is not None and found.lag is not None
    assert (found.latency.p50, found.lag.max) == (2000, 1000)
    assert (found.server, found.first_response, len(found.windows)) == (None, None, 4)


@pytest.mark.parametrize(
    ("options", "levels"),
    [
        ({}, (1,)),
        ({"concurrency": 4}, (4,)),
        ({"concurrency": range(1, 4)}, (1, 2, 3)),
        ({"request_rate": [10, 2.5]}, (10, 2.5)),
        ({"arrivals": [0.0, 0.5, 1.0, 1.5]}, (4 / 1.5,)),
    ],
)
def test_a_plan_has_a_level_for_each_row(options: dict[str, Any], levels: tuple[float, ...]) -> None:
    assert LoadPlan.from_options(options, "m").levels == levels


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"concurrency": 1, "request_rate": 2}, "give only one of concurrency and request_rate"),
        ({"concurrency": 1.5}, "whole number"),
        ({"concurrency": float("inf")}, "whole number"),
        ({"concurrency": []}, "more than 0"),
        ({"concurrency": "four"}, "a number or a list of numbers"),
        ({"request_rate": [1, -1]}, "more than 0"),
        ({"seconds": 0}, "seconds must be more than 0"),
        ({"arrivals": [0.0, 1.0], "seconds": -1}, "seconds must be more than 0"),
        ({"batch": -1}, "batch must be more than 0"),
        ({"sequence_length": 0}, "sequence_length must be more than 0"),
        ({"max_trials": 2}, "max_trials must be 3 or more"),
        ({"percentile": 100}, "percentile must be between"),
        ({"request_rate": 1, "distribution": "burst"}, "distribution 'burst' does not exist"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        LoadPlan.from_options(options, "m")


def test_unknown_options_are_refused() -> None:
    with pytest.raises(TypeError, match=r"no option 'concurency': did you mean 'concurrency'\?"):
        LoadPlan.from_options({"concurency": 1}, "m")


__all__ = ["closed_figures"]


def test_a_load_test_is_latency_against_throughput() -> None:
    rows = [row(1, 900), row(2, 1800, 1500), row(4, 1900, latency=None)]
    ax = drawn(LoadResult("m", "here", "concurrency", rows).plot)
    assert facts(ax) == {
        "title": "Load test of m",
        "x": "throughput, inferences/s",
        "y": "latency, ms",
        "legend": ["p50", "p99"],
    }
    p50, p99 = ax.lines
    assert list(p50.get_xdata()) == [900, 1800] and list(p50.get_ydata()) == [0.1, 1.5]
    assert list(p99.get_ydata()) == [0.4, 6.0]
    assert [text.get_text() for text in ax.texts] == ["1", "2"]
    assert ax.get_xlim() == pytest.approx((0, 1800 * 1.05)) and ax.get_ylim() == pytest.approx((0, 6 * 1.08))
    assert ax.get_legend().get_title().get_text() == "numbers at the points: concurrency"


def test_one_row_is_a_point_and_none_is_an_error() -> None:
    assert facts(LoadResult("m", "here", "concurrency", [row(1, 900, 20)]).plot())["y"] == "latency, µs"
    with pytest.raises(UnavailableError, match="there is nothing to plot: no request to 'm' succeeded"):
        LoadResult("m", "here", "concurrency", [row(1, 900, latency=None)]).plot()


def test_dollars_in_a_name_are_no_formula() -> None:
    ax = LoadResult("$\\nope{$", "here", "concurrency", [row(1, 900, 20)]).plot()
    ax.figure.canvas.draw()
    assert ax.get_title() == "Load test of $\\nope{$"


def test_a_saved_result_is_compared_level_by_level(tmp_path: Path) -> None:
    path = result(row(1, 100), row(8, 1000)).save(tmp_path / "kept.json")
    same = result(row(1, 95), row(2, 1), row(8, 1000)).compare(path)
    assert same.ok and "nothing worse" in same.text()
    slower = result(row(8, 800)).compare(path)
    assert not slower.ok and [change.fact for change in slower.changes if change.is_worse] == ["at 8: inferences/s"]
    assert result(row(8, 800)).compare(path, tolerance=0.3).ok
    assert "worse" in slower.html() and slower.to_dict()["ok"] is False


@pytest.mark.parametrize("text", ["{}", "no JSON", '{"tool": "check", "model": "m"}', '{"model": "m"}'])
def test_what_is_no_saved_load_test_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "kept.json").write_text(text)
    with pytest.raises(InvalidArgumentError, match="saved result"):
        result(row(1, 100)).compare(tmp_path / "kept.json")


def test_results_without_a_common_level_are_not_compared() -> None:
    with pytest.raises(InvalidArgumentError, match="no level of load in common"):
        result(row(1, 100)).compare(result(row(2, 100)))
