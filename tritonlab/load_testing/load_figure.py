"""Latency against throughput as SVG text, a point for each level of load."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.short_number import short_number
from .latency_chart import LEFT, LatencyChart
from .load_row import LoadRow
from .load_text import HEADS, time_text

#: The lines, and their colours: readable on white and on black.
_LINES = (("p50", "#1976d2"), ("p99", "#d98000"))


def load_figure(model: str, mode: str, rows: Sequence[LoadRow]) -> str:
    """Draw the medians and the 99th percentiles, each with its level of load; empty for less than two rows."""
    shown = [row for row in rows if row.latency is not None]
    if len(shown) < 2:
        return ""
    chart = LatencyChart(
        most_x=max(row.inferences_per_s for row in shown) * 1.05,
        most_y=max(row.latency.p99 for row in shown if row.latency) * 1.08,
        unit_x="inferences/s",
        time=time_text,
        count=short_number,
    )

    def place(row: LoadRow, name: str) -> tuple[float, float]:
        return chart.place(row.inferences_per_s, getattr(row.latency, name))

    parts = []
    for number, (name, colour) in enumerate(_LINES):
        points = [place(row, name) for row in shown]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f"<polyline points='{way}' fill='none' stroke='{colour}' stroke-width='1.5' opacity='.6'/>")
        for row, (x, y) in zip(shown, points, strict=True):
            label = f"{short_number(row.level)}: {short_number(row.inferences_per_s)}/s, {name} "
            label += time_text(getattr(row.latency, name))
            parts.append(f"<g><title>{label}</title><circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{colour}'/></g>")
        parts.append(f"<text x='{LEFT + 8 + number * 44}' y='14' fill='{colour}'>{name}</text>")
    for row in shown:
        x, y = place(row, "p99")
        parts.append(f"<text x='{x:.1f}' y='{y - 7:.1f}' text-anchor='middle'>{short_number(row.level)}</text>")
    legend = f"numbers at the points: {HEADS[mode]}"
    parts.append(f"<text x='{LEFT + 100}' y='14' opacity='.7'>{legend}</text>")
    return chart.svg(f"latency against throughput of {model}", parts)
