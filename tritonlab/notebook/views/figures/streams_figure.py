"""The figures of streams: the static one, and the one that matplotlib draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from ....figures.axes import days, name_lanes, name_time_axis
from ....figures.svg_picture import BLUE, INK, RED, Key, Scale, Shape, SvgPicture, column_width
from ....record.model_record import EMPTY, ERROR, ModelRecord
from ....record.record_facts import names_by_serial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LANE = 15
_STREAMS = 24
RESPONSE, FAILURE, END = "response", "error", "final flag without a response"


class ShownStream(NamedTuple):
    """A stream: when its request came, when it ended (0 while it is open), and (time, kind) of each response."""

    name: str
    arrived: float
    ended: float
    responses: list[tuple[float, int]]


def last_streams(record: ModelRecord) -> list[ShownStream]:
    """Return the last streams, as many as a picture shows, in the order in which their requests came."""
    with record.lock:
        responses, ended = record.responses.rows(), record.streams.rows()
        names = names_by_serial(record)
        spans = {int(row[0]): (row[1], row[5]) for row in ended.tolist()}
        spans |= {serial: (one.arrived, 0.0) for serial, one in record.open.items()}
    found = []
    for serial in sorted(spans, key=lambda serial: spans[serial][0])[-_STREAMS:]:
        rows = responses[responses[:, 0] == serial].tolist()
        sent = [(row[1], int(row[3])) for row in rows]
        found.append(ShownStream(names.get(serial) or f"request {serial}", *spans[serial], sent))
    return found


def streams_figure(record: ModelRecord, wall: int) -> str:
    """Return the last streams as SVG text, a lane for each, from when the request came, with a mark for each response;
    empty if there is none. `wall`: add it to a time of the record to get nanoseconds since the epoch.
    """
    streams = last_streams(record)
    if not streams:
        return ""
    begin, end = min(one.arrived for one in streams), last_time(streams)
    picture = SvgPicture(f"the last {len(streams)} streams of {record.name}")
    picture.legend(_keys(streams))
    left, top = column_width([one.name for one in streams]), picture.height
    scale = Scale(begin, end, left, picture.width - 6)
    for lane, stream in enumerate(streams):
        y = top + lane * _LANE
        picture.name(y + 10, stream.name, left)
        look = "opacity='.5'" if stream.ended else "opacity='.5' stroke-dasharray='3 3'"
        picture.line(x=scale(stream.arrived), y=y + 6, to_x=scale(stream.ended or end), to_y=y + 6, look=look)
        for time, kind in stream.responses:
            _draw_response(picture, scale(time), y, kind)
    picture.height += 4
    picture.time_axis(scale, wall)
    return picture.svg()


def last_time(streams: list[ShownStream]) -> float:
    """Return the last time that is known of any of the streams."""
    return max(max([one.arrived, one.ended, *(time for time, _ in one.responses)]) for one in streams)


def _keys(streams: list[ShownStream]) -> list[Key]:
    """Return the legend of what there is."""
    kinds = {mark_of(kind) for one in streams for _, kind in one.responses}
    looks: dict[str, tuple[Shape, str]] = {RESPONSE: ("tick", BLUE), FAILURE: ("tick", RED), END: ("ring", INK)}
    found = [Key(*look, name) for name, look in looks.items() if name in kinds]
    if any(one.ended for one in streams):
        found.append(Key("line", INK, "from the request to its end"))
    return found if all(one.ended for one in streams) else [*found, Key("dashes", INK, "final flag not sent yet")]


def mark_of(kind: int) -> str:
    """Return what a response of a kind is called in a legend."""
    return END if kind & EMPTY else FAILURE if kind & ERROR else RESPONSE


def _draw_response(picture: SvgPicture, x: float, y: float, kind: int) -> None:
    if kind & EMPTY:
        picture.dot(x, y + 6, 3.5, INK, filled=False)
    else:
        picture.rect(x=x - 1, y=y + 1, width=2, height=10, tone=RED if kind & ERROR else BLUE)


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
    ax.set_title(f"Streams of {record.name}", parse_math=False)
    ax.legend(loc="upper right", ncols=2, fontsize="small")
