"""The static figures of metrics, and their plots with matplotlib; the current value of a series in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ....core.percentiles import percentiles
from ....core.quoting import matplotlib_text
from ....core.short_number import duration_text, mib_text, short_number
from ....figures.axes import days, name_time_axis
from ....figures.svg_picture import BLUE, LINE, Key, Scale, SvgPicture, fitted
from ....record.metric_record import Key as SeriesKey
from ....record.metric_record import MetricRecord
from ....record.ring import Ring

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LANE, _HIGH = 46, 30
#: The widths of the names, of the numbers of the scale, and of the present value.
_NAMES, _SCALE, _NOW = 250, 66, 124
_SERIES = 12
_POINTS = 120
_MIB = 1 << 20
#: The most letters of a line in the legend of a plot.
_LETTERS = 40
#: Seconds in a unit that ends a metric's name, as Prometheus's convention has it.
_SECONDS = {"_seconds": 1.0, "_ms": 1e-3, "_us": 1e-6, "_ns": 1e-9}

Numbers = NDArray[np.float64]


def label_text(labels: Sequence[tuple[str, str]]) -> str:
    """Return the labels as in a Prometheus query; empty if there are none."""
    return "{" + ", ".join(f"{name}={value}" for name, value in labels) + "}" if labels else ""


def value_text(name: str, kind: str, value: float) -> str:
    """Return a value of a metric with the unit that its name ends with: `1.6 s`, `12 MiB`, `12`."""
    unit = name.removesuffix("_total")
    if kind == "bytes" or unit.endswith("_bytes"):
        return mib_text(value)
    seconds = next((size for end, size in _SECONDS.items() if unit.endswith(end)), 0.0)
    if not seconds or not value:
        return short_number(value + 0.0)  # not -0
    return ("-" if value < 0 else "") + duration_text(abs(value) * seconds)


def present(record: MetricRecord, key: SeriesKey, ring: Ring) -> tuple[str, str, str]:
    """Return the current value of a series in words, more about it, and its time: `12`, `1.5 a second`, `8 s`."""
    rows, name, kind = ring.rows(), key[0], kind_of(record, key)
    if not len(rows):
        return "nothing yet", "", ""
    if kind == "histogram":
        median, high = (value_text(name, kind, value) for value in percentiles(rows[:, 1], 50, 95))
        return f"{ring.total:,} observed", f"median {median}, 95% below {high}", ""
    value = value_text(name, kind, rows[-1, 1])
    span = (rows[-1, 0] - rows[0, 0]) / 1e9
    if kind != "counter" or span <= 0:
        return value, "", ""
    rate = value_text(name, kind, (rows[-1, 1] - rows[0, 1]) / span)
    return value, f"{rate} a second", duration_text(span)


def series_text(record: MetricRecord, key: SeriesKey, ring: Ring) -> str:
    """Return a series' current value: `12 (1.5 a second over 8 s)`, `3.2`, `400 observed, median 1.2, 95% below 3`."""
    value, more, span = present(record, key, ring)
    if span:
        return f"{value} ({more} over {span})"
    return f"{value}, {more}" if more else value


def kind_of(record: MetricRecord, key: SeriesKey) -> str:
    """Return `counter`, `gauge`, `histogram` or `bytes`."""
    return record.families.get(key[0], ("gauge", ""))[0]


def changed_series(record: MetricRecord) -> list[tuple[SeriesKey, Ring]]:
    """Return the series that have a value, by name."""
    return [(key, ring) for key, ring in sorted(record.series().items()) if len(ring)]


