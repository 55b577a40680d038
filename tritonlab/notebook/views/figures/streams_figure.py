"""The static figure of streams as SVG text."""

from __future__ import annotations

from html import escape

from ....profile.model_record import EMPTY, ERROR, ModelRecord
from ....profile.stream_facts import names_by_serial
from ..card.model_facts import duration_text

_WIDTH, _LEFT, _TOP, _LANE = 860, 130, 16, 14
_STREAMS = 24


def streams_figure(record: ModelRecord) -> str:
    """Draw the last streams, a lane for each, from when the request came, with a mark for each response."""
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
    scale = (_WIDTH - _LEFT - 10) / max(end - begin, 1)
    parts = [f"<text x='{_LEFT}' y='10' opacity='.7'>0 to {duration_text((end - begin) / 1e9)}</text>"]
    for lane, serial in enumerate(serials):
        y = _TOP + lane * _LANE
        arrived, closed = spans[serial]
        x, stop = _LEFT + (arrived - begin) * scale, _LEFT + ((closed or end) - begin) * scale
        dashes = "" if closed else " stroke-dasharray='3 3'"
        name = escape(names.get(serial) or f"request {serial}")
        parts.append(f"<text x='0' y='{y + 9}'>{name[:20]}</text>")
        parts.append(f"<path d='M{x:.1f} {y + 6}H{stop:.1f}' stroke='currentColor' opacity='.4'{dashes}/>")
        for row in responses[responses[:, 0] == serial].tolist():
            parts.append(_mark(_LEFT + (row[1] - begin) * scale, y, int(row[3])))
    title = f"the last {len(serials)} streams of {escape(record.name)}"
    style = "font:11px sans-serif;fill:currentColor;max-width:100%"
    size = f"viewBox='0 0 {_WIDTH} {_TOP + _LANE * len(serials)}' width='{_WIDTH}'"
    return f"<svg role='img' aria-label='{title}' {size} style='{style}'><title>{title}</title>{''.join(parts)}</svg>"


def _mark(x: float, y: int, kind: int) -> str:
    if kind & EMPTY:
        return f"<circle cx='{x:.1f}' cy='{y + 6}' r='3.5' fill='none' stroke='currentColor'/>"
    fill = "#d9342b" if kind & ERROR else "#1976d2"
    return f"<rect x='{x - 1:.1f}' y='{y + 1}' width='2' height='10' fill='{fill}'/>"
