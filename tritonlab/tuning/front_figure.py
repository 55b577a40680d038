"""Latency against throughput: the best predictions of a search, and the measurements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.short_number import short_number
from ..core.svg_picture import BLUE, ORANGE, PURPLE, Key
from ..load_testing.latency_chart import LatencyChart
from .search import Trial


def front_figure(name: str, front: Sequence[Trial], live: Sequence[Trial], p99_ms: float | None) -> str:
    """Return the front as a line, the measured ones as dots, the best of them filled, and the limit as a line across,
    as SVG text; empty if there is nothing to show.
    """
    points = [one for one in (*front, *live) if np.isfinite(one.numbers.p99)]
    if not points:
        return ""
    most_ms = max(*(one.numbers.p99 / 1e6 for one in live or points), (p99_ms or 0.0)) * 1.3
    shown = [one for one in front if one.numbers.p99 / 1e6 <= most_ms]
    chart = LatencyChart(
        f"p99 latency against throughput of {name}",
        front_keys(shown, live),
        most_rate=max(one.numbers.rate for one in points) * 1.06,
        most_ms=most_ms,
        rate_name="throughput, requests/s",
        latency_name="p99 latency",
    )
    if p99_ms is not None:
        chart.limit(p99_ms, ORANGE, f"limit: p99 {p99_ms:g} ms")
    if shown:
        way = [chart.place(one.numbers.rate, one.numbers.p99 / 1e6) for one in shown]
        chart.picture.polyline(way, PURPLE)
    for one, radius, tone in [*((one, 2.0, PURPLE) for one in shown), *((one, 4.5, BLUE) for one in live)]:
        x, y = chart.place(one.numbers.rate, one.numbers.p99 / 1e6)
        p99 = short_number(one.numbers.p99 / 1e6)
        title = f"{one.settings}, {one.load}: {one.numbers.rate:,.0f} requests/s, p99 {p99} ms"
        chart.point(x, y, radius, tone, title, filled=tone == PURPLE or one is live[0])
    return chart.picture.svg()


def front_keys(front: Sequence[Trial], live: Sequence[Trial]) -> list[Key]:
    """Return the legend of what there is."""
    found = [Key("line", PURPLE, "predicted front")] if len(front) > 1 else []
    found += [Key("dot", BLUE, "the best, measured")] if live else []
    return [*found, Key("ring", BLUE, "others, measured")] if len(live) > 1 else found
