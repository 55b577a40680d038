"""`Figure`, a picture as data: marks over two axes, which `svg` draws as text and `plot` with matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.status import UnavailableError
from .axes import axes_of, days, name_lanes, name_time_axis
from .svg_picture import (
    DASHED,
    INK,
    LINE,
    WIDTH,
    Anchor,
    Key,
    Scale,
    Shape,
    SvgPicture,
    Tick,
    axis_width,
    column_width,
    round_steps,
    text_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    #: Turns x or y of marks into matplotlib's values.
    Place = Callable[[Any], Any]

#: The size of a chart in pixels: its width, the height between legend and axis, and the room on its right.
_WIDE, _HIGH, _RIGHT = 640, 190, 16
#: The line and the marker by which matplotlib draws a shape.
_LOOKS: dict[str, tuple[Any, str]] = {
    "line": ("-", "o"),
    "dashes": ("--", "o"),
    "bar": ("-", ""),
    "dot": ("", "o"),
    "ring": ("", "o"),
    "tick": ("", "|"),
    "triangle": ("", "^"),
}


class Span(NamedTuple):
    """A part of the horizontal axis, with its upper edge at `y`. `title`: its tooltip."""

    begin: float
    end: float
    y: float
    title: str = ""
    text: str = ""


class Point(NamedTuple):
    """A point, and the text next to it. `title`: its tooltip."""

    x: float
    y: float
    title: str = ""
    text: str = ""


@dataclass(frozen=True)
class _Mark:
    """Marks of one colour. `label`: their text in the legend; without it they are not in the legend. `inside`: more of
    that text, for parts that only an SVG picture has. `size`: the height of spans, the radius of points, in pixels.
    """

    items: Sequence[Any]
    tone: str
    label: str = ""
    inside: str = ""
    shape: Shape = "dot"
    size: float = 3.5

    @property
    def plain_look(self) -> dict[str, Any]:
        """The label and the colour for matplotlib, which has none of the page."""
        return {"label": self.label, "color": "gray" if self.tone == INK else self.tone}


@dataclass(frozen=True)
class Spans(_Mark):
    """Each Span as a `block` or a `bar`, or as a `line` or `dashes` without a height. The text of a block is inside it
    if it fits or, with `beside`, behind it.
    """

    shape: Shape = "block"
    size: float = 18
    beside: bool = False

    def draw(self, picture: SvgPicture, x: Scale, y: Scale) -> None:
        for begin, end, at, title, text in self.items:
            left, right, top = x.clipped(begin), x.clipped(end), y(at)
            foot = top + self.size / 2 + 4
            with picture.group(title):
                if self.shape in ("line", "dashes"):
                    look = "opacity='.5'" + DASHED * (self.shape == "dashes")
                    picture.line(left, top, right, top, look, self.tone)
                elif end > begin or not self.beside:
                    picture.rect(left, top, max(right - left - 0.5, 0.7), self.size, self.tone)
                if self.beside:
                    picture.text(right + 5, foot, text)
                elif text and right - left > text_width(text) + 5:
                    picture.text(left + 3, foot, text, tone="#fff")

    def plot(self, ax: Axes, x: Place, y: Place) -> None:
        begin, end, at, _, texts = zip(*self.items, strict=True)
        if self.shape == "block":
            left, high = x(begin), y(self.size) - y(0)
            look: Any = {"facecolor": self.tone, "edgecolor": "white", "linewidth": 0.4, "label": self.label}
            bars = ax.barh(y(at), x(end) - left, high, left, align="edge", **look)
            if self.beside:
                ax.bar_label(bars, texts, padding=3)
        else:
            ax.hlines(y(at), x(begin), x(end), linestyles=_LOOKS[self.shape][0], linewidth=1, **self.plain_look)


@dataclass(frozen=True)
class Points(_Mark):
    """Each Point as a `dot`, a `ring`, a `tick` or a `triangle`; with `line` or `dashes` as joined dots. Points are
    above all spans.
    """

    def draw(self, picture: SvgPicture, x: Scale, y: Scale) -> None:
        places = [(x(point.x), y(point.y)) for point in self.items]
        is_line = self.shape in ("line", "dashes")
        if is_line:
            picture.polyline(places, self.tone, "stroke-width='1.5'" + DASHED * (self.shape == "dashes"))
        for point, (left, top) in zip(self.items, places, strict=True) if self.size else ():
            with picture.group(point.title):
                picture.mark("dot" if is_line else self.shape, left, top, self.tone, self.size)

    def plot(self, ax: Axes, x: Place, y: Place) -> None:
        across, up, _, texts = zip(*self.items, strict=True)
        style, marker = _LOOKS[self.shape]
        look = {**self.plain_look, **({"markerfacecolor": "none"} if self.shape == "ring" else {})}
        ax.plot(x(across), y(up), linestyle=style, marker=marker, markersize=2 * self.size, **look)
        for text, left, top in zip(texts, x(across), y(up), strict=True):
            if text:
                ax.annotate(text, (left, top), (0, 6), textcoords="offset points", ha="center")


@dataclass(frozen=True)
class Axis:
    """An axis of numbers. `text` writes a number in an SVG picture; matplotlib shows plain numbers, in `unit`. `note`:
    more about the picture.
    """

    name: str
    low: float
    high: float
    text: Callable[[float], str]
    unit: str = ""
    note: str = ""

    def ticks(self) -> list[Tick]:
        return [Tick(value, self.text(value) if value else "0") for value in round_steps(self.low, self.high)]

    def frame(self, picture: SvgPicture, keys: Sequence[Key]) -> tuple[float, float, Scale]:
        """Draw the legend and a vertical axis. Return where the horizontal axis begins and ends, and the scale."""
        ticks, right = self.ticks(), picture.width - _RIGHT
        left = axis_width(ticks)
        picture.legend(keys, left)
        top = picture.height + LINE / 2
        up = Scale(self.low, self.high, top + _HIGH, top)
        picture.y_axis(up, ticks, self.name, left, right)
        return left, right, up

    @property
    def plain_name(self) -> str:
        """The name of the axis with plain numbers."""
        return f"{self.name}, {self.unit}" if self.unit else self.name


class TimeSpan(NamedTuple):
    """An axis of the time of day. `wall`: add it to a time to get nanoseconds since the epoch."""

    low: float
    high: float
    wall: int


@dataclass(frozen=True)
class Lanes:
    """Lanes below one another; the y of a mark is its distance from the top of the first lane, in pixels. `height`: of
    a lane; `drawn`: of its part with marks; `foot`: the base line of its name. `second`: the name of the lower half of
    each lane; `has_track`: whether that half is gray. `widest`: the most pixels of names; `right`: pixels on the right
    of the lanes.
    """

    names: Sequence[str]
    height: float
    drawn: float
    foot: float
    name: str = ""
    second: str = ""
    has_track: bool = False
    widest: float = 190
    right: float = 4

    def frame(self, picture: SvgPicture, keys: Sequence[Key]) -> tuple[float, float, Scale]:
        """Draw the legend, names and tracks. Return begin and end of the horizontal axis, and the pixels' scale."""
        left, right = column_width([*self.names, self.second], self.widest), picture.width - self.right
        picture.legend(keys)
        top, half = picture.height, self.drawn / 2
        for lane, name in enumerate(self.names):
            y = top + lane * self.height
            picture.name(y + self.foot, name, left)
            if self.second:
                picture.text(0, y + self.foot + half + 1, self.second, dim=True)
            if self.has_track:
                picture.rect(left, y + half, right - left, half, INK, "opacity='.08'")
        high = (len(self.names) - 1) * self.height + self.drawn + 4
        return left, right, Scale(0, high, top, top + high)

    def lane(self, pixels: Any) -> Any:
        """Return the numbers of lanes at these distances; an integer is the middle of a lane's drawn part."""
        return (np.asarray(pixels) - self.drawn / 2) / self.height


