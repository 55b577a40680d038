"""The static figure of streams."""

from __future__ import annotations

from ....core.svg_picture import BLUE, INK, RED, Key, Scale, SvgPicture, column_width
from ....profile.model_record import EMPTY, ERROR, ModelRecord
from ....profile.stream_facts import names_by_serial

_LANE = 15
_STREAMS = 24


def streams_figure(record: ModelRecord, wall: int) -> str:
    """Return the last streams as SVG text, a lane for each, from when the request came, with a mark for each response;
    empty if there is none. `wall`: add it to a time of the record to get nanoseconds since the epoch.
    """
    with record.lock:
        responses, ended = record.responses.rows(), record.streams.rows()
        names = names_by_serial(record)
        spans = {int(row[0]): (row[1], row[5]) for row in ended.tolist()}
        spans |= {serial: (one.arrived, 0.0) for serial, one in record.open.items()}
    serials = sorted(spans, key=lambda serial: spans[serial][0])[-_STREAMS:]
    if not serials:
        return ""
    begin = min(spans[serial][0] for serial in serials)
    end = max([*(spans[serial][1] for serial in serials), *responses[:, 1].tolist()])
    shown = [names.get(serial) or f"request {serial}" for serial in serials]
    sent = [responses[responses[:, 0] == serial].tolist() for serial in serials]
    picture = SvgPicture(f"the last {len(serials)} streams of {record.name}")
    kinds = [int(row[3]) for rows in sent for row in rows]
    picture.legend(_keys(kinds, any(not spans[serial][1] for serial in serials)))
    left, top = column_width(shown), picture.height
    scale = Scale(begin, end, left, picture.width - 6)
    for lane, (serial, rows) in enumerate(zip(serials, sent, strict=True)):
        y = top + lane * _LANE
        arrived, closed = spans[serial]
        picture.name(y + 10, shown[lane], left)
        look = "opacity='.5'" if closed else "opacity='.5' stroke-dasharray='3 3'"
        picture.line(x=scale(arrived), y=y + 6, to_x=scale(closed or end), to_y=y + 6, look=look)
        for row in rows:
            _draw_response(picture, scale(row[1]), y, int(row[3]))
    picture.height += 4
    picture.time_axis(scale, wall)
    return picture.svg()


def _keys(kinds: list[int], is_open: bool) -> list[Key]:
    """Return the legend of what there is."""
    found = [Key("tick", BLUE, "response")]
    if any(kind & ERROR and not kind & EMPTY for kind in kinds):
        found.append(Key("tick", RED, "error"))
    if any(kind & EMPTY for kind in kinds):
        found.append(Key("ring", INK, "final flag without a response"))
    found.append(Key("line", INK, "from the request to its end"))
    return [*found, Key("dashes", INK, "final flag not sent yet")] if is_open else found


def _draw_response(picture: SvgPicture, x: float, y: float, kind: int) -> None:
    if kind & EMPTY:
        picture.dot(x, y + 6, 3.5, INK, filled=False)
    else:
        picture.rect(x=x - 1, y=y + 1, width=2, height=10, tone=RED if kind & ERROR else BLUE)
