"""`WhatIf`, the effect of other settings on the past requests of a model."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....core.config.model_config import ModelConfig
from ....core.short_number import short_number
from ....figures.axes import axes_of
from ....figures.figure import Figure, Lanes, Span, Spans, TimeSpan
from ....figures.stored_picture import date_line, stored_picture
from ....figures.svg_picture import BLUE, PURPLE
from ....notebook.authoring.settings import Settings
from .recorded_executions import RecordedExecutions
from .replay import NEVER, Numbers, ReplayedBatches
from .service_times import Floats
from .settings_result import Reload, SettingsResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LANE, _BLOCK = 46, 18
#: How many of the last executions a figure shows.
_BATCHES = 60
#: The share of a figure's time before the first of them.
_MARGIN = 0.02


class DrawnBatches(NamedTuple):
    """Batches of one run, an array for each fact. Times are nanoseconds."""

    start: Floats
    end: Floats
    size: Floats
    lane: Floats

    @staticmethod
    def of_record(recorded: RecordedExecutions) -> DrawnBatches:
        """Return the last recorded executions."""
        start, end, size = (recorded.batch_column(name)[-_BATCHES:].copy() for name in ("start", "end", "size"))
        return DrawnBatches(start, end, size, np.array(recorded.lanes[-_BATCHES:], np.float64))

    def those_of(self, replayed: ReplayedBatches) -> DrawnBatches:
        """Return the batches of a replay in the time of these."""
        begin, stop = self.start.min(), self.end.max()
        began = np.array(replayed.start, float)
        in_span = (began >= begin - (stop - begin) * _MARGIN) & (began <= stop)
        facts = (replayed.start, replayed.end, replayed.size, replayed.lane)
        return DrawnBatches(*(np.array(fact, np.float64)[in_span] for fact in facts))


class WhatIf(SettingsResult):
    """The record, and its replay with `settings`. `before` and `after` are their numbers. Only the latencies of their
    requests, nanoseconds, and the batches of a figure are kept: a notebook keeps the results of its cells.

    `config`: the model's, normalised; `authored`: the same with the instance groups as the author wrote them.
    `ensembles`: the max_batch_size that ensembles with the model need.
    """

    def __init__(
        self,
        name: str,
        recorded: RecordedExecutions,
        config: ModelConfig,
        authored: ModelConfig,
        settings: Settings,
        reload: Reload,
        ensembles: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(name, Settings.from_config(config), authored, reload)
        #: add it to a time of the record to get nanoseconds since the epoch
        self._wall = time.time_ns() - time.monotonic_ns()
        self.settings = settings
        replayed = recorded.replay(config, settings)
        self.before, self.after = recorded.numbers, replayed.numbers()
        self._times = recorded.times
        self._refused = len(recorded.rejected), replayed.refused
        self._notes = notes(recorded, self.present, settings, replayed, ensembles=ensembles or {})
        self._latencies = recorded.answered - recorded.request_column("arrived"), replayed.latency
        #: of the recorded instances, and of the additional ones in the replay
        more = range(len(recorded.instances), max(replayed.lane, default=-1) + 1)
        self._names = [*recorded.instances, *(f"instance {n + 1}" for n in more)]
        self.recorded_batches = DrawnBatches.of_record(recorded)
        self.replayed_batches = self.recorded_batches.those_of(replayed)

    def _chosen(self) -> Settings:
        return self.settings

    def text(self) -> str:
        """Return the facts in words."""
        lines = [
            f"What if {self.name} had {self.settings} (now {self.present})?",
            f"  {numbers_text(self.before, self.after)}",
        ]
        lines.append(f"  {self.after.requests:,} recorded requests replayed; execution times {self._times}")
        return "\n".join([*lines, *(f"  {note}" for note in self._notes)])

    def figure(self) -> str:
        """Return the last recorded batches, with the replayed ones below them, as SVG text."""
        return self._lanes().svg()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the latencies, milliseconds, before and after with matplotlib and return the Axes: the share of requests
        that were answered within a time, and the requests/s over busy time. `ax`: where to draw, instead of in a new
        figure. Raises ImportError without matplotlib.
        """
        ax = axes_of(ax)
        recorded, replayed = self._latencies
        runs = [("recorded", recorded, self.before, BLUE), ("what if", replayed, self.after, PURPLE)]
        for label, latency, numbers, tone in runs:
            shares = np.arange(1, len(latency) + 1) / max(len(latency), 1) * 100
            rate = f"{short_number(numbers.busy_rate)} requests/s while busy"
            times = f"p50 {short_number(numbers.p50 / 1e6)} ms, p99 {short_number(numbers.p99 / 1e6)} ms"
            ax.step(np.sort(latency) / 1e6, shares, where="post", color=tone, label=f"{label}: {times}, {rate}")
        ax.set_xlim(left=0)
        ax.set_ylim(0, 118)  # leave room for the legend
        ax.set_yticks(range(0, 101, 20))
        ax.set_xlabel("latency, ms")
        ax.set_ylabel("requests answered within it, %")
        ax.set_title(f"What if {self.name} had\n{self.settings}?", fontsize="medium", parse_math=False)
        ax.legend(fontsize="small", loc="upper left")
        return ax

    def plot_lanes(self, ax: Axes | None = None) -> Axes:
        """Draw the last recorded batches, with the replayed ones below them, over the time of day with
        matplotlib and return the Axes. `ax`: where to draw, instead of in a new figure. Raises ImportError without
        matplotlib.
        """
        return self._lanes().plot(ax, f"Batches of {self.name}")

    def _lanes(self) -> Figure:
        begin, stop = float(self.recorded_batches.start.min()), float(self.recorded_batches.end.max())
        recorded, replayed = (
            [
                Span(start, end, int(lane) * _LANE + below, f"size {int(size)}", f"{int(size)}")
                for start, end, size, lane in zip(*(fact.tolist() for fact in batches), strict=True)
            ]
            for batches, below in ((self.recorded_batches, 0), (self.replayed_batches, _BLOCK + 2))
        )
        return Figure(
            f"batches of {self.name}: recorded, and below what would have been",
            TimeSpan(begin - (stop - begin) * _MARGIN, stop, self._wall),
            Lanes(self._names, _LANE, drawn=2 * _BLOCK + 2, foot=13, name="instance", second="what if"),
            [Spans(recorded, BLUE, "recorded", ", with the batch size"), Spans(replayed, PURPLE, "what if")],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as JSON values; `execution_error_percent` is None where there were too few executions."""
        error = self._times.error
        return {
            "model": self.name,
            "now": self.present.to_dict(),
            "settings": self.settings.to_dict(),
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "refused_before": self._refused[0],
            "refused": self._refused[1],
            "execution_error_percent": error if math.isfinite(error) else None,
            "notes": self._notes,
            "config": self.config,
        }

    def html(self) -> str:
        first, *others = (escape(line.strip()) for line in self.text().splitlines())
        notes = "".join(f"<div>{line}</div>" for line in others)
        picture = stored_picture(self.figure(), self._when, self.text())
        lines = f"<pre class='tl-lines'>{escape(self.config)}</pre>"
        return f"<div class='tl-panel'><b>{first}</b>{notes}{picture}{lines}{date_line(self._when)}</div>"


def numbers_text(before: Numbers, after: Numbers) -> str:
    """Return the numbers of two runs in one line, from the first to the second."""
    if not after.requests:
        return "nothing would have been executed"
    return (
        f"p50 {_ms(before.p50)} → {_ms(after.p50)} ms · p99 {_ms(before.p99)} → {_ms(after.p99)} ms · "
        f"{short_number(before.busy_rate)} → {short_number(after.busy_rate)} requests/s while busy · "
        f"batches of {before.mean_size:.3g} → {after.mean_size:.3g}"
    )


def notes(
    recorded: RecordedExecutions,
    present: Settings,
    settings: Settings,
    replayed: ReplayedBatches,
    window: tuple[int, int] = (0, NEVER),
    ensembles: Mapping[str, int] = MappingProxyType({}),
) -> list[str]:
    """Return sentences on the reliability of the replay of the requests in a window, and on applying the settings.
    `ensembles`: the max_batch_size that ensembles with the model need.
    """
    found = [
        f"Ensemble '{name}' needs a max_batch_size of {size}: these settings cannot be applied while it is loaded."
        for name, size in ensembles.items()
        if settings.max_batch_size < size
    ]
    if settings.instances > max(present.instances, len(recorded.instances)):
        found.append("More instances than were recorded are taken not to slow one another down.")
    known = list(recorded.times.medians)
    beyond = [size for size in set(replayed.size) if size > 1.5 * known[-1] or size < known[0] / 1.5]
    if beyond:
        seen = f"{known[0]} to {known[-1]}" if len(known) > 1 else f"{known[0]} alone"
        text = f"{min(beyond)} to {max(beyond)}" if len(beyond) > 1 else f"{beyond[0]}"
        found.append(f"How long batches of {text} take is guessed: sizes {seen} were recorded often enough.")
    before = recorded.rejected_within(window)
    if replayed.refused or before:
        text = f"{replayed.refused:,} requests would have been refused, cancelled, or their time would have been up"
        found.append(f"{text}; {before:,} were.")
    return found


def _ms(ns: float) -> str:
    return short_number(ns / 1e6)
