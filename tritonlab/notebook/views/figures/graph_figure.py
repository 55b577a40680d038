"""Call graphs and the slots of sequences as SVG text, for saved notebooks and for the live view, whose few marks need
no canvas in the browser.
"""

from __future__ import annotations

from ....core.config.ensemble_graph import EnsembleGraph
from ....core.short_number import ns_text
from ....engine.schedulers.sequence_occupancy import Occupancy, SlotUse
from ....figures.svg_picture import BLUE, INK, LEGEND, LINE, ORANGE, RED, Key, SvgPicture, fitted, text_width
from ....record.call_tree import Call
from . import graph_layout
from .graph_layout import ANSWER, HEIGHT, WIDTH, Arrow, Box, GraphLayout, layout

_PAPER = "var(--jp-layout-color1,Canvas)"
_PAD = 8
#: Slots and sequences of the backlog that are drawn one by one.
SLOTS, BACKLOG = 64, 20
_ACROSS, _SLOT_HEIGHT, _ROW = 3, 36, 6


def graph_figure(root: Call, graph: EnsembleGraph | None) -> str:
    """Draw a request and its calls. Each box spans the request's whole time from left to right: waiting and running."""
    placed = layout(root, graph)
    keys = [Key("block", ORANGE, "waited"), Key("block", BLUE, "ran")]
    keys += [Key("block", RED, "failed")] * any(call.failure for box in placed.boxes for call in box.calls)
    span = f"bars: the {ns_text(root.end - root.arrived)} of the request"
    picture = SvgPicture(f"request {root.name} of {root.model} and its calls", max(placed.width, 2 * WIDTH), margin=1)
    picture.height = placed.height
    for arrow in placed.arrows:
        _draw_arrow(picture, placed, arrow)
    for number, box in enumerate(placed.boxes):
        _draw_box(picture, box, number, root)
    picture.legend(keys)
    picture.text(sum(34 + text_width(key.text) for key in keys), picture.height - LEGEND + 12, span, dim=True)
    return picture.svg()


def _draw_arrow(picture: SvgPicture, placed: GraphLayout, arrow: Arrow) -> None:
    """Draw a path along the left edge of the boxes below the source, to the left edge of the target."""
    one, other = placed.boxes[arrow.source], placed.boxes[arrow.target]
    above = other.y - len(other.tensors) * graph_layout.LINE - 8
    x, end = (one.x - 8 if arrow.past else one.x + 12), other.x + 6
    dashes = " stroke-dasharray='3 3'" if arrow.made else ""
    begin = f"M{one.x:.0f} {one.y + HEIGHT - 8:.0f}H{x:.0f}" if arrow.past else f"M{x:.0f} {one.y + HEIGHT:.0f}"
    path = f"{begin}V{above - 6:.0f}Q{x:.0f} {above:.0f} {(x + end) / 2:.0f} {above:.0f}"
    path += f"T{end:.0f} {above + 6:.0f}V{other.y - 5:.0f}"
    picture.path(path, f"fill='none' stroke='currentColor' opacity='.5'{dashes}")
    picture.path(f"M{end - 3:.0f} {other.y - 6:.0f}h6l-3 5z", "opacity='.7'")


def _draw_box(picture: SvgPicture, box: Box, number: int, root: Call) -> None:
    x, y = box.x, box.y
    title = "\n".join(call_text(call, root) for call in box.calls[:8]) or times_text(box)
    with picture.group(title, f" data-box='{number}'"):
        for n, text in enumerate(box.tensors):
            foot = y - 5 - graph_layout.LINE * (len(box.tensors) - 1 - n)
            picture.text(x + 14, foot, fitted(text, WIDTH - 14), dim=True)
        edge = RED if any(call.failure for call in box.calls) else INK
        look = f"rx='4' stroke='{edge}' stroke-opacity='.6'" + ("" if box.calls else " stroke-dasharray='3 3'")
        picture.rect(x, y, width=WIDTH, height=box.height, tone=_PAPER, look=look)
        room = WIDTH - 2 * _PAD
        picture.text(x + _PAD, y + 16, fitted(box.title, room * 0.95), bold=True)
        picture.text(x + _PAD, y + 31, fitted(times_text(box), room), dim=True)
        if box.calls:
            _draw_bars(picture, box, root)


def _draw_bars(picture: SvgPicture, box: Box, root: Call) -> None:
    """Draw when each call waited and ran within the root's time."""
    wide = WIDTH - 2 * _PAD
    scale = wide / max(root.end - root.arrived, 1)
    left, top = box.x + _PAD, box.y + HEIGHT - 13
    picture.rect(x=left, y=top, width=wide, height=6, tone=INK, look="opacity='.12'")
    for call in box.calls:
        run = RED if call.failure else BLUE
        for begin, end, tone in ((call.arrived, call.start, ORANGE), (call.start, call.end, run)):
            at = min(max((begin - root.arrived) * scale, 0), wide)
            width = min((end - begin) * scale, wide - at)
            if end > begin:
                picture.rect(x=left + at, y=top, width=max(width, 0.7), height=6, tone=tone)


