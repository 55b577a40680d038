"""Pictures as SVG text: the scales, axes, marks, texts and legends that the figures of views and results share.

They are drawn here and not by matplotlib, because a view draws its picture at display and after every burst of changes,
which must take less than 50 ms. Measured on 2 processors (2026-11-24, `python -m tests.benchmarks.pictures`): a
timeline of 8,000 requests 4 ms, 12 metrics of 10,000 changes 7 to 15 ms, a load test 0.2 ms, `what_if` 1.2 ms, each as
the image that a notebook stores; with matplotlib a simpler picture of that size 190 to 260 ms as PNG, 350 to 430 ms as
SVG, and its import 610 to 920 ms at the first one. To restyle and save a picture there is matplotlib: `plot(ax=None)`
of each result (`figures.figure`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from html import escape
from typing import Literal, NamedTuple, get_args

from ..core.short_number import duration_text

#: Tones that are readable on white and on black.
BLUE, ORANGE, RED, PURPLE = "#1976d2", "#d98000", "#d9342b", "#8e5bd0"
INK = "currentColor"
DASHED = " stroke-dasharray='3 3'"
#: The width of a picture in pixels: it fits a page of 1000, and is still readable on one of 600.
WIDTH = 760
#: The height of a line of text, and of the legend.
LINE, LEGEND = 16, 22
#: The room of an axis below the picture: its marks, and below them its name.
AXIS = 38
#: The size of letters, in pixels.
FONT = 12
#: Fonts of similar widths, so that texts fit; the page's own comes first.
FACES = "Helvetica,Arial,'Liberation Sans',sans-serif"
_STYLE = f"font:{FONT}px var(--jp-ui-font-family,{FACES});fill:currentColor;max-width:100%;height:auto"
#: The widths of letters in these fonts and a little more, in shares of the font's size.
_WIDTHS = {letter: 0.31 for letter in "fijlrtI.,:;|!'()[]-· /"} | {letter: 0.9 for letter in "mwMWOQGD%@→…"}
_LETTER, _CAPITAL = 0.58, 0.72
_SECOND = 1_000_000_000
#: The times between two marks of an axis of seconds and more.
_STEPS = [_SECOND * n for n in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)]
_DAY = 86400 * _SECOND
_MARKS = 6

Anchor = Literal["start", "middle", "end"]
Shape = Literal["block", "bar", "line", "dashes", "dot", "ring", "tick", "triangle"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
#: The width and the height of shapes that are blocks.
_SIZES: dict[Shape, tuple[float, float]] = {"block": (14, 10), "bar": (14, 2), "tick": (2, 10)}


class Scale(NamedTuple):
    """Pixels of values: `low` is at `start`, `high` at `stop`."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / ((self.high - self.low) or 1.0) * (self.stop - self.start)

    def clipped(self, value: float) -> float:
        """Return the pixels of the nearest value between the ends of a scale to the right."""
        return min(max(self(value), self.start), self.stop)


class Tick(NamedTuple):
    """A mark of an axis."""

    value: float
    text: str


class Key(NamedTuple):
    """A line of a legend."""

    shape: Shape
    tone: str
    text: str


def text_width(text: str) -> float:
    """Return how many pixels a text takes, rather more than fewer."""
    widths = (_WIDTHS.get(letter, _CAPITAL if letter.isupper() else _LETTER) for letter in text)
    return sum(widths) * FONT


def fitted(text: str, width: float, *, end: bool = False) -> str:
    """Return a text cut to `width` pixels: its beginning, or with `end` its end, where names differ."""
    if text_width(text) <= width:
        return text
    most = int(width / (min(_WIDTHS.values()) * FONT)) + 1
    text = text[-most:] if end else text[:most]
    while text and text_width(f"…{text}") > width:
        text = text[1:] if end else text[:-1]
    return f"…{text}" if end else f"{text}…"


def column_width(names: Sequence[str], most: float = 190) -> float:
    """Return the width of a column of names."""
    return min(max(map(text_width, names), default=0.0), most) + 12


def axis_width(ticks: Sequence[Tick]) -> float:
    """Return the width of the numbers of an upright axis, with its name."""
    return max(text_width(text) for _, text in ticks) + LINE + 10


def round_steps(low: float, high: float) -> list[float]:
    """Return round numbers at equal distances, from `low` to `high`, fewer than 8."""
    span = high - low
    if not 0 < span < math.inf:
        return [low]
    step = 10.0 ** math.floor(math.log10(span))
    step = next(step * part for part in (0.2, 0.25, 0.5, 1, 2, 5) if span / (step * part) < 7)
    numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [float(f"{number * step:.6g}") for number in numbers]


