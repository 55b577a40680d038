"""Executions, batch sizes, streams and metrics of a record, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...core.axes import days, name_lanes, name_time_axis
from ...core.svg_picture import BLUE, ORANGE, RED
from ...profile.metric_record import Key, MetricRecord
from ...profile.model_record import ModelRecord
from ...profile.ring import Ring
from .figures.metrics_figure import kind_of, label_text
from .figures.streams_figure import END, FAILURE, RESPONSE, last_streams, last_time, mark_of
from .figures.timeline_figure import last_executions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MIB = 1 << 20
#: The most letters of a line in a legend.
_LETTERS = 40


def plot_executions(ax: Axes, record: ModelRecord, wall: int) -> None:
    """Draw the last executions of a record that has some, a lane for each instance, and above each its requests while
    they waited, over the time of day. `wall`: add it to a time of the record to get nanoseconds since the epoch.
    """
    with record.lock:
        batches, requests = last_executions(record), record.requests.rows()
        oldest, instances = record.requests.dropped, record.words.lists()["instance"]
    lanes = sorted({int(batch["instance"]) for batch in batches}, key=lambda n: instances[n])
    row = {lane: number for number, lane in enumerate(lanes)}
    for tone, label, failed in ((BLUE, "execution", False), (RED, "failed execution", True)):
        for lane in lanes:
            found = [one for one in batches if bool(one["failed"]) is failed and int(one["instance"]) == lane]
            if found:
                begin = days([one["start"] for one in found], wall)
                spans = list(zip(begin, days([one["end"] for one in found], wall) - begin, strict=True))
                ax.broken_barh(spans, (row[lane] - 0.05, 0.4), facecolors=tone, label=label)
                label = "_"  # once in the legend
    waits = [
        (requests[n, 2], one["start"], row[int(one["instance"])] - 0.1 - 0.35 * share)
        for one in batches
        for n, share in _request_rows(one, oldest, len(requests))
    ]
    if waits:
        came, left, rows = zip(*waits, strict=True)
        ax.hlines(rows, days(came, wall), days(left, wall), colors=ORANGE, linewidth=1, label="a request that waits")
    name_lanes(ax, [instances[lane] if lane >= 0 else "" for lane in lanes])
    name_time_axis(ax)
    ax.set_ylabel("instance")
    ax.set_title(f"Executions of {record.name}")
    ax.legend(loc="upper right", ncols=3, fontsize="small")


def _request_rows(batch: Mapping[str, float], oldest: int, total: int) -> list[tuple[int, float]]:
    """Return the rows of a batch's requests that are still kept, each with its share of the batch."""
    first, count = int(batch["first"]) - oldest, int(batch["count"])
    return [(first + n, n / count) for n in range(count) if 0 <= first + n < total]


def plot_streams(ax: Axes, record: ModelRecord, wall: int) -> None:
    """Draw the last streams of a record that has some over the time of day, a lane for each, from when the request
    came, with a mark for each response. `wall`: add it to a time of the record to get nanoseconds since the epoch.
    """
    streams = last_streams(record)
    end = last_time(streams)
    looks: tuple[tuple[bool, Literal["-", "--"], str], ...] = (
        (False, "-", "from the request to its end"),
        (True, "--", "final flag not sent yet"),
    )
    for is_open, style, label in looks:
        lanes = [lane for lane, one in enumerate(streams) if (not one.ended) is is_open]
        if lanes:
            came = days([streams[lane].arrived for lane in lanes], wall)
            left = days([streams[lane].ended or end for lane in lanes], wall)
            ax.hlines(lanes, came, left, colors="gray", linestyles=style, linewidth=1, label=label)
    marks = [(time, lane, mark_of(kind)) for lane, one in enumerate(streams) for time, kind in one.responses]
    for name, marker, tone in ((RESPONSE, "|", BLUE), (FAILURE, "|", RED), (END, "o", "gray")):
        if sent := [(time, lane) for time, lane, mark in marks if mark == name]:
            times, rows = zip(*sent, strict=True)
            ax.plot(days(times, wall), rows, marker, color=tone, markerfacecolor="none", label=name)
    name_lanes(ax, [one.name for one in streams], legend=3)
    name_time_axis(ax)
    ax.set_ylabel("request")
    ax.set_title(f"Streams of {record.name}")
    ax.legend(loc="upper right", ncols=2, fontsize="small")


def plot_batch_sizes(ax: Axes, name: str, sizes: Mapping[int, int]) -> None:
    """Draw how many executions had a batch of each size."""
    bars = ax.bar(list(sizes), list(sizes.values()), color=BLUE, width=0.8)
    if len(sizes) <= 16:
        ax.bar_label(bars, fmt="{:,.0f}", padding=2)
        ax.set_xticks(list(sizes))
    ax.margins(y=0.12)
    ax.set_xlabel("batch size")
    ax.set_ylabel("executions")
    ax.set_title(f"Batch sizes of {name}")


def plot_metrics(ax: Axes, record: MetricRecord, series: Sequence[tuple[Key, Ring]], wall: int, title: str) -> None:
    """Draw series that have changed over the time of day: the values of gauges and counters as steps, the observations
    of histograms as dots; bytes in MiB.
    """
    is_memory = all(kind_of(record, key) == "bytes" for key, _ in series)
    for key, ring in series:
        rows, labels = ring.rows(), label_text(key[1])
        name = f"{key[0]}\n{labels}" if len(key[0] + labels) > _LETTERS else key[0] + labels
        times, values = days(rows[:, 0], wall), rows[:, 1] / (_MIB if is_memory else 1)
        if kind_of(record, key) == "histogram":
            ax.plot(times, values, ".", label=name)
        else:
            ax.step(times, values, where="post", marker="." if len(rows) == 1 else "", label=name)
    names = {key[0] for key, _ in series}
    name_time_axis(ax)
    ax.set_ylim(bottom=min(0.0, *(float(np.min(line.get_ydata())) for line in ax.lines)))
    ax.set_ylabel("memory, MiB" if is_memory else names.pop() if len(names) == 1 else "value")
    ax.set_title(title)
    ax.legend(fontsize="small")
