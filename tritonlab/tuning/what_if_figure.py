"""Recorded batches and those of a replay, one below the other."""

from __future__ import annotations

import numpy as np

from ..core.svg_picture import BLUE, PURPLE, Key, Scale, SvgPicture, column_width
from .recorded_executions import RecordedExecutions
from .replay import ReplayedBatches

_LANE, _BLOCK = 46, 18
#: How many of the last executions are shown.
BATCHES = 60


def lane_names(recorded: RecordedExecutions, replayed: ReplayedBatches) -> list[str]:
    """Return the names of the recorded instances, and of those that only the replay has."""
    count = max(replayed.lane, default=-1) + 1
    more = range(len(recorded.instances), count)
    return [*recorded.instances, *(f"instance {n + 1}" for n in more)]


def what_if_figure(name: str, recorded: RecordedExecutions, replayed: ReplayedBatches, wall: int) -> str:
    """Return the time of the last recorded executions as SVG text, for each instance the recorded ones above the
    replay's. `wall`: add it to a time of the record to get nanoseconds since the epoch.
    """
    start, end = recorded.batch_column("start")[-BATCHES:], recorded.batch_column("end")[-BATCHES:]
    begin, stop = float(start.min()), float(end.max())
    begin -= (stop - begin) * 0.02
    names = lane_names(recorded, replayed)
    picture = SvgPicture(f"batches of {name}: recorded, and below what would have been")
    picture.legend([Key("block", BLUE, "recorded, with the batch size"), Key("block", PURPLE, "what if")])
    left, top = column_width([*names, "what if"]), picture.height
    scale = Scale(begin, stop, left, picture.width - 4)
    for number, instance in enumerate(names):
        picture.name(top + number * _LANE + 13, instance, left)
        picture.text(0, top + number * _LANE + _BLOCK + 15, "what if", dim=True)
    lanes, sizes = recorded.lanes[-BATCHES:], recorded.batch_column("size")[-BATCHES:]
    for lane, from_, to, size in zip(lanes, start.tolist(), end.tolist(), sizes.tolist(), strict=True):
        _draw_batch(picture, scale, span=(from_, to), y=top + lane * _LANE, size=int(size), tone=BLUE)
    first = int(np.searchsorted(replayed.start, begin))
    for n in range(first, len(replayed.start)):
        if replayed.start[n] > stop:
            break
        y = top + replayed.lane[n] * _LANE + _BLOCK + 2
        span = float(replayed.start[n]), min(float(replayed.end[n]), stop)
        _draw_batch(picture, scale, span, y, size=replayed.size[n], tone=PURPLE)
    picture.height = top + _LANE * len(names)
    picture.time_axis(scale, wall)
    return picture.svg()


def _draw_batch(picture: SvgPicture, scale: Scale, span: tuple[float, float], y: float, size: int, tone: str) -> None:
    left, right = scale(span[0]), scale(span[1])
    picture.block(x=left, y=y, width=right - left, height=_BLOCK, tone=tone, text=f"{size}", title=f"size {size}")
