"""Latency against throughput, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.axes import from_zero, time_unit
from ..core.short_number import short_number
from .load_figure import LINES
from .load_row import LoadRow
from .load_text import HEADS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_load(ax: Axes, model: str, mode: str, rows: Sequence[LoadRow]) -> None:
    """Draw the medians and the 99th percentiles of rows that have a latency, with the level of load at each point."""
    size, unit = time_unit(max(row.latency.p99 for row in rows if row.latency))
    rates = [row.inferences_per_s for row in rows]
    for name, tone in LINES:
        ax.plot(rates, [getattr(row.latency, name) / size for row in rows], marker="o", color=tone, label=name)
    for row in rows:
        if row.latency is not None:
            at = row.inferences_per_s, row.latency.p99 / size
            level = short_number(row.level)
            ax.annotate(level, at, xytext=(0, 6), textcoords="offset points", ha="center")
    from_zero(ax, 0.06, 0.1)
    ax.set_xlabel("throughput, inferences/s")
    ax.set_ylabel(f"latency, {unit}")
    ax.set_title(f"Load test of {model}")
    ax.legend(title=f"numbers: {HEADS[mode]}")