def metrics_figure(record: MetricRecord, wall: int, title: str) -> str:
    """Return a curve for each series as SVG text: values of gauges and counters, observations of histograms; empty if
    there is none. `wall`: add it to a time of the record to get nanoseconds since the epoch.
    """
    series = changed_series(record)[:_SERIES]
    if not series:
        return ""
    rows = [ring.rows() for _, ring in series]
    begin, end = min(each[0, 0] for each in rows), max(each[-1, 0] for each in rows)
    picture = SvgPicture(title)
    is_observed = [kind_of(record, key) == "histogram" for key, _ in series]
    picture.legend(
        [Key("line", BLUE, "value")] * (not all(is_observed)) + [Key("dot", BLUE, "observation")] * any(is_observed)
    )
    scale = Scale(min(begin, end - 1e6), end, _NAMES + _SCALE, picture.width - _NOW)
    top = picture.height
    for lane, (key, ring) in enumerate(series):
        y = top + lane * _LANE
        labels = label_text(key[1])
        picture.text(0, y + 13, fitted(key[0], _NAMES * 0.95), bold=True, title=key[0])
        picture.text(0, y + 13 + LINE, fitted(labels, _NAMES), dim=True, title=labels)
        value, more, _ = present(record, key, ring)
        picture.text(scale.stop + 8, y + 13, fitted(value, _NOW - 8))
        for line, part in enumerate(more.split(", ")):
            picture.text(scale.stop + 8, y + 13 + (line + 1) * (LINE - 2), fitted(part, _NOW - 8), dim=True)
        _draw_series(picture, rows=rows[lane], kind=kind_of(record, key), name=key[0], time=scale, top=y + 4)
    picture.height = top + _LANE * len(series)
    picture.time_axis(scale, wall)
    return picture.svg()


def _draw_series(picture: SvgPicture, rows: Numbers, kind: str, name: str, time: Scale, top: float) -> None:
    """Draw the curve of one series through its finite values, with the lowest and the highest value of its scale."""
    rows = rows[np.isfinite(rows[:, 1])]
    if not len(rows):
        return
    low, high = min(float(rows[:, 1].min()), 0.0), max(float(rows[:, 1].max()), 0.0)
    value = Scale(low, high if high > low else low + 1, top + _HIGH, top)
    for end in sorted({low, high}):
        picture.line(x=time.start, y=value(end), to_x=time.stop, to_y=value(end), look="opacity='.15'")
        picture.text(time.start - 6, value(end) + 4, value_text(name, kind, end), anchor="end", dim=True)
    sampled = rows[np.unique(np.linspace(0, len(rows) - 1, _POINTS).astype(int))].tolist()
    points = [(time(at), value(number)) for at, number in sampled]
    if kind == "histogram":
        for x, y in points:
            picture.dot(x, y, 1.2, BLUE)
        return
    steps = [points[0]]
    for x, y in points[1:]:
        steps += [(x, steps[-1][1]), (x, y)]  # a value lasts until the next one
    picture.polyline([*steps, (time.stop, steps[-1][1])], BLUE)


def plot_metrics(
    ax: Axes, record: MetricRecord, series: Sequence[tuple[SeriesKey, Ring]], wall: int, title: str
) -> None:
    """Draw series that have changed over the time of day: the values of gauges and counters as steps, the observations
    of histograms as dots; bytes in MiB.
    """
    is_memory = all(kind_of(record, key) == "bytes" for key, _ in series)
    for key, ring in series:
        rows, labels = ring.rows(), label_text(key[1])
        name = matplotlib_text(f"{key[0]}\n{labels}" if len(key[0] + labels) > _LETTERS else key[0] + labels)
        times, values = days(rows[:, 0], wall), rows[:, 1] / (_MIB if is_memory else 1)
        if kind_of(record, key) == "histogram":
            ax.plot(times, values, ".", label=name)
        else:
            ax.step(times, values, where="post", marker="." if len(rows) == 1 else "", label=name)
    names = {key[0] for key, _ in series}
    name_time_axis(ax)
    values = np.concatenate([line.get_ydata() for line in ax.lines])
    ax.set_ylim(bottom=values.min(initial=0.0, where=np.isfinite(values)))
    ax.set_ylabel("memory, MiB" if is_memory else names.pop() if len(names) == 1 else "value")
    ax.set_title(title, parse_math=False)
    ax.legend(fontsize="small")
