"""The static figure of custom metrics as SVG text, and the current value of a series in words."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from ....core.short_number import short_number
from ....profile.metric_record import Key, MetricRecord
from ....profile.ring import Ring

_WIDTH, _LEFT, _LANE = 860, 300, 36
_SERIES = 12
_POINTS = 120
_LETTERS = 52


def label_text(labels: Sequence[tuple[str, str]]) -> str:
    """Return the labels as in a Prometheus query; empty if there are none."""
    return "{" + ", ".join(f"{name}={value}" for name, value in labels) + "}" if labels else ""


def mib_text(count: float) -> str:
    return f"{short_number(count / (1 << 20))} MiB"


def series_text(record: MetricRecord, key: Key, ring: Ring) -> str:
    """Return the current value of the series: `12 (1.5 a second)`, `3.2`, `400 observed, median 1.2, 95% below 3`."""
    rows = ring.rows()
    kind = record.families.get(key[0], ("gauge", ""))[0]
    if not len(rows):
        return "nothing yet"
    if kind == "histogram":
        median, high = np.quantile(rows[:, 1], (0.5, 0.95))
        return f"{ring.total:,} observed, median {short_number(median)}, 95% below {short_number(high)}"
    if kind == "bytes":
        return mib_text(rows[-1, 1])
    value = short_number(rows[-1, 1])
    span = (rows[-1, 0] - rows[0, 0]) / 1e9
    if kind == "counter" and span > 0:
        return f"{value} ({short_number((rows[-1, 1] - rows[0, 1]) / span)} a second)"
    return value


def metrics_figure(record: MetricRecord) -> str:
    """Draw a line for each series: values of gauges and counters, observations of histograms."""
    series = [(key, ring) for key, ring in sorted(record.series().items()) if len(ring)][:_SERIES]
    if not series:
        return ""
    parts = []
    for lane, (key, ring) in enumerate(series):
        top = lane * _LANE
        words = f"{label_text(key[1])} {series_text(record, key, ring)}".strip()
        parts.append(f"<text x='0' y='{top + 13}' font-weight='600'>{escape(key[0][:_LETTERS])}</text>")
        parts.append(f"<text x='0' y='{top + 27}' opacity='.7'>{escape(words[:_LETTERS])}</text>")
        rows = ring.rows()
        rows = rows[:: max(len(rows) // _POINTS, 1)]
        time, value = rows[:, 0], rows[:, 1]
        x = _LEFT + (time - time[0]) / max(float(np.ptp(time)), 1.0) * (_WIDTH - _LEFT - 6)
        y = top + 30 - (value - min(value.min(), 0)) / max(float(value.max() - min(value.min(), 0)), 1e-12) * 26
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
        parts.append(f"<polyline points='{points}' fill='none' stroke='#1976d2' stroke-width='1.5'/>")
    style = "font:11px sans-serif;fill:currentColor;max-width:100%"
    size = f"viewBox='0 0 {_WIDTH} {_LANE * len(series)}' width='{_WIDTH}'"
    return f"<svg role='img' aria-label='custom metrics' {size} style='{style}'>{''.join(parts)}</svg>"
