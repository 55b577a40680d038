"""The results of `tune` as SVG, and drawn by matplotlib: latency against throughput, and the gain of each part of the
best settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....core.short_number import short_number
from ....figures.axes import from_zero, name_lanes
from ....figures.svg_picture import (
    BLUE,
    ORANGE,
    PURPLE,
    Key,
    Scale,
    SvgPicture,
    Tick,
    column_width,
    round_steps,
    text_width,
)
from ..load_testing.latency_chart import LatencyChart
from .settings_trial import Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW, _BAR = 34, 11
_NOISE = "within noise"


def front_figure(name: str, front: Sequence[Trial], measured: Sequence[Trial], p99_ms: float | None) -> str:
    """Return the front as a line, the measured ones as dots, the best of them filled, and the limit as a line across,
    as SVG text; empty if there is nothing to show.
    """
    points = [one for one in (*front, *measured) if np.isfinite(one.numbers.p99)]
    if not points:
        return ""
    most_ms = max(*(one.numbers.p99 / 1e6 for one in measured or points), (p99_ms or 0.0)) * 1.3
    drawn = [one for one in front if one.numbers.p99 / 1e6 <= most_ms]
    chart = LatencyChart(
        f"p99 latency against throughput of {name}",
        front_keys(drawn, measured),
        most_rate=max(one.numbers.rate for one in points) * 1.06,
        most_ms=most_ms,
        rate_name="throughput, requests/s",
        latency_name="p99 latency",
    )
    if p99_ms is not None:
        chart.limit(p99_ms, ORANGE, f"limit: p99 {p99_ms:g} ms")
    if drawn:
        path = [chart.place(one.numbers.rate, one.numbers.p99 / 1e6) for one in drawn]
        chart.picture.polyline(path, PURPLE)
    for one, radius, tone in [*((one, 2.0, PURPLE) for one in drawn), *((one, 4.5, BLUE) for one in measured)]:
        x, y = chart.place(one.numbers.rate, one.numbers.p99 / 1e6)
        p99 = short_number(one.numbers.p99 / 1e6)
        title = f"{one.settings}, {one.load}: {one.numbers.rate:,.0f} requests/s, p99 {p99} ms"
        chart.point(x, y, radius=radius, tone=tone, title=title, filled=tone == PURPLE or one is measured[0])
    return chart.picture.svg()


def front_keys(front: Sequence[Trial], measured: Sequence[Trial]) -> list[Key]:
    """Return the legend of what there is."""
    found = [Key("line", PURPLE, "predicted front")] if len(front) > 1 else []
    found += [Key("dot", BLUE, "the best, measured")] if measured else []
    return [*found, Key("ring", BLUE, "others, measured")] if len(measured) > 1 else found


class DrawnGain(NamedTuple):
    """The gain of one part of the best settings, shares: replayed, None if a measurement contradicts it, and measured,
    None if it was not; `is_noise`: the measured one may be noise, and has no bar.
    """

    name: str
    replayed: float | None
    measured: float | None
    is_noise: bool = False

    @property
    def bars(self) -> tuple[float | None, float | None]:
        return self.replayed, None if self.is_noise else self.measured


def gain_figure(gains: Sequence[DrawnGain], gained: str) -> str:
    """Return for each part a bar of the replayed gain and one of the measured gain, from a line that stands for none,
    as SVG text. `gained`: the title of the axis.
    """
    known = [0.0, *(gain for one in gains for gain in one.bars if gain is not None)]
    names = [one.name for one in gains]
    picture = SvgPicture("gain of each setting: replayed above, measured below")
    picture.legend([Key("block", PURPLE, "replayed"), Key("block", BLUE, "measured")])
    left, top = column_width(names, most=330), picture.height
    words = [_NOISE for one in gains if one.is_noise]
    beside = max(text_width(text) for text in [*map(_gain_text, known), *words]) + 8
    scale = Scale(min(known), max(max(known), min(known) + 0.01), left, picture.width - beside)
    for number, one in enumerate(gains):
        y = top + number * _ROW
        picture.name(y + 16, one.name, left)
        for line, (share, tone) in enumerate(zip(one.bars, (PURPLE, BLUE), strict=True)):
            if share is not None:
                _draw_bar(picture, scale, gain=share, y=y + line * (_BAR + 2), tone=tone)
        if one.is_noise:
            picture.text(scale(0) + 5, y + _BAR + 12, _NOISE)
    picture.height = top + _ROW * len(names)
    picture.line(scale(0), top - 6, scale(0), picture.height)
    ticks = [Tick(value, _gain_text(value) if value else "0") for value in round_steps(scale.low, scale.high)]
    picture.x_axis(scale, ticks, gained)
    return picture.svg()


def _draw_bar(picture: SvgPicture, scale: Scale, gain: float, y: float, tone: str) -> None:
    left, right = sorted((scale(0), scale(gain)))
    picture.rect(x=left, y=y, width=max(right - left, 1.0), height=_BAR, tone=tone)
    picture.text(max(left + 1, right) + 4, y + 10, _gain_text(gain))


def _gain_text(gain: float) -> str:
    return f"{gain:+,.0%}"


def plot_front(ax: Axes, name: str, front: Sequence[Trial], measured: Sequence[Trial], p99_ms: float | None) -> None:
    """Draw p99 latency against throughput: the front, the measured trials, of which the first is the best, and the
    limit.
    """
    if front:
        places = [(one.numbers.rate, one.numbers.p99 / 1e6) for one in front]
        ax.plot(*zip(*places, strict=True), color=PURPLE, marker=".", label="predicted front")
    for trials, face, label in ((measured[:1], BLUE, "the best, measured"), (measured[1:], "none", "others, measured")):
        if trials:
            rates, times = [one.numbers.rate for one in trials], [one.numbers.p99 / 1e6 for one in trials]
            ax.scatter(rates, times, s=45, facecolors=face, edgecolors=BLUE, zorder=3, label=label)
    if p99_ms is not None:
        ax.axhline(p99_ms, color=ORANGE, linestyle="--", label=f"limit: {p99_ms:g} ms")
    from_zero(ax, 0.06, 0.1)
    ax.set_xlabel("throughput, requests/s")
    ax.set_ylabel("p99 latency, ms")
    ax.set_title(f"Tuning of {name}", parse_math=False)
    ax.legend()


def plot_gains(ax: Axes, gains: Sequence[DrawnGain], name: str, gained: str) -> None:
    """Draw for each setting its replayed and its measured gain as bars."""
    for number, (label, tone) in enumerate((("replayed", PURPLE), ("measured", BLUE))):
        found = [(row, gain) for row, one in enumerate(gains) if (gain := one.bars[number]) is not None]
        rows, widths = [row + (number - 0.5) * 0.36 for row, _ in found], [gain * 100 for _, gain in found]
        bars = ax.barh(rows, widths, height=0.34, color=tone, label=label)
        ax.bar_label(bars, fmt="%+.0f%%", padding=3)
    for row, one in enumerate(gains):
        if one.is_noise:
            ax.annotate(_NOISE, (0, row + 0.18), (3, 0), textcoords="offset points", va="center")
    ax.axvline(0, color="gray", linewidth=0.8)
    ax.margins(x=0.2)
    name_lanes(ax, [one.name for one in gains])
    ax.set_xlabel(gained)
    ax.set_title(f"Gain of each setting of {name}", parse_math=False)
    ax.legend(loc="upper right", ncols=2)
