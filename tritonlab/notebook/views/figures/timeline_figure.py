"""The figures of a timeline: the static one, for saved notebooks and pages, and those that matplotlib draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ....core.short_number import duration_text
from ....figures.axes import days, name_lanes, name_time_axis
from ....figures.svg_picture import BLUE, INK, ORANGE, RED, Key, Scale, Shape, SvgPicture, column_width
from ....record.model_record import Mark, ModelRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LANE, _WAIT, _BLOCK = 44, 18, 18
#: How many of the last executions are shown, and how many rows for the requests that waited for one.
BATCHES, _ROWS = 120, 8
#: The room before the first execution, as a share of the time shown.
_BEFORE = 0.02
#: Marks so long after the last execution, as a share of the time shown, are shown, too; and the height of their row.
_AFTER, _MARK_ROW = 0.5, 16
#: How marks are drawn, by kind, as in the live view.
_MARKS: dict[str, tuple[Shape, str]] = {
    "error": ("triangle", RED),
    "restart": ("triangle", RED),
    "timeout": ("triangle", ORANGE),
    "cancelled": ("triangle", ORANGE),
    "waits": ("triangle", ORANGE),
    "state": ("dot", INK),
}
_WORDS = {"error": "an error", "restart": "a restart", "timeout": "a timeout", "cancelled": "a cancellation"}
_WORDS |= {"waits": "a long wait", "state": "a change of state"}


def last_executions(record: ModelRecord) -> list[dict[str, float]]:
    """Return the last executions, as rows of BATCHES. The caller holds the record's lock."""
    found = record.batches.rows()[-BATCHES:].tolist()
    return [dict(zip(record.batches.columns, row, strict=True)) for row in found]


def timeline_figure(record: ModelRecord, wall: int) -> str:
    """Return the last executions as SVG text, a lane for each instance, above each its requests while they waited, and
    below all what happened besides: errors, restarts, states; empty if there is none. `wall`: add it to a time of the
    record to get nanoseconds since the epoch.
    """
    with record.lock:
        batches, requests = last_executions(record), record.requests.rows()
        oldest, words = record.requests.dropped, record.words.lists()
    if not batches:
        return ""
    instances = words["instance"]
    lanes = sorted({int(batch["instance"]) for batch in batches}, key=lambda n: instances[n])
    names = [instances[lane] if lane >= 0 else "" for lane in lanes]
    begin, end = min(batch["start"] for batch in batches), max(batch["end"] for batch in batches)
    picture = SvgPicture(f"the last {len(batches)} executions of {record.name}")
    marks = [mark for mark in list(record.marks) if begin <= mark.time <= end + (end - begin) * _AFTER]
    end = max([end, *(mark.time for mark in marks)])
    picture.legend(_keys(batches, marks))
    left, top = column_width(names), picture.height
    scale = Scale(begin - (end - begin) * _BEFORE, end, left, picture.width - 4)
    for number, name in enumerate(names):
        y = top + number * _LANE + _WAIT
        picture.name(y + 13, name, left)
        picture.rect(x=left, y=y, width=scale.stop - left, height=_BLOCK, tone="currentColor", look="opacity='.08'")
    for batch in batches:
        y = top + lanes.index(int(batch["instance"])) * _LANE
        _draw_requests(picture, batch, requests=requests, oldest=oldest, scale=scale, top=y)
        _draw_execution(picture, batch, reasons=words["reason"], scale=scale, y=y + _WAIT)
    _draw_marks(picture, marks, scale, y=top + len(lanes) * _LANE + _MARK_ROW / 2)
    picture.time_axis(scale, wall)
    return picture.svg()


def _keys(batches: list[dict[str, float]], marks: list[Mark]) -> list[Key]:
    failed = [Key("block", RED, "failed")] if any(batch["failed"] for batch in batches) else []
    waited = Key("bar", ORANGE, "a request that waits")
    kinds = [kind for kind in _MARKS if any(mark.kind == kind for mark in marks)]
    happened = [Key(*_MARKS[kind], _WORDS[kind]) for kind in kinds]
    return [Key("block", BLUE, "execution, with its batch size"), *failed, waited, *happened]


def _draw_marks(picture: SvgPicture, marks: list[Mark], scale: Scale, y: float) -> None:
    for mark in marks:
        shape, tone = _MARKS.get(mark.kind, ("dot", INK))
        with picture.group(f"{mark.kind}: {mark.text}"):
            if shape == "dot":
                picture.dot(scale(mark.time), y, 2.5, tone)
            else:
                picture.triangle(scale(mark.time), y, tone)


def _draw_execution(picture: SvgPicture, batch: dict[str, float], reasons: list[Any], scale: Scale, y: float) -> None:
    reason = reasons[int(batch["reason"])] if batch["reason"] >= 0 else ""
    title = f"size {int(batch['size'])}, {duration_text((batch['end'] - batch['start']) / 1e9)}"
    title += f", closed because: {reason}" if reason else ""
    left = scale(batch["start"])
    tone = RED if batch["failed"] else BLUE
    picture.block(
        x=left,
        y=y,
        width=scale(batch["end"]) - left,
        height=_BLOCK,
        tone=tone,
        text=f"{int(batch['size'])}",
        title=title,
    )


def _draw_requests(
    picture: SvgPicture, batch: dict[str, float], requests: Any, oldest: int, scale: Scale, top: float
) -> None:
    """Draw the requests as bars from when they came to the queue until the batch left."""
    first, count = int(batch["first"]) - oldest, min(int(batch["count"]), _ROWS)
    left = scale(batch["start"])
    for row in range(max(first, 0), first + count):
        came = max(scale(requests[row, 2]), scale.start)
        picture.rect(
            x=came, y=top + (row - first) * _WAIT / _ROWS, width=max(left - came, 0.5), height=1.5, tone=ORANGE
        )


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
    ax.set_title(f"Executions of {record.name}", parse_math=False)
    ax.legend(loc="upper right", ncols=3, fontsize="small")


def _request_rows(batch: Mapping[str, float], oldest: int, total: int) -> list[tuple[int, float]]:
    """Return the rows of a batch's requests that are still kept, each with its share of the batch."""
    first, count = int(batch["first"]) - oldest, int(batch["count"])
    return [(first + n, n / count) for n in range(count) if 0 <= first + n < total]


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
