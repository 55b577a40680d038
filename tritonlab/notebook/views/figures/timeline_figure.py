"""The figures of a timeline: executions in lanes, and how many had a batch of each size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ....core.short_number import duration_text
from ....figures.figure import Figure, Lanes, Point, Points, Span, Spans, TimeSpan
from ....figures.svg_picture import BLUE, INK, ORANGE, RED, Shape
from ....record.model_record import ModelRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LANE, _WAIT = 44, 18
#: How many of the last executions are shown, and the most rows for the requests that waited for an execution.
_BATCHES, ROWS = 120, 8
#: The room before the first execution, as a share of the time shown.
_BEFORE = 0.02
#: How long after the last execution marks are still shown, as a share of the time shown; and the height of their row.
_AFTER, _MARK_ROW = 0.5, 16
#: The forms of marks, by kind, as in the live view.
_MARKS: dict[str, tuple[str, str, str, Shape]] = {
    "error": (RED, "an error", "", "triangle"),
    "restart": (RED, "a restart", "", "triangle"),
    "timeout": (ORANGE, "a timeout", "", "triangle"),
    "cancelled": (ORANGE, "a cancellation", "", "triangle"),
    "waits": (ORANGE, "a long wait", "", "triangle"),
    "state": (INK, "a change of state", "", "dot"),
}


def timeline_figure(record: ModelRecord, wall: int, rows: int = ROWS) -> Figure:
    """Return the last executions, a lane for each instance, above each lane at most `rows` of its requests while they
    waited, and below all lanes other events: errors, restarts, states. `wall`: add it to a time of the record to get
    nanoseconds since the epoch.
    """
    with record.lock:
        batches = list(record.batches.dicts(record.batches.total - _BATCHES))
        requests, oldest = record.requests.rows(), record.requests.dropped
    word = record.words.word
    names = {lane: word("instance", lane) for lane in {int(one["instance"]) for one in batches}}
    tops = {lane: number * _LANE for number, lane in enumerate(sorted(names, key=lambda lane: names[lane]))}
    begin = min((one["start"] for one in batches), default=0)
    end = max((one["end"] for one in batches), default=0)
    marks = [mark for mark in list(record.marks) if begin <= mark.time <= end + (end - begin) * _AFTER]
    waits: list[Span] = []
    blocks: dict[bool, list[Span]] = {False: [], True: []}
    for one in batches:
        top = tops[int(one["instance"])]
        first, count = int(one["first"]) - oldest, min(int(one["count"]), rows)
        shown = range(max(first, 0), min(first + count, len(requests)))
        high = _WAIT / max(count, ROWS)
        waits += [Span(requests[row, 2], one["start"], top + (row - first) * high) for row in shown]
        reason = word("reason", one["reason"])
        title = f"size {int(one['size'])}, {duration_text((one['end'] - one['start']) / 1e9)}"
        title += f", closed because: {reason}" if reason else ""
        blocks[bool(one["failed"])].append(Span(one["start"], one["end"], top + _WAIT, title, f"{int(one['size'])}"))
    happened: dict[str, list[Point]] = {kind: [] for kind in _MARKS}
    for mark in marks:
        at = len(names) * _LANE + _MARK_ROW / 2
        happened[mark.kind].append(Point(mark.time, at, f"{mark.kind}: {mark.text}"))
    return Figure(
        f"the last {len(batches)} executions of {record.name}",
        TimeSpan(begin - (end - begin) * _BEFORE, max([end, *(mark.time for mark in marks)]), wall),
        Lanes(sorted(names.values()), _LANE, drawn=2 * _WAIT, foot=31, name="instance", has_track=True),
        [
            Spans(blocks[False], BLUE, "execution", ", with its batch size"),
            Spans(blocks[True], RED, "failed"),
            Spans(waits, ORANGE, "a request that waits", shape="bar", size=1.5),
            *(Points(happened[kind], *look, size=2.5) for kind, look in _MARKS.items()),
        ],
    )


def plot_batch_sizes(ax: Axes, name: str, sizes: Mapping[int, int]) -> None:
    """Draw how many executions had a batch of each size."""
    bars = ax.bar(list(sizes), list(sizes.values()), color=BLUE, width=0.8)
    if len(sizes) <= 16:
        ax.bar_label(bars, fmt="{:,.0f}", padding=2)
        ax.set_xticks(list(sizes))
    ax.margins(y=0.12)
    ax.set_xlabel("batch size")
    ax.set_ylabel("executions")
    ax.set_title(f"Batch sizes of {name}", parse_math=False)
