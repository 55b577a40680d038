"""Call graphs and the slots of sequences as SVG text, for saved notebooks and for the live view, which has so few marks
that the browser needs no canvas.
"""

from __future__ import annotations

from html import escape

from ....core.config.ensemble_graph import EnsembleGraph
from ....profile.call_tree import Call
from ....schedulers.sequence_occupancy import Occupancy, SlotUse
from ..card.model_facts import duration_text
from .graph_layout import ANSWER, HEIGHT, LINE, WIDTH, Arrow, Box, GraphLayout, layout

_STYLE = "font:11px sans-serif;fill:currentColor;max-width:100%;height:auto"
_PAPER = "var(--jp-layout-color1,Canvas)"
_WAIT, _RUN, _BAD = "#d98000", "#1976d2", "#d9342b"
_PAD = 8
#: Slots and sequences of the backlog that are drawn one by one.
SLOTS, BACKLOG = 64, 20
_SLOT_WIDTH, _SLOT_HEIGHT, _ROW = 128, 34, 6


def graph_figure(root: Call, graph: EnsembleGraph | None) -> str:
    """Draw a request and its calls. Each box spans the request's whole time from left to right: waiting and running."""
    placed = layout(root, graph)
    title = f"request {escape(root.name)} of {escape(root.model)} and its calls"
    parts = [_arrow(placed, arrow) for arrow in placed.arrows]
    parts += [_box(box, number, root) for number, box in enumerate(placed.boxes)]
    return _svg(title, placed.width, placed.height, parts)


def _svg(title: str, width: float, height: float, parts: list[str]) -> str:
    size = f"viewBox='-1 -1 {width + 1:.0f} {height + 1:.0f}' width='{width + 1:.0f}'"
    return f"<svg role='img' aria-label='{title}' {size} style='{_STYLE}'><title>{title}</title>{''.join(parts)}</svg>"


def _arrow(placed: GraphLayout, arrow: Arrow) -> str:
    """Lead along the left edge of the boxes below the source, to the left edge of the target."""
    one, other = placed.boxes[arrow.source], placed.boxes[arrow.target]
    above = other.y - len(other.tensors) * LINE - 8
    x, end = (one.x - 8 if arrow.past else one.x + 12), other.x + 6
    dashes = " stroke-dasharray='3 3'" if arrow.made else ""
    begin = f"M{one.x:.0f} {one.y + HEIGHT - 8:.0f}H{x:.0f}" if arrow.past else f"M{x:.0f} {one.y + HEIGHT:.0f}"
    path = f"{begin}V{above - 6:.0f}Q{x:.0f} {above:.0f} {(x + end) / 2:.0f} {above:.0f}"
    path += f"T{end:.0f} {above + 6:.0f}V{other.y - 5:.0f}"
    head = f"M{end - 3:.0f} {other.y - 6:.0f}h6l-3 5z"
    line = f"<path d='{path}' fill='none' stroke='currentColor' opacity='.5'{dashes}/>"
    return f"{line}<path d='{head}' opacity='.7'/>"


def _box(box: Box, number: int, root: Call) -> str:
    x, y = box.x, box.y
    parts = [
        f"<text x='{x + 14:.0f}' y='{y - 5 - LINE * (len(box.tensors) - 1 - n):.0f}' opacity='.8'>{escape(text)}</text>"
        for n, text in enumerate(map(_short, box.tensors))
    ]
    edge = _BAD if any(call.failure for call in box.calls) else "currentColor"
    look = f"fill='{_PAPER}' stroke='{edge}' stroke-opacity='.6'" + ("" if box.calls else " stroke-dasharray='3 3'")
    parts.append(f"<rect x='{x:.0f}' y='{y:.0f}' width='{WIDTH}' height='{box.height}' rx='4' {look}/>")
    parts.append(f"<text x='{x + _PAD:.0f}' y='{y + 16:.0f}' font-weight='600'>{escape(_short(box.title, 32))}</text>")
    parts.append(f"<text x='{x + _PAD:.0f}' y='{y + 30:.0f}' opacity='.8'>{escape(times_text(box))}</text>")
    if box.calls:
        parts += _bars(box, root)
    title = escape("\n".join(call_text(call, root) for call in box.calls[:8])) or escape(times_text(box))
    return f"<g data-box='{number}'><title>{title}</title>{''.join(parts)}</g>"


def _bars(box: Box, root: Call) -> list[str]:
    """Draw when each call waited and ran within the root's time."""
    scale = (WIDTH - 2 * _PAD) / max(root.end - root.arrived, 1)
    left, top = box.x + _PAD, box.y + HEIGHT - 13
    parts = [f"<rect x='{left:.0f}' y='{top:.0f}' width='{WIDTH - 2 * _PAD}' height='6' opacity='.12'/>"]
    for call in box.calls:
        run = _BAD if call.failure else _RUN
        for begin, end, fill in ((call.arrived, call.start, _WAIT), (call.start, call.end, run)):
            at = min(max((begin - root.arrived) * scale, 0), WIDTH - 2 * _PAD)
            width = min((end - begin) * scale, WIDTH - 2 * _PAD - at)
            if end > begin:
                parts.append(
                    f"<rect x='{left + at:.1f}' y='{top:.0f}' width='{max(width, 0.7):.1f}' height='6' fill='{fill}'/>"
                )
    return parts


