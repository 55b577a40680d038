"""`LatencyChart`, the frame of a plot of latency against throughput, as SVG text: scales, places and the picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT, LEFT, _BOTTOM, _TOP, _RIGHT = 640, 260, 70, 40, 22, 24


@dataclass(frozen=True)
class LatencyChart:
    """The scales of a plot. `most_x` is per second; `most_y` is in the unit that `time` turns into text, with it.
    `name_y`: what the vertical axis shows.
    """

    most_x: float
    most_y: float
    unit_x: str
    time: Callable[[float], str]
    count: Callable[[float], str]
    name_y: str = "latency"

    def place(self, rate: float, latency: float) -> tuple[float, float]:
        """Return x and y; what is above the top is drawn at the top."""
        across, up = _WIDTH - LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return LEFT + rate / self.most_x * across, _TOP + (1 - min(latency / self.most_y, 1)) * up

    def line(self, latency: float, style: str) -> str:
        """Return a line across the whole chart."""
        _, y = self.place(0, latency)
        return f"<path d='M{LEFT} {y:.1f}H{_WIDTH - _RIGHT}' {style}/>"

    def svg(self, title: str, parts: Sequence[str]) -> str:
        """Return the picture with its scales; `parts` are drawn over them."""
        title = escape(title)
        style = "font:11px sans-serif;fill:currentColor;max-width:100%"
        return (
            f"<svg role='img' aria-label='{title}' viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' style='{style}'>"
            f"<title>{title}</title>{self._axes()}{''.join(parts)}</svg>"
        )

    def _axes(self) -> str:
        parts = []
        for value in _ticks(self.most_y):
            _, y = self.place(0, value)
            parts.append(self.line(value, "stroke='currentColor' opacity='.15'"))
            label = self.time(value) if value else "0"
            parts.append(f"<text x='{LEFT - 6}' y='{y + 4:.1f}' text-anchor='end' opacity='.7'>{label}</text>")
        for value in _ticks(self.most_x):
            x, _ = self.place(value, 0)
            label = self.count(value) if value else "0"
            parts.append(f"<text x='{x:.1f}' y='{_HEIGHT - 22}' text-anchor='middle' opacity='.7'>{label}</text>")
        parts.append(f"<text x='{LEFT - 6}' y='12' text-anchor='end'>{escape(self.name_y)}</text>")
        middle = (LEFT + _WIDTH - _RIGHT) / 2
        parts.append(f"<text x='{middle:g}' y='{_HEIGHT - 5}' text-anchor='middle'>{self.unit_x}</text>")
        return "".join(parts)


def _ticks(most: float) -> list[float]:
    """Return round numbers from 0 up to `most`, eight at most."""
    step = 10.0 ** math.floor(math.log10(most))
    step = next(step * part for part in (0.2, 0.25, 0.5, 1, 2) if most / (step * part) < 8)
    return [float(f"{number * step:.3g}") for number in range(int(most / step) + 1)]
