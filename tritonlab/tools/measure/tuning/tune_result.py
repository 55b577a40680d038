"""`TuneResult`, which has the best settings, their predictions and measurements, and applies them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from ....core.config.model_config import ModelConfig
from ....core.short_number import short_number
from ....core.status import UnavailableError
from ....figures.stored_picture import date_line, stored_picture
from ....figures.tables import table, text_table
from ....notebook.authoring.settings import Settings
from .replay import Numbers
from .search import Calibration, SearchResult
from .settings_result import Reload, SettingsResult
from .settings_trial import Figure, Noise, PartGain, Trial, leaders, p99_of, ranked, rate_of
from .tune_figures import DrawnGain, front_figure, gain_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FRONT = 8
#: A replayed gain below this share counts as none.
_NO_GAIN = 0.1
_HEADS = ("settings", "load", "requests/s", "than the best", "p50 ms", "p99 ms", "than the best")
_PREDICTED = ("predicted/s", "predicted p99 ms")
#: The p99 of the windows of one load is called unstable if the largest is at least so many times the smallest.
_UNSTABLE = 2.0
_GAIN_HEADS = ("gain of each setting", "", "replayed", "measured", "p99 ms without it")


@dataclass
class TuneRun:
    """The findings of a run. `measured`: settings and loads that were measured live, the present settings under
    several. `gains`: the gain of each part of the best settings. `notes`: sentences on how to read it. `stopped`: why
    it ended early, otherwise empty.
    """

    calibration: Calibration | None = None
    found: SearchResult = field(default_factory=lambda: SearchResult({}))
    measured: list[Trial] = field(default_factory=list)
    gains: list[PartGain] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    stopped: str = ""

    def has_measured(self, trial: Trial) -> bool:
        """Return whether these settings were measured under this load."""
        return any(one.key == trial.key for one in self.measured)


class TuneResult(SettingsResult):
    """The result of `Model.tune`.

    `best`: the best of the settings measured live; if the run was stopped before that, the best of the predicted ones,
    or None if there are none. `confirmed`: the measured settings, each under its best load. `noise` decides which of
    these differ. `present`: the settings before. `authored`: the configuration, with the instance groups as the author
    wrote them.
    """

    def __init__(
        self, name: str, present: Settings, authored: ModelConfig, p99_ms: float | None, run: TuneRun, reload: Reload
    ) -> None:
        super().__init__(name, present, authored, reload)
        self.p99_ms = p99_ms
        self.run = run
        self.noise = Noise(run.measured, p99_ms)
        self.confirmed = leaders(ranked(run.measured, p99_ms))
        self.best: Trial | None = next(iter(self.confirmed or run.found.best(p99_ms)), None)
        # an interrupted ablation may be about other settings
        own = (one for one in run.gains if self.best is not None and one.with_it.key == self.best.key)
        self.gains = [one for one in own if one.without.windows or not self._is_replay_wrong]

    def _chosen(self) -> Settings:
        return self._winner().settings

    @property
    def as_good(self) -> list[Trial]:
        """Return the measured settings, other than the best, that may be as good as the best."""
        return [one for one in self.confirmed[1:] if not self.noise.differ(one, self.confirmed[0])]

    @property
    def now(self) -> list[Trial]:
        """Return the live measurements of the present settings, by rising number of clients."""
        found = [one for one in self.run.measured if one.settings == self.present]
        return sorted(found, key=lambda one: one.load.concurrency)

    @property
    def contradicted(self) -> list[Trial]:
        """Return the measured trials that differ from their predictions by more than noise."""
        return [one for one in self.run.measured if self.noise.contradicts(one)]

    @property
    def front(self) -> list[Trial]:
        """Return the best predictions of latency against throughput, with measurements in place of predictions where
        there are any; none if most measurements contradict their predictions.
        """
        if self._is_replay_wrong:
            return []
        return SearchResult({**self.run.found.candidates, **{one.key: one for one in self.run.measured}}).front()

    @property
    def _is_replay_wrong(self) -> bool:
        """Whether most measurements contradict their predictions."""
        return 2 * len(self.contradicted) > len(self.run.measured)

    def _winner(self) -> Trial:
        if self.best is None:
            raise UnavailableError(f"the run was {self.run.stopped} before it found anything")
        return self.best

    def text(self) -> str:
        """Return the facts in words, 40 lines at most."""
        run, best = self.run, self.best
        limit = f" with p99 <= {self.p99_ms:g} ms" if self.p99_ms is not None else ""
        title = f"Tuning {self.name}{limit}: {run.found.tried:,} settings replayed, {len(self.confirmed)} measured live"
        lines = [f"{title}, in {run.seconds:.1f} s" + (f" ({run.stopped})" if run.stopped else "")]
        if best is None:
            return "\n".join([*lines, *(f"  {note}" for note in run.notes)])
        how = "" if self.confirmed else ", as predicted: nothing was measured"
        lines.append(f"  best{how}  {best.settings}" + (" (as it is now)" if best.settings == self.present else ""))
        if not best.keeps(self.p99_ms):
            lines.append(f"  no settings keep p99 within {self.p99_ms:g} ms; these come nearest")
        lines += _indent([self._heads, *map(self._cells, self.confirmed)])
        lines += [f"  {line}" for line in self._unstable()]
        if self.as_good:
            lines.append(f"  {self._equally_good_text()}")
        if len(self.now) > 1:
            lines.append(f"  {self._now()}")
        if self.gains:
            lines += _indent([_GAIN_HEADS, *map(self._gain_cells, self.gains)])
        lines += [f"  {line}" for line in self._times()]
        lines += [f"  {note}" for note in run.notes]
        if self.contradicted:
            lines.append(f"  {self._contradiction()}")
        if self.front:
            lines.append("  front, predicted where not measured (p99 ms: requests/s): " + ", ".join(self._front()))
        return "\n".join(lines)

    def _now(self) -> str:
        cells = [
            f"{one.load} {one.numbers.rate:,.0f}/s, p99 {short_number(one.numbers.p99 / 1e6)} ms" for one in self.now
        ]
        return "now, measured: " + "; ".join(cells)

    def _unstable(self) -> list[str]:
        """Return a sentence for each measured load whose windows disagree, so that its numbers are uncertain."""
        found = []
        for one in self.run.measured:
            times = sorted(window.p99 / 1e6 for window in one.windows if window.p99 > 0)
            if times and times[-1] > _UNSTABLE * times[0]:
                which = "the present settings" if one.settings == self.present else str(one.settings)
                every = ", ".join(map(short_number, times))
                found.append(f"Unstable under {one.load}: {which} had a p99 of {every} ms in windows of one load.")
        return found

    def _contradiction(self) -> str:
        """Return how wrong the replay was, as a sentence."""
        wrong = self.contradicted
        pairs = [(figure(one.numbers), figure(one.predicted)) for one in wrong for figure in (rate_of, p99_of)]
        off = max(max(live / predicted, predicted / live) if predicted > 0 else math.inf for live, predicted in pairs)
        rest = "" if self.front else "; its predictions are not shown"
        how = f"by up to {short_number(off)} times" if math.isfinite(off) else "which it saw executing nothing"
        return f"The replay is wrong for {len(wrong)} of {len(self.run.measured)} measurements, {how}{rest}."

    def _cells(self, one: Trial) -> tuple[str, ...]:
        measured, foreseen = one.numbers, one.predicted
        now = " (now)" if one.settings == self.present else ""
        return (
            f"{one.settings}{now}",
            str(one.load),
            f"{measured.rate:,.0f}",
            self._compared(one, rate_of),
            short_number(measured.p50 / 1e6),
            short_number(measured.p99 / 1e6),
            self._compared(one, p99_of),
            *([] if self._is_replay_wrong else [f"{foreseen.rate:,.0f}", short_number(foreseen.p99 / 1e6)]),
        )

    @property
    def _heads(self) -> tuple[str, ...]:
        return _HEADS if self._is_replay_wrong else (*_HEADS, *_PREDICTED)

    def _compared(self, one: Trial, figure: Figure) -> str:
        """Return the share by which a number exceeds the best one's, as text."""
        best = self.confirmed[0]
        if one is best:
            return "best"
        if self.noise.are_tied(one, best, figure):
            return "within noise"
        return f"{figure(one.numbers) / figure(best.numbers) - 1:+.0%}"

    def _equally_good_text(self) -> str:
        windows = sum(len(one.windows) for one in self.run.measured)
        return (
            f"{len(self.as_good) + 1} may be equally good: windows of the same settings differ by "
            f"{self.noise.share:.1%}, and {windows} were measured"
        )

    def _gain_cells(self, one: PartGain) -> tuple[str, ...]:
        gain, p99 = one.live_gain(self._winner()), one.without.numbers.p99
        what = "requests/s" if one.with_it.load.closed else "off the p99"
        return (
            f"{one.part} {one.was} -> {one.became}",
            what,
            "wrong" if self._is_contradicted(one) else f"{one.gain:+.0%}",
            "" if gain is None else "within noise" if self._is_noise(one) else f"{gain:+.0%}",
            short_number(p99 / 1e6) + " (replayed)" * (not one.without.windows),
        )

    def _is_noise(self, one: PartGain) -> bool:
        """Return whether the measured gain of a part may be noise."""
        figure = rate_of if one.with_it.load.closed else p99_of
        return bool(one.without.windows) and self.noise.are_tied(one.without, self._winner(), figure)

    def _is_contradicted(self, one: PartGain) -> bool:
        """Return whether the measurement contradicts the replayed gain of a part."""
        gain = one.live_gain(self._winner())
        if gain is None:
            return False
        if self._is_noise(one):
            return abs(one.gain) > _NO_GAIN and self.noise.contradicts(one.without)
        return abs(one.gain - gain) > max(abs(gain), _NO_GAIN) / 2

    def _times(self) -> list[str]:
        known = self.run.calibration
        if known is None:
            return []
        return [f"execution times, {count} busy: {probed.times}" for count, probed in known.probed.items()]

    def _front(self) -> list[str]:
        every = self.front
        step = max(math.ceil(len(every) / _FRONT), 1)
        return [f"{short_number(one.numbers.p99 / 1e6)}: {one.numbers.rate:,.0f}" for one in every[::-step][::-1]]

    def figure(self) -> str:
        """Return latency against throughput, the front and the measurements, as SVG text; empty without a front."""
        return front_figure(self.name, self.front, self.confirmed, self.p99_ms).svg()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw p99 latency, milliseconds, against throughput, requests/s, with matplotlib and return the Axes: the
        predicted front, the measured settings, and the limit. `ax`: where to draw, instead of in a new figure. Raises
        ImportError without matplotlib, and UnavailableError if the run found nothing.
        """
        self._winner()
        drawn = front_figure(self.name, self.front, self.confirmed, self.p99_ms)
        return drawn.plot(ax, f"Tuning of {self.name}", f"no latency of '{self.name}' is known")

    def plot_gains(self, ax: Axes | None = None) -> Axes:
        """Draw the gain of each setting, percent, with matplotlib and return the Axes: replayed (unless a measurement
        contradicts it) and measured. `ax`: where to draw, instead of in a new figure. Raises ImportError without
        matplotlib, and UnavailableError if no gain is known.
        """
        if not self.gains:
            raise UnavailableError(f"there is nothing to plot: the gain of no setting of '{self.name}' is known")
        return gain_figure(self._drawn_gains(), self._gained).plot(ax, f"Gain of each setting of {self.name}")

    def _drawn_gains(self) -> list[DrawnGain]:
        best = self._winner()
        return [
            DrawnGain(
                f"{one.part} {one.was} → {one.became}",
                None if self._is_contradicted(one) else one.gain,
                one.live_gain(best),
                self._is_noise(one),
            )
            for one in self.gains
        ]

    @property
    def _gained(self) -> str:
        return f"{'throughput gained' if self._winner().load.closed else 'p99 shortened by'}, %"

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        run = self.run
        return {
            "model": self.name,
            "p99_ms": self.p99_ms,
            "now": self.present.to_dict(),
            "best": _facts(self.best, self.best.numbers) if self.best is not None else None,
            "config": self.config if self.best is not None else None,
            "confirmed": [
                {
                    "live": _facts(one, one.numbers),
                    "predicted": _facts(one, one.predicted),
                    "windows": len(one.windows),
                    "within_noise_of_best": not self.noise.differ(one, self.confirmed[0]),
                    "contradicts_prediction": self.noise.contradicts(one),
                }
                for one in self.confirmed
            ],
            "now_measured": [_facts(one, one.numbers) for one in self.now],
            "noise_percent": self.noise.share * 100,
            "bought": [self._gain_dict(one) for one in self.gains],
            "front": [_facts(one, one.numbers) for one in self.front],
            "tried": run.found.tried,
            "notes": list(run.notes),
            "seconds": run.seconds,
            "stopped": run.stopped,
        }

    def _gain_dict(self, one: PartGain) -> dict[str, Any]:
        gain, without = one.live_gain(self._winner()), one.without
        return {
            "setting": one.part,
            "was": one.was,
            "became": one.became,
            "gain_percent": one.gain * 100,
            "live_gain_percent": None if gain is None else gain * 100,
            "within_noise": self._is_noise(one),
            "contradicts_prediction": self._is_contradicted(one),
            "without": _facts(without, without.predicted),
            "without_live": _facts(without, without.numbers) if without.windows else None,
        }

    def html(self) -> str:
        lines = self.text().split("\n")
        begins = ("best", "no ", "now", "execution", "The replay", "Unstable", f"{len(self.as_good) + 1} may")
        notes_shown = [line.strip() for line in lines[1:] if line.strip().startswith(begins)]
        notes_shown += [note for note in self.run.notes if note not in notes_shown]
        notes = "".join(f"<div>{escape(line)}</div>" for line in notes_shown)
        gains = ""
        if self.gains:
            cells = [self._gain_cells(one) for one in self.gains]
            gains = table(_GAIN_HEADS, cells, numbers=range(2, len(_GAIN_HEADS)))
            gains += stored_picture(gain_figure(self._drawn_gains(), self._gained).svg(), self._when)
        parts = [
            table(self._heads, [*map(self._cells, self.confirmed)], numbers=range(2, len(self._heads))),
            stored_picture(self.figure(), self._when, self.text()),
            gains,
            f"<pre class='tl-lines'>{escape(self.config)}</pre>" if self.best is not None else "",
            date_line(self._when),
        ]
        return f"<div class='tl-panel'><b>{escape(lines[0])}</b>{notes}{''.join(parts)}</div>"


def _indent(rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"  {line}" for line in text_table(rows, numbers=range(2, len(rows[0])))]


def _facts(one: Trial, numbers: Numbers) -> dict[str, Any]:
    """Return a trial as JSON values, with its measured or otherwise its predicted numbers."""
    load = {"concurrency": one.load.concurrency} if one.load.closed else {"load": str(one.load)}
    return {**one.settings.to_dict(), **load, **numbers.to_dict()}
