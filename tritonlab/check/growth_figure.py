"""What a model's processes hold against the requests that they have had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.svg_picture import BLUE, Scale, SvgPicture, Tick, axis_width, round_steps

_HEIGHT = 150


def growth_figure(name: str, series: Mapping[str, Any] | None) -> str:
    """Return the measurements of one kind, from the first one, as SVG text; empty if there are none."""
    if series is None:
        return ""
    requests, values = series["requests"], [value - series["values"][0] for value in series["values"]]
    kind = series["kind"]
    unit = 1 << 20 if kind in ("memory", "shared memory") else 1
    values = [value / unit for value in values]
    name_of_unit = f"{kind} gained" + (", MiB" if unit > 1 else "")
    picture = SvgPicture(f"{kind} of {name} against requests")
    y = Scale(min(0.0, *values), max(*values, 1e-6), 6 + _HEIGHT, 6)
    ticks = [Tick(value, f"{value:g}") for value in round_steps(y.low, y.high, 6)]
    left = axis_width(ticks)
    right = picture.width - 20
    x = Scale(0, max(requests[-1], 1), left, right)
    picture.y_axis(y, ticks, name_of_unit, left, right)
    points = [(x(count), y(value)) for count, value in zip(requests, values, strict=True)]
    picture.polyline(points, BLUE)
    for across, down in points:
        picture.dot(across, down, 2.5, BLUE)
    picture.height = 6 + _HEIGHT
    picture.x_axis(x, [Tick(value, f"{value:,.0f}") for value in round_steps(x.low, x.high)], "requests")
    return picture.svg()
