"""The figures of `tune`: latency against throughput, and the gain of each part of the best settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ....core.short_number import duration_text, short_number
from ....figures.figure import Axis, Figure, Lanes, Point, Points, Span, Spans
from ....figures.svg_picture import BLUE, ORANGE, PURPLE, text_width
from .settings_trial import Trial

_ROW, _BAR = 34, 11
_NOISE = "within noise"


def front_figure(name: str, front: Sequence[Trial], measured: Sequence[Trial], p99_ms: float | None) -> Figure:
    """Return the front as a line, the measured trials as dots (the best one filled), and the limit as a line across."""
    points = [one for one in (*front, *measured) if np.isfinite(one.numbers.p99)]
    most_ms = max([p99_ms or 0.0, *(one.numbers.p99 / 1e6 for one in measured or points)]) * 1.3
    drawn = [_point(one) for one in front if one.numbers.p99 / 1e6 <= most_ms]
    best, others = [[_point(one) for one in part] for part in (measured[:1], measured[1:])]
    most_rate = max((one.numbers.rate for one in points), default=0.0) * 1.06
    limit = [Point(0, p99_ms), Point(most_rate, p99_ms)] if points and p99_ms is not None else []
    return Figure(
        f"p99 latency against throughput of {name}",
        Axis("throughput, requests/s", 0, most_rate, short_number),
        Axis("p99 latency", 0, most_ms, lambda ms: duration_text(ms / 1e3), "ms"),
        [
            Points(drawn, PURPLE, "predicted front", shape="line", size=2),
            Points(best, BLUE, "the best, measured", size=4.5),
            Points(others, BLUE, "others, measured", shape="ring", size=4.5),
            Points(limit, ORANGE, f"limit: p99 {p99_ms:g} ms" if limit else "", shape="dashes", size=0),
        ],
    )


def _point(one: Trial) -> Point:
    rate, ms = one.numbers.rate, one.numbers.p99 / 1e6
    return Point(rate, ms, f"{one.settings}, {one.load}: {rate:,.0f} requests/s, p99 {short_number(ms)} ms")


class DrawnGain(NamedTuple):
    """The gain of one part of the best settings, as shares: replayed (None if a measurement contradicts it) and
    measured (None if it was not). `is_noise`: the measured gain may be noise, and has no bar.
    """

    name: str
    replayed: float | None
    measured: float | None
    is_noise: bool = False


def gain_figure(gains: Sequence[DrawnGain], gained: str) -> Figure:
    """Return for each part a bar of the replayed gain, percent, and one of the measured gain, starting at the line of
    zero. `gained`: the title of the axis.
    """
    replayed = [_bar(row, one.replayed) for row, one in enumerate(gains) if one.replayed is not None]
    measured = [
        _bar(row + 0.4, 0 if one.is_noise else one.measured, _NOISE * one.is_noise)
        for row, one in enumerate(gains)
        if one.measured is not None or one.is_noise
    ]
    known = [0.0, *(end for bar in (*replayed, *measured) for end in (bar.begin, bar.end))]
    beside = max((text_width(bar.text) for bar in (*replayed, *measured)), default=0) + 8
    names = [one.name for one in gains]
    return Figure(
        "gain of each setting: replayed above, measured below",
        Axis(gained, min(known), max(max(known), min(known) + 1), _percent),
        Lanes(names, _ROW, drawn=2 * _BAR + 2, foot=16, widest=330, right=beside),
        [
            Spans(replayed, PURPLE, "replayed", size=_BAR, beside=True),
            Spans(measured, BLUE, "measured", size=_BAR, beside=True),
        ],
    )


def _bar(row: float, gain: float | None, text: str = "") -> Span:
    percent = (gain or 0) * 100
    return Span(min(percent, 0), max(percent, 0), row * _ROW, text=text or _percent(percent))


def _percent(gain: float) -> str:
    return f"{gain:+,.0f}%"
