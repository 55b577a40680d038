"""The figure of streams."""

from __future__ import annotations

from typing import NamedTuple

from ....figures.figure import Figure, Lanes, Point, Points, Span, Spans, TimeSpan
from ....figures.svg_picture import BLUE, INK, RED
from ....record.model_record import EMPTY, ERROR, ModelRecord
from ....record.record_facts import names_by_serial

_LANE, _MIDDLE = 15, 6
_STREAMS = 24


class _Stream(NamedTuple):
    """A stream: when its request came, when it ended (0 while it is open), and (time, kind) of each response."""

    name: str
    arrived: float
    ended: float
    responses: list[tuple[float, int]]


def _last_streams(record: ModelRecord) -> list[_Stream]:
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
        found.append(_Stream(names.get(serial) or f"request {serial}", *spans[serial], sent))
    return found


def streams_figure(record: ModelRecord, wall: int) -> Figure:
    """Return the last streams, a lane for each, from when the request came, with a mark for each response. `wall`: add
    it to a time of the record to get nanoseconds since the epoch.
    """
    streams = _last_streams(record)
    times = [time for one in streams for time in (one.arrived, one.ended, *(time for time, _ in one.responses))]
    end = max(times, default=0)
    lines: dict[bool, list[Span]] = {True: [], False: []}
    responses: list[Point] = []
    failures: list[Point] = []
    finals: list[Point] = []
    for lane, one in enumerate(streams):
        middle = lane * _LANE + _MIDDLE
        lines[bool(one.ended)].append(Span(one.arrived, one.ended or end, middle))
        for time, kind in one.responses:
            (finals if kind & EMPTY else failures if kind & ERROR else responses).append(Point(time, middle))
    return Figure(
        f"the last {len(streams)} streams of {record.name}",
        TimeSpan(min((one.arrived for one in streams), default=0), end, wall),
        Lanes([one.name for one in streams], _LANE, drawn=11, foot=10, name="request", right=6),
        [
            Points(responses, BLUE, "response", shape="tick"),
            Points(failures, RED, "error", shape="tick"),
            Points(finals, INK, "final flag without a response", shape="ring"),
            Spans(lines[True], INK, "from the request to its end", shape="line"),
            Spans(lines[False], INK, "final flag not sent yet", shape="dashes"),
        ],
    )
