"""The gain of each part of the best settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.svg_picture import BLUE, PURPLE, Key, Scale, SvgPicture, Tick, column_width, round_steps, text_width
from .ablation import PartGain
from .search import Trial

_ROW, _BAR = 34, 11
#: The room for the text beside a bar.
_TEXT = text_width("+1000%") + 8


def gain_figure(
    part_gains: Sequence[PartGain], best: Trial, is_contradicted: Callable[[PartGain], bool] = lambda one: False
) -> str:
    """Return for each part a bar of the replayed gain, unless a measurement contradicts it, and one of the measured
    gain, from a line that stands for none, as SVG text. `best`: the best settings as they were measured.
    """
    gains = [(None if is_contradicted(one) else one.gain, one.live_gain(best)) for one in part_gains]
    known = [0.0, *(gain for pair in gains for gain in pair if gain is not None)]
    names = [f"{one.part} {one.was} → {one.became}" for one in part_gains]
    picture = SvgPicture("gain of each setting: replayed above, measured below")
    picture.legend([Key("block", PURPLE, "replayed"), Key("block", BLUE, "measured")])
    left, top = column_width(names, most=330), picture.height
    scale = Scale(min(known), max(max(known), min(known) + 0.01), left, picture.width - _TEXT)
    for number, (name, gain) in enumerate(zip(names, gains, strict=True)):
        y = top + number * _ROW
        picture.name(y + 16, name, left)
        for line, (share, tone) in enumerate(zip(gain, (PURPLE, BLUE), strict=True)):
            if share is not None:
                _draw_bar(picture, scale, gain=share, y=y + line * (_BAR + 2), tone=tone)
    picture.height = top + _ROW * len(names)
    picture.line(scale(0), top - 6, scale(0), picture.height)
    gained = "throughput gained" if best.load.closed else "p99 shortened by"
    ticks = [Tick(value, f"{value:+.0%}" if value else "0") for value in round_steps(scale.low, scale.high)]
    picture.x_axis(scale, ticks, f"{gained}, %")
    return picture.svg()


def _draw_bar(picture: SvgPicture, scale: Scale, gain: float, y: float, tone: str) -> None:
    left, right = sorted((scale(0), scale(gain)))
    picture.rect(x=left, y=y, width=max(right - left, 1.0), height=_BAR, tone=tone)
    picture.text(max(left + 1, right) + 4, y + 10, f"{gain:+.0%}")
