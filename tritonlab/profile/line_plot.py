"""The lines of a profile as bars, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..core.axes import name_lanes
from ..core.svg_picture import BLUE, ORANGE, PURPLE, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TONES = (BLUE, PURPLE, ORANGE, RED)


def plot_lines(ax: Axes, names: Sequence[str], bars: Sequence[tuple[str, Sequence[float]]], what: str) -> None:
    """Draw a bar for each line, of one piece for each of `bars`: its label, and its value at each line. `what`: the
    quantity, with its unit.
    """
    left = np.zeros(len(names))
    for (label, values), tone in zip(bars, _TONES, strict=False):
        ax.barh(range(len(names)), values, left=left, height=0.7, color=tone, label=label)
        left += np.asarray(values, float)
    name_lanes(ax, list(names))
    ax.set_xlim(left=0)
    ax.set_xlabel(what)
    if len(bars) > 1:
        ax.legend(loc="lower right")
