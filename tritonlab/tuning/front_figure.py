"""This module draws latency against throughput: what a search predicts at best, and what was measured, as SVG text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from .search import Trial

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 640, 260, 60, 40, 22, 24
_FRONT, _LIVE = "#8e5bd0", "#1976d2"


def front_figure(name: str, front: Sequence[Trial], live: Sequence[Trial], p99_ms: float | None) -> str:
    """Draws the front as a line, the measured ones as dots, the best of them filled; the limit as a line across."""
    points = [one for one in (*front, *live) if np.isfinite(one.numbers.p99)]
    if not points:
        return ""
    most_x = max(one.numbers.rate for one in points) * 1.06
    most_y = max(*(one.numbers.p99 / 1e6 for one in live or points), (p99_ms or 0.0)) * 1.3
    across, up = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(rate: float, p99: float) -> tuple[float, float]:
        return _LEFT + rate / most_x * across, _TOP + (1 - min(p99 / most_y, 1)) * up

    parts = [_axes(most_x, most_y)]
    if p99_ms is not None:
        _, y = place(0, p99_ms)
        parts.append(f"<path d='M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}' stroke='#d98000' stroke-dasharray='4 3'/>")
        parts.append(f"<text x='{_LEFT + 4}' y='{y - 4:.1f}' fill='#d98000'>p99 {p99_ms:g} ms</text>")
    shown = [one for one in front if one.numbers.p99 / 1e6 <= most_y]
    way = " ".join("{:.1f},{:.1f}".format(*place(one.numbers.rate, one.numbers.p99 / 1e6)) for one in shown)
    parts.append(f"<polyline points='{way}' fill='none' stroke='{_FRONT}' stroke-width='1.5'/>")
    for one, radius, tone in [*((one, 2, _FRONT) for one in shown), *((one, 4.5, _LIVE) for one in live)]:
        x, y = place(one.numbers.rate, one.numbers.p99 / 1e6)
        told = f"{one.settings}, {one.load}: {one.numbers.rate:,.0f} requests/s, p99 {one.numbers.p99 / 1e6:.3g} ms"
        fill = tone if tone == _FRONT or one is live[0] else "none"
        dot = f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius}' fill='{fill}' stroke='{tone}' stroke-width='1.5'/>"
        parts.append(f"<g><title>{escape(told)}</title>{dot}</g>")
    parts.append(f"<text x='{_LEFT + 8}' y='14' fill='{_FRONT}'>predicted front</text>")
    parts.append(f"<text x='{_LEFT + 110}' y='14' fill='{_LIVE}'>measured, filled: the best</text>")
    title = f"p99 latency against throughput of {escape(name)}"
    style = "font:11px sans-serif;fill:currentColor;max-width:100%"
    return (
        f"<svg role='img' aria-label='{title}' viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' style='{style}'>"
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )


def _axes(most_x: float, most_y: float) -> str:
    across, up = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    parts = []
    for value in _ticks(most_y):
        y = _TOP + (1 - value / most_y) * up
        parts.append(f"<path d='M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}' stroke='currentColor' opacity='.15'/>")
        parts.append(f"<text x='{_LEFT - 6}' y='{y + 4:.1f}' text-anchor='end' opacity='.7'>{value:g}</text>")
    for value in _ticks(most_x):
        x = _LEFT + value / most_x * across
        parts.append(f"<text x='{x:.1f}' y='{_HEIGHT - 22}' text-anchor='middle' opacity='.7'>{value:,g}</text>")
    parts.append(f"<text x='{_LEFT + across / 2}' y='{_HEIGHT - 5}' text-anchor='middle'>requests/s</text>")
    parts.append(f"<text x='2' y='{_TOP - 8}'>p99 ms</text>")
    return "".join(parts)


def _ticks(most: float) -> list[float]:
    """Returns round numbers from 0 up to `most`, six at most."""
    step = 10.0 ** math.floor(math.log10(most))
    step = next(step * part for part in (0.1, 0.2, 0.5, 1, 2) if most / (step * part) < 6)
    return [float(f"{number * step:.3g}") for number in range(int(most / step) + 1)]