def time_step(span: float) -> int:
    """Return the nanoseconds between two marks of an axis that is `span` nanoseconds long."""
    least = max(span / _MARKS, 1.0)
    if least > _STEPS[-1]:
        return math.ceil(least / _DAY) * _DAY
    if least > _SECOND / 2:
        return next(step for step in _STEPS if step >= least)
    power: int = 10 ** math.floor(math.log10(least))
    return next(power * part for part in (1, 2, 5, 10) if power * part >= least)


def time_ticks(begin: float, end: float, wall: int) -> list[Tick]:
    """Return the marks of an axis of the time of day. `wall`: add it to a time to get nanoseconds since the epoch."""
    step = time_step(end - begin)
    first = int(begin) + wall
    shift = round((datetime.fromtimestamp(first / 1e9).astimezone().utcoffset() or _NONE).total_seconds()) * _SECOND
    at = -(-(first + shift) // step) * step - shift
    ticks = []
    while at - wall <= end:
        ticks.append(Tick(at - wall, clock_text(at, step)))
        at += step
    return ticks


_NONE = datetime.min - datetime.min


def _step_text(step: int) -> str:
    for size, unit in ((_DAY, "d"), (3600 * _SECOND, "h"), (60 * _SECOND, "min")):
        if step >= size:
            return f"{step / size:g} {unit}"
    return duration_text(step / 1e9)


def clock_text(at: int, step: int, zone: Callable[[float], time.struct_time] = time.localtime) -> str:
    """Return the time of day of nanoseconds since the epoch, with the digits for marks `step` apart. `zone` turns
    seconds since the epoch into a local time.
    """
    digits = max(9 - int(math.log10(step)), 0)
    unit = 10 ** (9 - digits)
    at = (at + unit // 2) // unit * unit
    local_time = zone(at // _SECOND)
    if step >= _DAY:
        return time.strftime("%d %b", local_time)
    if step >= 60 * _SECOND:
        return time.strftime("%H:%M", local_time)
    text = time.strftime("%H:%M:%S", local_time)
    return f"{text}.{at % _SECOND:09d}"[: len(text) + 1 + digits] if digits else text


class SvgPicture:
    """A picture that is drawn from the top down; `height` grows with each part."""

    def __init__(self, title: str, width: float = WIDTH, margin: float = 0) -> None:
        self.title = title
        self.width = width
        self.height = 0.0
        self._margin = margin
        self._parts: list[str] = []

    def svg(self, look: str = "") -> str:
        """Return the picture as inline SVG, in the colours and the font of the page. `look`: more attributes."""
        title, edge = escape(self.title), self._margin
        size = f"viewBox='{-edge:g} {-edge:g} {self.width + edge:g} {self.height + edge:g}' width='{self.width:g}'"
        parts = "".join(self._parts)
        root = f"<svg role='img' aria-label='{title}' {size} style=\"{_STYLE}\"{look}>"
        return f"{root}<title>{title}</title>{parts}</svg>"

    def _add(self, part: str, foot: float) -> None:
        self._parts.append(part)
        if foot > self.height:
            self.height = foot

    @contextmanager
    def group(self, title: str, data: str = "") -> Iterator[None]:
        """Draw marks with a common tooltip while this is open; without a tooltip each is drawn by itself. `data`:
        attributes of the group.
        """
        is_group = bool(title or data)
        self._parts.append(f"<g{data}><title>{escape(title)}</title>" * is_group)
        yield
        self._parts.append("</g>" * is_group)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: Anchor = "start",
        tone: str = "",
        dim: bool = False,
        bold: bool = False,
        title: str = "",
    ) -> None:
        """Write a line of text with its base line at `y`."""
        look = f" text-anchor='{anchor}'" if anchor != "start" else ""
        look += f" fill='{tone}'" if tone else ""
        look += " opacity='.75'" if dim else ""
        look += " font-weight='600'" if bold else ""
        tip = f"<title>{escape(title)}</title>" if title else ""
        self._add(f"<text x='{x:.1f}' y='{y:.1f}'{look}>{escape(text)}{tip}</text>", y + 4)

    def name(self, y: float, name: str, width: float) -> None:
        """Write the name of a lane into its column, which is `width` wide."""
        short = fitted(name, width - 12, end=True)
        self.text(0, y, short, title=name if short != name else "")

    def rect(self, x: float, y: float, width: float, height: float, tone: str, look: str = "") -> None:
        """Draw a block. `look`: more attributes."""
        size = f"x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:g}'"
        self._add(f"<rect {size} fill='{tone}'{look and ' '}{look}/>", y + height)

    def path(self, path: str, look: str, foot: float = 0) -> None:
        """Draw a path. `look`: its attributes; `foot`: its lowest y."""
        self._add(f"<path d='{path}' {look}/>", foot)

    def line(self, x: float, y: float, to_x: float, to_y: float, look: str = "opacity='.4'", tone: str = INK) -> None:
        self.path(f"M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}", f"stroke='{tone}' {look}", max(y, to_y))

    def polyline(self, points: Sequence[tuple[float, float]], tone: str, look: str = "stroke-width='1.5'") -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._add(f"<polyline points='{path}' fill='none' stroke='{tone}' {look}/>", max(y for _, y in points))

    def dot(self, x: float, y: float, radius: float, tone: str, *, filled: bool = True) -> None:
        fill = tone if filled else "none"
        look = f"fill='{fill}' stroke='{tone}' stroke-width='1.5'"
        self._add(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius:g}' {look}/>", y + radius)

    def mark(self, shape: Shape, x: float, y: float, tone: str, radius: float = 3.5) -> None:
        """Draw a mark, 14 pixels wide at most, with its middle there."""
        if shape in _SIZES:
            wide, high = _SIZES[shape]
            self.rect(x - wide / 2, y - high / 2, wide, high, tone)
        elif shape in ("line", "dashes"):
            self.line(x - 7, y, to_x=x + 7, to_y=y, look="stroke-width='1.5'" + DASHED * (shape == "dashes"), tone=tone)
        elif shape == "triangle":
            look = f"fill='{tone}'"
            self.path(f"M{x:.1f} {y - 4:.1f}L{x + 4:.1f} {y + 3.5:.1f}L{x - 4:.1f} {y + 3.5:.1f}Z", look, y + 4)
        else:
            self.dot(x, y, radius, tone, filled=shape == "dot")

    def legend(self, keys: Sequence[Key], x: float = 0) -> None:
        """Draw the legend of colours and marks below the picture so far, in as many lines as needed."""
        left, y = x, self.height + 12
        self._parts.append("<g class='tl-legend'>")
        for key in keys:
            wide = 20 + text_width(key.text) + 14
            if left > x and left + wide > self.width + 14:
                left, y = x, y + LINE
            self.mark(key.shape, left + 7, y - 4, key.tone)
            self.text(left + 20, y, key.text)
            left += wide
        self._parts.append("</g>")
        self.height = y + LEGEND - 12

    def x_axis(self, scale: Scale, ticks: Sequence[Tick], name: str) -> None:
        """Draw an axis below the picture so far, with its name."""
        y, free = self.height + 2, -math.inf
        self.line(scale.start, y, scale.stop, y)
        for value, text in ticks:
            x, half = scale(value), text_width(text) / 2
            self.line(x, y, x, y + 4)
            middle = min(max(x, half), self.width - half)
            if middle - half > free:
                self.text(middle, y + 16, text, anchor="middle", dim=True)
                free = middle + half + 6
        half = text_width(name) / 2
        middle = min(max((scale.start + scale.stop) / 2, half), self.width - half)
        self.text(middle, y + 33, name, anchor="middle")

    def time_axis(self, scale: Scale, wall: int) -> None:
        """Draw an axis of the time of day, with the time between two marks, so that lengths can be read."""
        ticks = time_ticks(scale.low, scale.high, wall)
        day = time.strftime("%d %b %Y", time.localtime((scale.low + wall) / 1e9))
        apart = _step_text(time_step(scale.high - scale.low))
        self.x_axis(scale, ticks, f"time of day, {day}; {apart} between two marks")

    def y_axis(self, scale: Scale, ticks: Sequence[Tick], name: str, left: float, right: float) -> None:
        """Draw lines from `left` to `right` at the marks of an axis, its numbers before them, and its name upright."""
        for value, text in ticks:
            y = scale(value)
            self.line(x=left, y=y, to_x=right, to_y=y, look="opacity='.15'")
            self.text(left - 6, y + 4, text, anchor="end", dim=True)
        x, y = 10, (scale.start + scale.stop) / 2
        self._parts.append(
            f"<text transform='translate({x} {y:.1f}) rotate(-90)' text-anchor='middle'>{escape(name)}</text>"
        )
