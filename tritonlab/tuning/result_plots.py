"""The results of `tune` and `what_if`, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..core.axes import days, from_zero, name_lanes, name_time_axis
from ..core.short_number import short_number
from ..core.svg_picture import BLUE, ORANGE, PURPLE
from .recorded_executions import RecordedExecutions
from .replay import Floats, Numbers, ReplayedBatches
from .search import Trial
from .what_if_figure import BATCHES, lane_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Gain = tuple[str, float | None, float | None]


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
    ax.set_title(f"Tuning of {name}")
    ax.legend()


def plot_gains(ax: Axes, gains: Sequence[Gain], name: str, gained: str) -> None:
    """Draw for each setting its replayed and its measured gain, shares, as bars; None for those without a bar."""
    for number, (label, tone) in enumerate((("replayed", PURPLE), ("measured", BLUE)), start=1):
        found = [(row, gain) for row, one in enumerate(gains) if (gain := one[number]) is not None]
        rows, widths = [row + (number - 1.5) * 0.36 for row, _ in found], [gain * 100 for _, gain in found]
        bars = ax.barh(rows, widths, height=0.34, color=tone, label=label)
        ax.bar_label(bars, fmt="%+.0f%%", padding=3)
    ax.axvline(0, color="gray", linewidth=0.8)
    ax.margins(x=0.2)
    name_lanes(ax, [one[0] for one in gains])
    ax.set_xlabel(f"{gained}, %")
    ax.set_title(f"Gain of each setting of {name}")
    ax.legend(loc="upper right", ncols=2)


def plot_latency(ax: Axes, title: str, runs: Sequence[tuple[str, Floats, Numbers]]) -> None:
    """Draw the share of requests that were answered within a time, for each run: its name, its latencies, nanoseconds,
    and its numbers.
    """
    for (label, latency, numbers), tone in zip(runs, (BLUE, PURPLE), strict=False):
        shares = np.arange(1, len(latency) + 1) / max(len(latency), 1) * 100
        rate = f"{short_number(numbers.busy_rate)} requests/s while busy"
        times = f"p50 {short_number(numbers.p50 / 1e6)} ms, p99 {short_number(numbers.p99 / 1e6)} ms"
        ax.step(np.sort(latency) / 1e6, shares, where="post", color=tone, label=f"{label}: {times}, {rate}")
    ax.set_xlim(left=0)
    ax.set_ylim(0, 118)  # with room for the legend
    ax.set_yticks(range(0, 101, 20))
    ax.set_xlabel("latency, ms")
    ax.set_ylabel("requests answered within it, %")
    ax.set_title(title, fontsize="medium")
    ax.legend(fontsize="small", loc="upper left")


def plot_lanes(ax: Axes, name: str, recorded: RecordedExecutions, replayed: ReplayedBatches, wall: int) -> None:
    """Draw the last recorded executions of each instance, and below them those of the replay, over the time of day.
    `wall`: add it to a time of the record to get nanoseconds since the epoch.
    """
    start, end = recorded.batch_column("start")[-BATCHES:], recorded.batch_column("end")[-BATCHES:]
    began, ended = np.array(replayed.start, float), np.array(replayed.end, float)
    in_span = (began >= start.min()) & (began <= end.max())
    lanes = np.array(replayed.lane, int)[in_span]
    runs = [
        ("recorded", BLUE, np.array(recorded.lanes[-BATCHES:], int), start, end),
        ("what if", PURPLE, lanes, began[in_span], ended[in_span]),
    ]
    names = lane_names(recorded, replayed)
    for row, (label, tone, numbers, left, right) in enumerate(runs):
        for lane in range(len(names)):
            of_lane = numbers == lane
            begin = days(left[of_lane], wall)
            spans = list(zip(begin, days(right[of_lane], wall) - begin, strict=True))
            known = label if lane == int(numbers.min(initial=0)) else None
            ax.broken_barh(
                spans, (lane + row * 0.4 - 0.38, 0.36), facecolors=tone, edgecolors="white", linewidth=0.4, label=known
            )
    name_lanes(ax, names)
    name_time_axis(ax)
    ax.set_ylabel("instance")
    ax.set_title(f"Batches of {name}")
    ax.legend(loc="upper right", ncols=2)
