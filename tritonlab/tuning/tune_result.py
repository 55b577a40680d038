"""`TuneResult` tells which settings are best, what was predicted and what was measured, and applies them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from ..core.model_config import ModelConfig
from ..core.status import UnavailableError
from .front_figure import front_figure
from .search import Calibration, Found, Trial
from .settings import Settings

_FRONT = 8
_HEADS = ("settings", "load", "requests/s", "p50 ms", "p99 ms", "predicted/s", "predicted p99")


@dataclass(frozen=True)
class Confirmed:
    """Holds what a replay predicted of settings, and what was then measured live."""

    predicted: Trial
    live: Trial


@dataclass(frozen=True)
class Tuned:
    """Holds what a run has found. `notes`: what one has to know of it, in sentences. `stopped`: why it ended before its
    time, else empty."""

    calibration: Calibration | None
    found: Found
    confirmed: tuple[Confirmed, ...]
    notes: tuple[str, ...]
    seconds: float
    stopped: str = ""


class TuneResult:
    """Holds the result of `Model.tune`. `best` is the winner: the best of those measured live, or, if the run was
    stopped before that, of those predicted; None if it was stopped before any. `reload`: loads the model with settings.
    """

    def __init__(
        self, name: str, config: ModelConfig, p99_ms: float | None, run: Tuned, reload: Callable[[Settings], None]
    ) -> None:
        self.name = name
        self.p99_ms = p99_ms
        self.run = run
        self.present = Settings.of(config)
        self._config = config
        self._reload = reload
        live = sorted(run.confirmed, key=lambda one: one.live.rank(p99_ms), reverse=True)
        self.confirmed = live
        self.best: Trial | None = live[0].live if live else next(iter(run.found.best(p99_ms)), None)

    @property
    def config(self) -> str:
        """Returns the lines of config.pbtxt that say the best settings. Raises UnavailableError if there are none."""
        return self._winner().settings.pbtxt(self._config)

    def apply(self) -> None:
        """Loads the model with the best settings. The text of its cell stays; put `config` there to keep them. Raises
        what a load does, and UnavailableError if the run was stopped before it found any."""
        self._reload(self._winner().settings)

    def _winner(self) -> Trial:
        if self.best is None:
            raise UnavailableError(f"the run was {self.run.stopped} before it found anything")
        return self.best

    def text(self) -> str:
        """Returns the facts in words, 40 lines at most."""
        run, best = self.run, self.best
        limit = f" with p99 <= {self.p99_ms:g} ms" if self.p99_ms is not None else ""
        title = f"Tuning {self.name}{limit}: {run.found.tried:,} settings replayed, {len(run.confirmed)} measured live"
        lines = [f"{title}, in {run.seconds:.1f} s" + (f" ({run.stopped})" if run.stopped else "")]
        if best is None:
            return lines[0]
        lines.append(f"  best  {best.settings}" + (" (as it is now)" if best.settings == self.present else ""))
        if not best.rank(self.p99_ms)[0]:
            lines.append(f"  no settings keep p99 within {self.p99_ms:g} ms; these come nearest")
        rows = [_HEADS, *(self._cells(one) for one in self.confirmed)]
        widths = [max(len(row[n]) for row in rows) for n in range(len(_HEADS))]
        for row in rows:
            first, *numbers = (
                cell.ljust(width) if n < 2 else cell.rjust(width)
                for n, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            lines.append("  " + "  ".join([first, *numbers]).rstrip())
        lines += [f"  {said}" for said in self._times()]
        lines += [f"  {note}" for note in run.notes]
        lines.append("  front, predicted (p99 ms: requests/s): " + ", ".join(self._front()))
        return "\n".join(lines)

    def _cells(self, one: Confirmed) -> tuple[str, ...]:
        live, foreseen = one.live.numbers, one.predicted.numbers
        now = " (now)" if one.live.settings == self.present else ""
        return (
            f"{one.live.settings}{now}",
            str(one.live.load),
            f"{live.rate:,.0f}",
            f"{live.p50 / 1e6:.3g}",
            f"{live.p99 / 1e6:.3g}",
            f"{foreseen.rate:,.0f}",
            f"{foreseen.p99 / 1e6:.3g}",
        )

    def _times(self) -> list[str]:
        known = self.run.calibration
        if known is None:
            return []
        return [f"execution times, {count} busy: {probed.times}" for count, probed in known.probed.items()]

    def _front(self) -> list[str]:
        every = self.run.found.front()
        step = max(math.ceil(len(every) / _FRONT), 1)
        return [f"{one.numbers.p99 / 1e6:.3g}: {one.numbers.rate:,.0f}" for one in every[::-step][::-1]]

    def figure(self) -> str:
        """Returns latency against throughput, the front and what was measured, as SVG text; empty without a front."""
        return front_figure(self.name, self.run.found.front(), [one.live for one in self.confirmed], self.p99_ms)

    def to_dict(self) -> dict[str, Any]:
        """Returns the facts as JSON values."""
        run = self.run
        return {
            "model": self.name,
            "p99_ms": self.p99_ms,
            "now": self.present.to_dict(),
            "best": _dict(self.best) if self.best is not None else None,
            "config": self.config if self.best is not None else None,
            "confirmed": [{"live": _dict(one.live), "predicted": _dict(one.predicted)} for one in self.confirmed],
            "front": [_dict(one) for one in run.found.front()],
            "tried": run.found.tried,
            "notes": list(run.notes),
            "seconds": run.seconds,
            "stopped": run.stopped,
        }

    def html(self) -> str:
        lines = self.text().split("\n")
        shown = [line.strip() for line in lines[1:] if line.startswith(("  best", "  no ", "  execution"))]
        said = "".join(f"<div>{escape(line)}</div>" for line in shown)
        head = "".join(f"<th>{escape(name)}</th>" for name in _HEADS)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in self._cells(one))}</tr>" for one in self.confirmed
        )
        table = f"<table class='tl-tensors'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        config = f"<pre class='tl-lines'>{escape(self.config)}</pre>" if self.best is not None else ""
        return f"<div class='tl-panel'><b>{escape(lines[0])}</b>{said}{table}{self.figure()}{config}</div>"

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return self.text()


def _dict(one: Trial) -> dict[str, Any]:
    load = {"concurrency": one.load.concurrency} if one.load.closed else {"load": str(one.load)}
    return {**one.settings.to_dict(), **load, **one.numbers.to_dict()}