def times_text(box: Box) -> str:
    """Return the duration of the calls of a box, in words."""
    if not box.calls:
        return "" if box.title == ANSWER else "not run"
    waited = sum(call.start - call.arrived for call in box.calls)
    ran = sum(call.end - call.start for call in box.calls)
    each = " in all" if len(box.calls) > 1 else ""
    return f"waited {ns_text(waited)}, ran {ns_text(ran)}{each}"


def call_text(call: Call, root: Call) -> str:
    """Return one sentence about a call: when it came, waited and ran, with which other calls, and how it failed."""
    callee = f"{call.name} on {call.instance or call.model}, version {call.version}"
    came = f"came at {ns_text(call.arrived - root.arrived)}, waited {ns_text(call.start - call.arrived)}"
    others = f" in a batch of {call.count} requests, size {call.size}" if call.count > 1 else ""
    failed = f"; failed: {call.failure}" if call.failure else ""
    more = f"; {call.left_out} calls are not listed" if call.left_out else ""
    return f"{callee}: {came}, ran {ns_text(call.end - call.start)}{others}{failed}{more}."


def sequence_figure(occupied: Occupancy) -> str:
    """Draw the occupied slots of each instance, with the time until an idle sequence ends, and the backlog."""
    picture = SvgPicture("the slots of sequences", margin=1)
    for name, uses in occupied.instances:
        _draw_slots(picture, name, uses, occupied)
    if any(use.idle_left is not None for _, uses in occupied.instances for use in uses):
        words = "time until the sequence ends"
        picture.legend([Key("block", BLUE, f"{words}, executing now"), Key("block", ORANGE, f"{words}, idle")])
    if occupied.backlog:
        y = picture.height
        waiting = f"{len(occupied.backlog)} sequence{'s' * (len(occupied.backlog) > 1)} without a slot"
        picture.text(0, y + 12, waiting, bold=True)
        for n, entry in enumerate(occupied.backlog[:BACKLOG]):
            label = f"{entry.sequence}: {entry.queued} waiting for {ns_text(entry.waited)}"
            wide = picture.width / 3
            picture.text(n % 3 * wide, y + 30 + n // 3 * LINE, fitted(label, wide - 8))
    return picture.svg()


def _draw_slots(picture: SvgPicture, name: str, uses: list[SlotUse], occupied: Occupancy) -> None:
    """Draw the slots of one instance, below the picture so far."""
    y, wide = picture.height, picture.width / _ACROSS
    free = occupied.slots - len(uses)
    ends = f"a sequence ends after {ns_text(occupied.max_idle)} without a request"
    text = f"{len(uses)} of {occupied.slots} slots taken; {ends}"
    picture.text(0, y + 12, fitted(name, picture.width - text_width(text) - 20, end=True), bold=True)
    picture.text(picture.width, y + 12, text, anchor="end", dim=True)
    drawn: list[SlotUse | None] = [*uses[:SLOTS], *[None] * min(free, max(_ACROSS - len(uses), 0))]
    for n, use in enumerate(drawn):
        x, top = n % _ACROSS * wide, y + 20 + n // _ACROSS * (_SLOT_HEIGHT + _ROW)
        _draw_slot(picture, use, x, y=top, width=wide - _ROW, max_idle=occupied.max_idle)
    picture.height += 8


def _draw_slot(picture: SvgPicture, use: SlotUse | None, x: float, y: float, width: float, max_idle: int) -> None:
    if use is None:
        picture.rect(
            x, y, width, height=_SLOT_HEIGHT, tone="none", look="rx='3' stroke='currentColor' stroke-opacity='.25'"
        )
        return
    state = (
        "executing" if use.executing else "waiting" if use.queued else "idle" if use.idle_left is not None else "ends"
    )
    queued = f", {use.queued} queued" if use.queued else ""
    picture.rect(x, y, width, height=_SLOT_HEIGHT, tone="none", look="rx='3' stroke='currentColor' stroke-opacity='.6'")
    room = width - 12 - text_width(f" · {state}{queued}")
    text = f"{fitted(str(use.sequence), room, end=True)} · {state}{queued}"
    picture.text(x + 6, y + 14, text, title=f"{use.sequence}")
    if use.idle_left is not None:
        share = min(max(use.idle_left / max(max_idle, 1), 0), 1)
        picture.rect(x=x + 6, y=y + 22, width=share * (width - 72), height=6, tone=BLUE if use.executing else ORANGE)
        picture.text(x + width - 6, y + 29, ns_text(max(use.idle_left, 0)), anchor="end", dim=True)
