"""The static figure of a timeline as SVG text, for saved notebooks, pages and papers."""

from __future__ import annotations

from html import escape
from typing import Any

from ....profile.model_record import ModelRecord
from ..card.model_facts import duration_text

_WIDTH, _LEFT, _AXIS, _LANE, _WAIT = 860, 110, 18, 44, 18
#: How many of the last executions are shown, and how many rows for the requests that waited for one.
_BATCHES, _ROWS = 120, 8


def timeline_figure(record: ModelRecord) -> str:
    """Draw the last executions, a lane for each instance, and above each its requests while they waited."""
    with record.lock:
        found = record.batches.rows()[-_BATCHES:].tolist()
        requests = record.requests.rows()
        oldest, words = record.requests.dropped, record.words.lists()
    batches = [dict(zip(record.batches.columns, row, strict=True)) for row in found]
    if not batches:
        return ""
    lanes = sorted({int(batch["instance"]) for batch in batches}, key=lambda n: words["instance"][n])
    begin, end = min(batch["start"] for batch in batches), max(batch["end"] for batch in batches)
    begin -= (end - begin) * 0.02
    scale = (_WIDTH - _LEFT - 4) / max(end - begin, 1)
    height = _AXIS + _LANE * len(lanes)
    parts = []
    for number, lane in enumerate(lanes):
        top = _AXIS + number * _LANE
        name = escape(words["instance"][lane] if lane >= 0 else "")
        parts.append(f"<text x='0' y='{top + _WAIT + 13}'>{name}</text>")
        parts.append(f"<rect x='{_LEFT}' y='{top + _WAIT}' width='{_WIDTH - _LEFT - 4}' height='18' opacity='.08'/>")
    for batch in batches:
        top = _AXIS + lanes.index(int(batch["instance"])) * _LANE
        left = _LEFT + (batch["start"] - begin) * scale
        parts += _requests(batch, requests, oldest, left, top, begin, scale)
        parts.append(
            _block(batch, reasons=words["reason"], left=left, top=top, width=(batch["end"] - batch["start"]) * scale)
        )
    for share in range(5):
        x = _LEFT + (_WIDTH - _LEFT - 60) * share / 4
        text = duration_text((x - _LEFT) / scale / 1e9) if share else "0"
        parts.append(f"<text x='{x:.0f}' y='11' opacity='.7'>{text}</text>")
    style = "font:11px sans-serif;fill:currentColor;max-width:100%"
    title = f"the last {len(batches)} executions of {escape(record.name)}"
    return (
        f"<svg role='img' aria-label='{title}' viewBox='0 0 {_WIDTH} {height}' width='{_WIDTH}' style='{style}'>"
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )


def _block(batch: dict[str, float], reasons: list[Any], left: float, top: int, width: float) -> str:
    reason = reasons[int(batch["reason"])] if batch["reason"] >= 0 else ""
    title = f"size {int(batch['size'])}, {duration_text((batch['end'] - batch['start']) / 1e9)}"
    title += f", closed because: {reason}" if reason else ""
    fill = "#d9342b" if batch["failed"] else "#1976d2"
    place = f"x='{left:.1f}' y='{top + _WAIT}' width='{max(width - 0.5, 0.7):.1f}' height='18'"
    label = ""
    if width > 16:
        label = f"<text x='{left + 3:.1f}' y='{top + _WAIT + 13}' fill='#fff'>{int(batch['size'])}</text>"
    return f"<g><title>{escape(title)}</title><rect {place} fill='{fill}'/>{label}</g>"


def _requests(
    batch: dict[str, float], requests: Any, oldest: int, left: float, top: int, begin: float, scale: float
) -> list[str]:
    """Draw the requests as bars from when they came to the queue until the batch left."""
    first, count = int(batch["first"]) - oldest, min(int(batch["count"]), _ROWS)
    bars = []
    for row in range(max(first, 0), first + count):
        came = max(_LEFT + (requests[row, 2] - begin) * scale, _LEFT)
        y = top + (row - first) * _WAIT / _ROWS
        bars.append(
            f"<rect x='{came:.1f}' y='{y:.1f}' width='{max(left - came, 0.5):.1f}' height='1.5' fill='#d98000'/>"
        )
    return bars
