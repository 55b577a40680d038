"""Axes of matplotlib for the `plot` of results.

matplotlib is imported at the first use, because that takes 0.6 to 0.9 s (`svg_picture` has the measurement).
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .svg_picture import clock_text, fitted, time_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SECOND = 10**9
_DAY = 86400 * _SECOND
#: The width of the names of lanes, in the pixels of `fitted`.
_NAMES = 300
#: Microseconds in a unit of time.
_UNITS = {"s": 1e6, "ms": 1e3, "µs": 1.0}


def axes_of(ax: Axes | None) -> Axes:
    """Return `ax`, or the axes of a new figure that has room for its labels. Raises ImportError without matplotlib."""
    if ax is not None:
        return ax
    try:
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ModuleNotFoundError:
        sentence = "plot() needs matplotlib, which is not installed: pip install 'tritonlab[lab]'"
        raise ImportError(sentence, name="matplotlib") from None
    found: Axes = pyplot.subplots(layout="constrained")[1]
    return found


def time_unit(most_us: float) -> tuple[float, str]:
    """Return the microseconds of the unit in which times up to `most_us` read best, and its name."""
    name = next((name for name, size in _UNITS.items() if most_us >= size), "µs")
    return _UNITS[name], name


def days(times: ArrayLike, wall: int) -> NDArray[np.float64]:
    """Return times in ns as matplotlib's dates in local time. `wall`: add it to a time to get ns since the epoch."""
    dates: Any = importlib.import_module("matplotlib.dates")
    since = np.asarray(times, np.float64).astype(np.int64) + wall
    if since.size:
        shift = datetime.fromtimestamp(int(since.flat[0]) / 1e9).astimezone().utcoffset()
        since = since + int(shift.total_seconds() * 1e9 if shift else 0)
    found: NDArray[np.float64] = dates.date2num(since.astype("datetime64[ns]"))
    return found


def name_time_axis(ax: Axes) -> None:
    """Make the horizontal axis show the time of day, for any visible part of it."""
    dates: Any = importlib.import_module("matplotlib.dates")

    def text(value: float, _: object = None) -> str:
        begin, end = ax.get_xlim()
        # a quarter of our own step, because matplotlib may choose a smaller one
        return clock_text(round(value * _DAY), max(time_step((end - begin) * _DAY) // 4, 1), time.gmtime)

    begin, end = ax.dataLim.intervalx
    if begin == end:  # a single moment
        ax.set_xlim(begin - _SECOND / 2 / _DAY, end + _SECOND / 2 / _DAY)
    ax.xaxis.set_major_locator(dates.AutoDateLocator(minticks=3, maxticks=6))
    ax.xaxis.set_major_formatter(text)
    for label in ax.get_xticklabels():
        label.set(rotation=20, ha="right", rotation_mode="anchor")
    ax.set_xlabel("time of day")


def name_lanes(ax: Axes, names: Sequence[str], lowest: float = 0) -> None:
    """Name the lanes of a vertical axis, from the top, below room for a legend. `lowest`: the lowest lane to show."""
    ax.set_yticks(range(len(names)), [fitted(name, _NAMES, end=True) for name in names], parse_math=False)
    ax.set_ylim(max(len(names) - 0.4, lowest + 0.3), -0.7 - 0.2 * len(names))
