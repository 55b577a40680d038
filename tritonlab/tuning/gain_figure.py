"""The gain of each part of the best settings, as SVG text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from .ablation import PartGain
from .search import Trial

_WIDTH, _LEFT, _ROW, _BAR, _TOP, _BOTTOM = 760, 340, 34, 11, 24, 20
_REPLAYED, _LIVE = "#8e5bd0", "#1976d2"


def gain_figure(
    part_gains: Sequence[PartGain], best: Trial, is_contradicted: Callable[[PartGain], bool] = lambda one: False
) -> str:
    """Draw for each part a bar of the replayed gain, unless a measurement contradicts it, and one of the measured gain,
    from a line that stands for none. `best`: the best settings as they were measured.
    """
    gains = [(None if is_contradicted(one) else one.gain, one.live_gain(best)) for one in part_gains]
    known = [0.0, *(gain for pair in gains for gain in pair if gain is not None)]
    scale = (_WIDTH - _LEFT - 60) / max(max(known) - min(known), 0.01)
    zero = _LEFT - min(known) * scale
    parts = []
    for number, (one, (gain, live)) in enumerate(zip(part_gains, gains, strict=True)):
        top = _TOP + number * _ROW
        label = escape(f"{one.part} {one.was} → {one.became}")
        parts.append(f"<text x='{_LEFT - 8}' y='{top + 15}' text-anchor='end'>{label}</text>")
        if gain is not None:
            parts.append(_bar(zero, length=gain * scale, top=top, gain=gain, fill=_REPLAYED))
        if live is not None:
            parts.append(_bar(zero, length=live * scale, top=top + _BAR + 2, gain=live, fill=_LIVE))
    foot = _TOP + _ROW * len(part_gains)
    height = foot + _BOTTOM
    parts.append(f"<path d='M{zero:.1f} {_TOP - 6}V{foot}' stroke='currentColor' opacity='.4'/>")
    parts.append(f"<text x='{_LEFT}' y='13' fill='{_REPLAYED}'>replayed</text>")
    parts.append(f"<text x='{_LEFT + 60}' y='13' fill='{_LIVE}'>measured</text>")
    gained = "throughput gained, %" if best.load.closed else "p99 shortened by, %"
    parts.append(f"<text x='{(_LEFT + _WIDTH) / 2:g}' y='{height - 5}' text-anchor='middle'>{gained}</text>")
    title = "gain of each setting: replayed above, measured below"
    style = "font:11px sans-serif;fill:currentColor;max-width:100%"
    return (
        f"<svg role='img' aria-label='{title}' viewBox='0 0 {_WIDTH} {height}' width='{_WIDTH}' style='{style}'>"
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )


def _bar(zero: float, length: float, top: float, gain: float, fill: str) -> str:
    left, wide = min(zero, zero + length), max(abs(length), 1.0)
    label = f"<text x='{left + wide + 4:.1f}' y='{top + 9:g}'>{gain:+.0%}</text>"
    return f"<rect x='{left:.1f}' y='{top:g}' width='{wide:.1f}' height='{_BAR}' fill='{fill}'/>{label}"
