"""`LatencyChart`, the frame of a picture of latency against throughput: scales, axes, points and their labels."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.short_number import duration_text, short_number
from ....figures.svg_picture import LINE, Anchor, Key, Scale, SvgPicture, Tick, axis_width, round_steps, text_width

_WIDTH, _HIGH, _RIGHT = 640, 190, 16


class LatencyChart:
    """A picture with its legend, scales and axes. `most_rate` is per second, `most_ms` milliseconds; `rate_name` and
    `latency_name` are the names of the axes.
    """

    def __init__(
        self,
        title: str,
        keys: Sequence[Key],
        most_rate: float,
        most_ms: float,
        rate_name: str,
        latency_name: str,
    ) -> None:
        self.picture = SvgPicture(title, _WIDTH)
        self.most_ms = most_ms
        self._taken: list[tuple[float, float, float, float]] = []
        times = [Tick(value, duration_text(value / 1e3) if value else "0") for value in round_steps(0, most_ms)]
        rates = [Tick(value, short_number(value)) for value in round_steps(0, most_rate)]
        self.left = axis_width(times)
        self.picture.legend(keys, self.left)
        top = self.picture.height + LINE / 2
        self._x = Scale(0, most_rate, self.left, _WIDTH - _RIGHT)
        self._y = Scale(0, most_ms, top + _HIGH, top)
        self.picture.y_axis(scale=self._y, ticks=times, name=latency_name, left=self.left, right=_WIDTH - _RIGHT)
        self.picture.height = top + _HIGH
        self.picture.x_axis(self._x, rates, rate_name)

    def place(self, rate: float, ms: float) -> tuple[float, float]:
        """Return x and y; what is above the top is drawn at the top."""
        return self._x(rate), self._y(min(ms, self.most_ms))

    def limit(self, ms: float, tone: str, text: str) -> None:
        """Draw a line across the whole chart, with a text above its begin."""
        _, y = self.place(0, ms)
        self.picture.line(x=self.left, y=y, to_x=_WIDTH - _RIGHT, to_y=y, look="stroke-dasharray='4 3'", tone=tone)
        self.picture.text(self.left + 4, y - 5, text, tone=tone)

    def point(self, x: float, y: float, radius: float, tone: str, title: str, *, filled: bool = True) -> None:
        """Draw a point with a tooltip; labels will not cover it."""
        with self.picture.group(title):
            self.picture.dot(x, y, radius, tone, filled=filled)
        self._taken.append((x - radius, y - radius, x + radius, y + radius))

    def label(self, x: float, y: float, text: str) -> None:
        """Write a text beside a point: above it or, where there is something, left, right or below of it; nowhere if
        there is no room at all.
        """
        wide = text_width(text)
        places: list[tuple[float, float, Anchor, float]] = [
            (x, y - 7, "middle", x - wide / 2),
            (x - 8, y + 4, "end", x - 8 - wide),
            (x + 8, y + 4, "start", x + 8),
            (x, y + 17, "middle", x - wide / 2),
        ]
        for at, foot, anchor, left in places:
            box = left, foot - 9, left + wide, foot
            if left > self.left and box[2] < _WIDTH and not any(_overlap(box, other) for other in self._taken):
                self.picture.text(at, foot, text, anchor=anchor)
                self._taken.append(box)
                return


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
