"""Recorded batches and those of a replay, one below the other, as SVG text."""

from __future__ import annotations

from html import escape

import numpy as np

from ..core.short_number import short_number
from .recorded_executions import RecordedExecutions
from .replay import ReplayedBatches

_WIDTH, _LEFT, _LANE, _BLOCK, _AXIS, _BOTTOM = 860, 150, 46, 18, 20, 36
#: How many letters of a name fit into its column.
_LETTERS = 22
#: How many of the last executions are shown.
_BATCHES = 60
_REAL, _GHOST = "#1976d2", "#8e5bd0"


def what_if_figure(name: str, recorded: RecordedExecutions, replayed: ReplayedBatches) -> str:
    """Draw the time of the last recorded executions, for each instance the recorded ones above the replay's."""
    start, end = recorded.batch_column("start")[-_BATCHES:], recorded.batch_column("end")[-_BATCHES:]
    begin, stop = float(start.min()), float(end.max())
    begin -= (stop - begin) * 0.02
    scale = (_WIDTH - _LEFT - 4) / max(stop - begin, 1)
    names = recorded.instances + [
        f"instance {n + 1}" for n in range(len(recorded.instances), max(replayed.lane, default=-1) + 1)
    ]
    parts = []
    for number, instance in enumerate(names):
        top = _AXIS + number * _LANE
        parts.append(f"<text x='0' y='{top + 13}'>{escape(_cut(instance))}<title>{escape(instance)}</title></text>")
        parts.append(f"<text x='0' y='{top + _BLOCK + 15}' opacity='.7'>what if</text>")
    lanes, sizes = recorded.lanes[-_BATCHES:], recorded.batch_column("size")[-_BATCHES:]
    for lane, left, right, size in zip(lanes, start, end, sizes, strict=True):
        top = _AXIS + lane * _LANE
        parts.append(
            _block(left=(left - begin) * scale, width=(right - left) * scale, top=top, size=int(size), fill=_REAL)
        )
    first = int(np.searchsorted(replayed.start, begin))
    for n in range(first, len(replayed.start)):
        if replayed.start[n] > stop:
            break
        top = _AXIS + replayed.lane[n] * _LANE + _BLOCK + 2
        wide = min(replayed.end[n], stop) - replayed.start[n]
        parts.append(
            _block(
                left=(replayed.start[n] - begin) * scale,
                width=wide * scale,
                top=top,
                size=replayed.size[n],
                fill=_GHOST,
            )
        )
    foot = _AXIS + _LANE * len(names)
    height = foot + _BOTTOM
    parts.append(f"<text x='{_LEFT}' y='13' fill='{_REAL}'>recorded</text>")
    parts.append(f"<text x='{_LEFT + 60}' y='13' fill='{_GHOST}'>what if</text>")
    parts.append(f"<text x='{_LEFT + 110}' y='13' opacity='.7'>numbers: batch size</text>")
    parts += _time_axis((stop - begin) / 1e6, foot)
    title = f"batches of {escape(name)}: recorded, and below what would have been"
    style = "font:11px sans-serif;fill:currentColor;max-width:100%"
    return (
        f"<svg role='img' aria-label='{title}' viewBox='0 0 {_WIDTH} {height}' width='{_WIDTH}' style='{style}'>"
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )


def _time_axis(span_ms: float, top: int) -> list[str]:
    """Return the scale of the time below the lanes, in milliseconds since their begin."""
    parts = [f"<path d='M{_LEFT} {top}H{_WIDTH - 4}' stroke='currentColor' opacity='.4'/>"]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = _LEFT + share * (_WIDTH - _LEFT - 4)
        anchor = {0.0: "start", 1.0: "end"}.get(share, "middle")
        label = short_number(span_ms * share)
        parts.append(f"<text x='{x:.1f}' y='{top + 14}' text-anchor='{anchor}' opacity='.7'>{label}</text>")
    middle = (_LEFT + _WIDTH - 4) / 2
    return [*parts, f"<text x='{middle:g}' y='{top + 30}' text-anchor='middle'>time, ms</text>"]


def _cut(name: str) -> str:
    return name if len(name) <= _LETTERS else "…" + name[1 - _LETTERS :]


def _block(left: float, width: float, top: int, size: int, fill: str) -> str:
    label = ""
    if width > 14:
        label = f"<text x='{_LEFT + left + 3:.1f}' y='{top + 13}' fill='#fff'>{size}</text>"
    place = f"x='{_LEFT + left:.1f}' y='{top}' width='{max(width - 0.5, 0.7):.1f}' height='{_BLOCK}'"
    return f"<g><title>size {size}</title><rect {place} fill='{fill}'/>{label}</g>"
