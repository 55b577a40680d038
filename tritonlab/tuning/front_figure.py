"""Latency against throughput, the best predictions of a search and the measurements, as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from ..core.short_number import short_number
from ..load_testing.latency_chart import LEFT, LatencyChart
from .search import Trial

_FRONT, _LIVE = "#8e5bd0", "#1976d2"


def front_figure(name: str, front: Sequence[Trial], live: Sequence[Trial], p99_ms: float | None) -> str:
    """Draw the front as a line, the measured ones as dots, the best of them filled; the limit as a line across."""
    points = [one for one in (*front, *live) if np.isfinite(one.numbers.p99)]
    if not points:
        return ""
    chart = LatencyChart(
        most_x=max(one.numbers.rate for one in points) * 1.06,
        most_y=max(*(one.numbers.p99 / 1e6 for one in live or points), (p99_ms or 0.0)) * 1.3,
        unit_x="requests/s",
        time=lambda value: f"{value:g} ms",
        count=lambda value: f"{value:,g}",
        name_y="p99 latency",
    )
    parts = []
    if p99_ms is not None:
        _, y = chart.place(0, p99_ms)
        parts.append(chart.line(p99_ms, "stroke='#d98000' stroke-dasharray='4 3'"))
        parts.append(f"<text x='{LEFT + 4}' y='{y - 4:.1f}' fill='#d98000'>p99 {p99_ms:g} ms</text>")
    shown = [one for one in front if one.numbers.p99 / 1e6 <= chart.most_y]
    way = " ".join("{:.1f},{:.1f}".format(*chart.place(one.numbers.rate, one.numbers.p99 / 1e6)) for one in shown)
    parts.append(f"<polyline points='{way}' fill='none' stroke='{_FRONT}' stroke-width='1.5'/>")
    for one, radius, tone in [*((one, 2, _FRONT) for one in shown), *((one, 4.5, _LIVE) for one in live)]:
        x, y = chart.place(one.numbers.rate, one.numbers.p99 / 1e6)
        p99 = short_number(one.numbers.p99 / 1e6)
        title = f"{one.settings}, {one.load}: {one.numbers.rate:,.0f} requests/s, p99 {p99} ms"
        fill = tone if tone == _FRONT or one is live[0] else "none"
        dot = f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius}' fill='{fill}' stroke='{tone}' stroke-width='1.5'/>"
        parts.append(f"<g><title>{escape(title)}</title>{dot}</g>")
    if shown:
        parts.append(f"<text x='{LEFT + 8}' y='14' fill='{_FRONT}'>predicted front</text>")
    parts.append(f"<text x='{LEFT + 110}' y='14' fill='{_LIVE}'>measured, filled: the best</text>")
    return chart.svg(f"p99 latency against throughput of {name}", parts)
