"""Latency against throughput, a point for each level of load: as SVG, and drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.axes import from_zero, time_unit
from ..core.short_number import short_number
from ..core.svg_picture import BLUE, ORANGE, Key
from .latency_chart import LatencyChart
from .load_row import LoadRow
from .load_text import HEADS, time_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The lines, and their colours.
LINES = (("p50", BLUE), ("p99", ORANGE))


def load_figure(model: str, mode: str, rows: Sequence[LoadRow]) -> str:
    """Return the medians and the 99th percentiles as SVG text, each with its level of load; empty for less than two
    rows.
    """
    answered = [row for row in rows if row.latency is not None]
    if len(answered) < 2:
        return ""
    chart = LatencyChart(
        f"latency against throughput of {model}",
        [Key("line", tone, name) for name, tone in LINES],
        most_rate=max(row.inferences_per_s for row in answered) * 1.05,
        most_ms=max(row.latency.p99 for row in answered if row.latency) / 1e3 * 1.08,
        rate_name=f"throughput, inferences/s; numbers at the points: {HEADS[mode]}",
        latency_name="latency",
    )
    points = {
        name: [chart.place(row.inferences_per_s, getattr(row.latency, name) / 1e3) for row in answered]
        for name, _ in LINES
    }
    for name, tone in LINES:
        chart.picture.polyline(points[name], tone, "stroke-width='1.5' opacity='.6'")
    for name, tone in LINES:
        for row, (x, y) in zip(answered, points[name], strict=True):
            level, rate = short_number(row.level), short_number(row.inferences_per_s)
            chart.point(
                x, y, radius=3.5, tone=tone, title=f"{level}: {rate}/s, {name} {time_text(getattr(row.latency, name))}"
            )
    for row, (x, y) in zip(answered, points["p99"], strict=True):
        chart.label(x, y, short_number(row.level))
    return chart.picture.svg()


def plot_load(ax: Axes, model: str, mode: str, rows: Sequence[LoadRow]) -> None:
    """Draw the medians and the 99th percentiles of rows that have a latency, with the level of load at each point."""
    size, unit = time_unit(max(row.latency.p99 for row in rows if row.latency))
    rates = [row.inferences_per_s for row in rows]
    for name, tone in LINES:
        ax.plot(rates, [getattr(row.latency, name) / size for row in rows], marker="o", color=tone, label=name)
    for row in rows:
        if row.latency is not None:
            at = row.inferences_per_s, row.latency.p99 / size
            level = short_number(row.level)
            ax.annotate(level, at, xytext=(0, 6), textcoords="offset points", ha="center")
    from_zero(ax, 0.06, 0.1)
    ax.set_xlabel("throughput, inferences/s")
    ax.set_ylabel(f"latency, {unit}")
    ax.set_title(f"Load test of {model}")
    ax.legend(title=f"numbers: {HEADS[mode]}")
