"""`TuneResult`, which has the best settings, their predictions and measurements, and applies them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from ..core.model_config import ModelConfig
from ..core.short_number import short_number
from ..core.status import UnavailableError
from .ablation import PartGain
from .applied_settings import AppliedSettings, Reload, Sentence
from .front_figure import front_figure
from .gain_figure import gain_figure
from .measured_candidate import MeasuredCandidate, Noise, ranked
from .search import Calibration, SearchResult, Trial
from .settings import Settings

_FRONT = 8
_HEADS = ("settings", "load", "requests/s", "p50 ms", "p99 ms", "than the best", "predicted/s", "predicted p99")
_GAIN_HEADS = ("gain of each setting", "", "replayed", "measured", "p99 ms without it")


@dataclass(frozen=True)
class TuneRun:
    """The findings of a run. `gains`: the gain of each part of the best settings. `notes`: sentences on how to read
    it. `stopped`: why it ended early, else empty.
    """

    calibration: Calibration | None
    found: SearchResult
    confirmed: tuple[MeasuredCandidate, ...]
    gains: tuple[PartGain, ...]
    notes: tuple[str, ...]
    seconds: float
    stopped: str = ""


class TuneResult:
    """The result of `Model.tune`. `best` is the winner: the best of those measured live, or, if the run was stopped
    before that, of those predicted; None if it was stopped before any. `noise` decides which of those measured differ.
    `present`: the settings before; `authored`: the configuration, with the instance groups as their author wrote them.
    """

    def __init__(
        self, name: str, present: Settings, authored: ModelConfig, p99_ms: float | None, run: TuneRun, reload: Reload
    ) -> None:
        self.name = name
        self.p99_ms = p99_ms
        self.run = run
        self.present = present
        self._authored = authored
        self._application = AppliedSettings(name, reload)
        self.confirmed = live = ranked(run.confirmed, p99_ms)
        self.noise = Noise(live, p99_ms)
        self.best: Trial | None = live[0].live if live else next(iter(run.found.best(p99_ms)), None)

    @property
    def config(self) -> str:
        """The lines of config.pbtxt for the best settings. Raises UnavailableError if there are none."""
        return self._winner().settings.pbtxt(self._authored)

    def apply(self) -> Sentence:
        """Load the model with the best settings. The text of its cell stays; put `config` there to keep them. Raises
        what a load does, and UnavailableError if the run was stopped before it found any.
        """
        return self._application.apply(self._winner().settings)

    def undo(self) -> Sentence:
        """Load the model as it was before `apply`. Raises what a load does, and UnavailableError if nothing was
        applied."""
        return self._application.undo()

    @property
    def as_good(self) -> list[MeasuredCandidate]:
        """Return the measured candidates, without the best, that may be as good as the best."""
        return [one for one in self.confirmed[1:] if not self.noise.differ(one, self.confirmed[0])]

    def _winner(self) -> Trial:
        if self.best is None:
            raise UnavailableError(f"the run was {self.run.stopped} before it found anything")
        return self.best

    def text(self) -> str:
        """Return the facts in words, 40 lines at most."""
        run, best = self.run, self.best
        limit = f" with p99 <= {self.p99_ms:g} ms" if self.p99_ms is not None else ""
        title = f"Tuning {self.name}{limit}: {run.found.tried:,} settings replayed, {len(run.confirmed)} measured live"
        lines = [f"{title}, in {run.seconds:.1f} s" + (f" ({run.stopped})" if run.stopped else "")]
        if best is None:
            return lines[0]
        lines.append(f"  best  {best.settings}" + (" (as it is now)" if best.settings == self.present else ""))
        if not best.rank(self.p99_ms)[0]:
            lines.append(f"  no settings keep p99 within {self.p99_ms:g} ms; these come nearest")
        lines += _table([_HEADS, *(self._cells(one) for one in self.confirmed)])
        if self.as_good:
            lines.append(f"  {self._not_told_apart()}")
        if run.gains:
            lines += _table([_GAIN_HEADS, *map(self._gain_cells, run.gains)])
        lines += [f"  {line}" for line in self._times()]
        lines += [f"  {note}" for note in run.notes]
        lines.append("  front, predicted (p99 ms: requests/s): " + ", ".join(self._front()))
        return "\n".join(lines)

    def _cells(self, one: MeasuredCandidate) -> tuple[str, ...]:
        live, foreseen = one.live.numbers, one.predicted.numbers
        now = " (now)" if one.live.settings == self.present else ""
        return (
            f"{one.live.settings}{now}",
            str(one.live.load),
            f"{live.rate:,.0f}",
            short_number(live.p50 / 1e6),
            short_number(live.p99 / 1e6),
            self._compared(one),
            f"{foreseen.rate:,.0f}",
            short_number(foreseen.p99 / 1e6),
        )

    def _compared(self, one: MeasuredCandidate) -> str:
        best = self.confirmed[0]
        if one is best:
            return "best"
        if not self.noise.differ(one, best):
            return "within noise"
        if one.live.load.closed and one.live.rank(self.p99_ms)[0]:
            return f"{one.live.numbers.rate / best.live.numbers.rate - 1:+.0%}"
        return f"p99 {one.live.numbers.p99 / best.live.numbers.p99 - 1:+.0%}"

    def _not_told_apart(self) -> str:
        windows = sum(len(one.windows) for one in self.confirmed)
        return (
            f"{len(self.as_good) + 1} may be equally good: windows of the same settings differ by "
            f"{self.noise.share:.1%}, and {windows} were measured"
        )

    def _gain_cells(self, one: PartGain) -> tuple[str, ...]:
        live = one.live_gain(self.confirmed[0].live)
        what = "requests/s" if one.with_it.load.closed else "off the p99"
        return (
            f"{one.part} {one.was} -> {one.became}",
            what,
            f"{one.gain:+.0%}",
            "" if live is None else f"{live:+.0%}",
            short_number((one.live or one.without).numbers.p99 / 1e6),
        )

    def _times(self) -> list[str]:
        known = self.run.calibration
        if known is None:
            return []
        return [f"execution times, {count} busy: {probed.times}" for count, probed in known.probed.items()]

    def _front(self) -> list[str]:
        every = self.run.found.front()
        step = max(math.ceil(len(every) / _FRONT), 1)
        return [f"{short_number(one.numbers.p99 / 1e6)}: {one.numbers.rate:,.0f}" for one in every[::-step][::-1]]

    def figure(self) -> str:
        """Return latency against throughput, the front and the measurements, as SVG text; empty without a front."""
        return front_figure(self.name, self.run.found.front(), [one.live for one in self.confirmed], self.p99_ms)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        run = self.run
        return {
            "model": self.name,
            "p99_ms": self.p99_ms,
            "now": self.present.to_dict(),
            "best": _dict(self.best) if self.best is not None else None,
            "config": self.config if self.best is not None else None,
            "confirmed": [
                {
                    "live": _dict(one.live),
                    "predicted": _dict(one.predicted),
                    "windows": len(one.windows),
                    "within_noise_of_best": not self.noise.differ(one, self.confirmed[0]),
                }
                for one in self.confirmed
            ],
            "noise_percent": self.noise.share * 100,
            "bought": [self._gain_dict(one) for one in run.gains],
            "front": [_dict(one) for one in run.found.front()],
            "tried": run.found.tried,
            "notes": list(run.notes),
            "seconds": run.seconds,
            "stopped": run.stopped,
        }

    def _gain_dict(self, one: PartGain) -> dict[str, Any]:
        live = one.live_gain(self.confirmed[0].live)
        return {
            "setting": one.part,
            "was": one.was,
            "became": one.became,
            "gain_percent": one.gain * 100,
            "live_gain_percent": None if live is None else live * 100,
            "without": _dict(one.without),
            "without_live": None if one.live is None else _dict(one.live),
        }

    def html(self) -> str:
        lines = self.text().split("\n")
        begins = ("  best", "  no ", "  execution", f"  {len(self.as_good) + 1} are")
        notes = "".join(f"<div>{escape(line.strip())}</div>" for line in lines[1:] if line.startswith(begins))
        gains = ""
        if self.run.gains:
            gains = _html_table(_GAIN_HEADS, [self._gain_cells(one) for one in self.run.gains])
            gains += gain_figure(self.run.gains, self.confirmed[0].live)
        parts = [
            _html_table(_HEADS, [self._cells(one) for one in self.confirmed]),
            self.figure(),
            gains,
            f"<pre class='tl-lines'>{escape(self.config)}</pre>" if self.best is not None else "",
        ]
        return f"<div class='tl-panel'><b>{escape(lines[0])}</b>{notes}{''.join(parts)}</div>"

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return self.text()


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with columns: words on the left, numbers on the right."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if n < 2 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table class='tl-tensors'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div style='overflow-x:auto'>{table}</div>"


def _dict(one: Trial) -> dict[str, Any]:
    load = {"concurrency": one.load.concurrency} if one.load.closed else {"load": str(one.load)}
    return {**one.settings.to_dict(), **load, **one.numbers.to_dict()}