class Figure:
    """Marks over a horizontal and a vertical axis; marks without items are left out."""

    def __init__(self, title: str, x: Axis | TimeSpan, y: Axis | Lanes, marks: Sequence[Spans | Points]) -> None:
        self.title = title
        self.x = x
        self.y = y
        self.marks = [mark for mark in marks if mark.items]

    def svg(self) -> str:
        """Return the picture as inline SVG, empty without marks. Spans end where the horizontal axis ends."""
        if not self.marks:
            return ""
        keys = [Key(mark.shape, mark.tone, mark.label + mark.inside) for mark in self.marks if mark.label]
        picture = SvgPicture(self.title, _WIDE if isinstance(self.y, Axis) else WIDTH)
        left, right, up = self.y.frame(picture, keys)
        across = Scale(self.x.low, self.x.high, left, right)
        for mark in sorted(self.marks, key=lambda mark: isinstance(mark, Points)):
            mark.draw(picture, across, up)
        self._write_texts(picture, across, up)
        picture.height = up.start if isinstance(self.y, Axis) else max(picture.height, up.stop)
        if isinstance(self.x, TimeSpan):
            picture.time_axis(across, self.x.wall)
        else:
            if isinstance(self.y, Lanes):
                picture.line(across(0), up.start - 6, across(0), up.stop)
            picture.x_axis(across, self.x.ticks(), f"{self.x.name}; {self.x.note}" if self.x.note else self.x.name)
        return picture.svg()

    def _write_texts(self, picture: SvgPicture, x: Scale, y: Scale) -> None:
        """Write the texts of points: above a point, or if that is taken left, right or below; nowhere without room."""
        groups = [mark for mark in self.marks if isinstance(mark, Points)]
        points = [(x(point.x), y(point.y), mark.size, point.text) for mark in groups for point in mark.items]
        taken = [(left - radius, top - radius, left + radius, top + radius) for left, top, radius, _ in points]
        for at, foot, _, text in points:
            wide = text_width(text)
            places: list[tuple[float, float, Anchor, float]] = [
                (at, foot - 7, "middle", at - wide / 2),
                (at - 8, foot + 4, "end", at - 8 - wide),
                (at + 8, foot + 4, "start", at + 8),
                (at, foot + 17, "middle", at - wide / 2),
            ]
            for end, stand, anchor, left in places if text else ():
                box = left, stand - 9, left + wide, stand
                if left > x.start and box[2] < picture.width and not any(_overlap(box, other) for other in taken):
                    picture.text(end, stand, text, anchor=anchor)
                    taken.append(box)
                    break

    def plot(self, ax: Axes | None, title: str, nothing: str = "") -> Axes:
        """Draw with matplotlib and return the Axes. `ax`: where to draw, instead of in a new figure. `nothing`: why
        there are no marks. Raises ImportError without matplotlib, and UnavailableError without marks.
        """
        if not self.marks:
            raise UnavailableError(f"there is nothing to plot: {nothing}")
        ax, clock, lanes = axes_of(ax), self.x, self.y
        x: Place = (lambda times: days(times, clock.wall)) if isinstance(clock, TimeSpan) else np.asarray
        ax.use_sticky_edges = False
        for mark in self.marks:
            mark.plot(ax, x, lanes.lane if isinstance(lanes, Lanes) else np.asarray)
        ax.set_title(title, parse_math=False)
        if isinstance(lanes, Lanes):
            name_lanes(ax, lanes.names, lowest=lanes.lane(max(item.y for mark in self.marks for item in mark.items)))
            ax.set_ylabel(lanes.name)
            look: Any = {"loc": "upper right", "ncols": 3 if len(self.marks) > 5 else 2, "fontsize": "small"}
        else:
            ax.set_ylim(lanes.low, lanes.high)
            ax.set_ylabel(lanes.plain_name)
            look = {"title": clock.note if isinstance(clock, Axis) else ""}
        if any(mark.label for mark in self.marks):
            ax.legend(**look)
        if isinstance(clock, TimeSpan):
            name_time_axis(ax)
        else:
            room = (clock.high - clock.low) / 5 if isinstance(lanes, Lanes) else 0  # for texts behind the longest
            ax.set_xlim(clock.low, clock.high + room)
            ax.set_xlabel(clock.plain_name)
        return ax


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