def times_text(box: Box) -> str:
    """Return how long the calls of a box took, in words."""
    if not box.calls:
        return "" if box.title == ANSWER else "not run"
    waited = sum(call.start - call.arrived for call in box.calls)
    ran = sum(call.end - call.start for call in box.calls)
    each = " in all" if len(box.calls) > 1 else ""
    return f"waited {_time(waited)}, ran {_time(ran)}{each}"


def call_text(call: Call, root: Call) -> str:
    """Return one sentence about a call: when it came, waited and ran, with which others, and how it failed."""
    who = f"{call.name} on {call.instance or call.model}, version {call.version}"
    came = f"came at {_time(call.arrived - root.arrived)}, waited {_time(call.start - call.arrived)}"
    others = f" in a batch of {call.count} requests, size {call.size}" if call.count > 1 else ""
    failed = f"; failed: {call.failure}" if call.failure else ""
    more = f"; {call.left_out} calls are not listed" if call.left_out else ""
    return f"{who}: {came}, ran {_time(call.end - call.start)}{others}{failed}{more}."


def sequence_figure(occupied: Occupancy) -> str:
    """Draw the occupied slots of each instance, with the time until its sequence ends as idle, and the backlog."""
    parts: list[str] = []
    y, width = 0, 800
    across = width // (_SLOT_WIDTH + _ROW)
    for name, uses in occupied.instances:
        free = occupied.slots - len(uses)
        parts.append(f"<text x='0' y='{y + 12}' font-weight='600'>{escape(name)}</text>")
        ends = f"a sequence ends after {_time(occupied.max_idle)} without a request"
        text = f"{len(uses)} of {occupied.slots} slots taken; {ends}"
        parts.append(f"<text x='{width}' y='{y + 12}' text-anchor='end' opacity='.8'>{text}</text>")
        shown: list[SlotUse | None] = [*uses[:SLOTS], *[None] * min(free, max(across - len(uses), 0))]
        for n, use in enumerate(shown):
            x, top = n % across * (_SLOT_WIDTH + _ROW), y + 20 + n // across * (_SLOT_HEIGHT + _ROW)
            parts.append(_slot(use, x, top, occupied.max_idle))
        y += 26 + -(-len(shown) // across) * (_SLOT_HEIGHT + _ROW)
    if occupied.backlog:
        waiting = f"{len(occupied.backlog)} sequence{'s' * (len(occupied.backlog) > 1)} without a slot"
        parts.append(f"<text x='0' y='{y + 12}' font-weight='600'>{waiting}</text>")
        for n, entry in enumerate(occupied.backlog[:BACKLOG]):
            label = f"{entry.sequence}: {entry.queued} waiting for {_time(entry.waited)}"
            parts.append(f"<text x='{n % 3 * 280}' y='{y + 30 + n // 3 * 15}'>{escape(label)}</text>")
        y += 36 + -(-min(len(occupied.backlog), BACKLOG) // 3) * 15
    return _svg("the slots of sequences", width, y, parts)


def _slot(use: SlotUse | None, x: int, y: int, max_idle: int) -> str:
    look = f"x='{x}' y='{y}' width='{_SLOT_WIDTH}' height='{_SLOT_HEIGHT}' rx='3' fill='none' stroke='currentColor'"
    if use is None:
        return f"<rect {look} stroke-opacity='.25' stroke-dasharray='3 3'/>"
    state = (
        "executing" if use.executing else "waiting" if use.queued else "idle" if use.idle_left is not None else "ends"
    )
    queued = f", {use.queued} queued" if use.queued else ""
    parts = [
        f"<rect {look} stroke-opacity='.6'/>",
        f"<text x='{x + 6}' y='{y + 13}'>{escape(_short(f'{use.sequence} · {state}{queued}', 21))}</text>",
    ]
    if use.idle_left is not None:
        share = min(max(use.idle_left / max(max_idle, 1), 0), 1)
        fill = _RUN if use.executing else _WAIT
        parts.append(f"<rect x='{x + 6}' y='{y + 20}' width='{share * 66:.1f}' height='6' fill='{fill}'/>")
        left = _time(max(use.idle_left, 0))
        parts.append(f"<text x='{x + _SLOT_WIDTH - 6}' y='{y + 27}' text-anchor='end' opacity='.8'>{left}</text>")
    return "".join(parts)


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _time(ns: float) -> str:
    return duration_text(ns / 1e9)
