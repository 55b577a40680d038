"""The plot of a load test."""

from __future__ import annotations

import pytest

from tests.plots import closed_figures, drawn, facts
from tritonlab.core.status import UnavailableError
from tritonlab.load_testing.load_result import LoadResult

from .fakes import row

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
    assert ax.get_xlim() == pytest.approx((0, 1800 * 1.06)) and ax.get_ylim() == pytest.approx((0, 6 * 1.1))
    assert ax.get_legend().get_title().get_text() == "numbers: concurrency"


def test_one_row_is_a_point_and_none_is_an_error() -> None:
    assert facts(LoadResult("m", "here", "concurrency", [row(1, 900, 20)]).plot())["y"] == "latency, µs"
    with pytest.raises(UnavailableError, match="there is nothing to plot: no request to 'm' succeeded"):
        LoadResult("m", "here", "concurrency", [row(1, 900, latency=None)]).plot()
