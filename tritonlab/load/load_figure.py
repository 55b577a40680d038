"""This module draws latency against throughput, a point for each level of load, as SVG text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from .load_row import LoadRow
from .load_text import number_text, time_text

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 640, 260, 70, 40, 22, 24
#: The lines, and their colours: readable on white and on black.
_LINES = (("p50", "#1976d2"), ("p99", "#d98000"))


def load_figure(model: str, rows: Sequence[LoadRow]) -> str:
    """Draws the medians and the 99th percentiles; empty for less than two rows."""
    shown = [row for row in rows if row.latency is not None]
    if len(shown) < 2:
        return ""
    most_x = max(row.inferences_per_s for row in shown) * 1.05
    most_y = max(row.latency.p99 for row in shown if row.latency) * 1.08
    across, up = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(row: LoadRow, name: str) -> tuple[float, float]:
        latency = getattr(row.latency, name)
        return _LEFT + row.inferences_per_s / most_x * across, _TOP + (1 - latency / most_y) * up

    parts = [_axes(most_x, most_y)]
    for number, (name, colour) in enumerate(_LINES):
        points = [place(row, name) for row in shown]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f"<polyline points='{way}' fill='none' stroke='{colour}' stroke-width='1.5' opacity='.6'/>")
        for row, (x, y) in zip(shown, points, strict=True):
            told = f"{number_text(row.level)}: {number_text(row.inferences_per_s)}/s, {name} "
            told += time_text(getattr(row.latency, name))
            parts.append(f"<g><title>{told}</title><circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{colour}'/></g>")
        parts.append(f"<text x='{_LEFT + 8 + number * 44}' y='14' fill='{colour}'>{name}</text>")
    for row in shown:
        x, y = place(row, "p99")
        parts.append(f"<text x='{x:.1f}' y='{y - 7:.1f}' text-anchor='middle'>{number_text(row.level)}</text>")
    title = f"latency against throughput of {escape(model)}"
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
        parts.append(
            f"<line x1='{_LEFT}' y1='{y}' x2='{_WIDTH - _RIGHT}' y2='{y}' stroke='currentColor' opacity='.15'/>"
        )
        told = time_text(value) if value else "0"
        parts.append(f"<text x='{_LEFT - 6}' y='{y + 4}' text-anchor='end' opacity='.7'>{told}</text>")
    for value in _ticks(most_x):
        x = _LEFT + value / most_x * across
        number = number_text(value) if value else "0"
        parts.append(f"<text x='{x:.1f}' y='{_HEIGHT - 22}' text-anchor='middle' opacity='.7'>{number}</text>")
    parts.append(f"<text x='{_LEFT + across / 2}' y='{_HEIGHT - 5}' text-anchor='middle'>inferences/s</text>")
    return "".join(parts)


def _ticks(most: float) -> list[float]:
    """Returns four to nine round numbers from 0 to `most`."""
    step = 10.0 ** math.floor(math.log10(most))
    step = next(size for size in (step / 5, step / 4, step / 2, step, step * 2) if most / size < 8)
    return [number * step for number in range(int(most / step) + 1)]
