"""`MeasuredCandidate`, a candidate that was measured live, and `Noise`, which separates real differences between
candidates from those between two measurements of the same one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .replay import Numbers
from .search import Figure, Trial, best_first, p99_of, rate_of
from .settings import Settings

#: The assumed difference between two windows of the same settings, before any were measured twice, and how many
#: measured differences it counts as.
_SUPPOSED, _WEIGHT = 0.1, 1.0
#: Two settings differ if so many standard errors lie between them.
_ERRORS = 2.0
#: A candidate whose p99 misses the limit by less than this share may yet keep it.
_NARROWLY = 1.2
#: A measurement that differs from its prediction by more than this share, and more than noise, contradicts it.
_OFF = 0.25


@dataclass(frozen=True)
class MeasuredCandidate:
    """The replay's prediction for settings, and their live measurements, in windows at different times."""

    predicted: Trial
    windows: tuple[Numbers, ...]

    @cached_property
    def live(self) -> Trial:
        """The median of the windows."""
        return replace(self.predicted, numbers=_median(self.windows))

    def with_window(self, window: Numbers) -> MeasuredCandidate:
        return replace(self, windows=(*self.windows, window))


class Noise:
    """The noise of measurements. `share`: by how much windows of the same settings and load differ, as a standard
    deviation, relative to their mean, in the figure that decides: the throughput, or the p99 where that decides.
    """

    def __init__(self, measured: Sequence[MeasuredCandidate], p99_ms: float | None) -> None:
        self._p99_ms = p99_ms
        self._shares: dict[Figure, float] = {rate_of: _share(measured, rate_of), p99_of: _share(measured, p99_of)}
        by_rate = any(one.live.is_ranked_by_rate(p99_ms) for one in measured)
        self.share = self._shares[rate_of if by_rate else p99_of]

    def are_tied(self, one: MeasuredCandidate, other: MeasuredCandidate, figure: Figure) -> bool:
        """Return whether the difference in a figure may be noise."""
        value, base = figure(one.live.numbers), figure(other.live.numbers)
        error = self._shares[figure] * math.sqrt(1 / len(one.windows) + 1 / len(other.windows))
        return abs(value - base) <= _ERRORS * error * max(value, base)

    def differ(self, one: MeasuredCandidate, other: MeasuredCandidate) -> bool:
        """Return whether they surely differ: one keeps the limit and the other does not, or by throughput, or, where
        the p99 decides, by that.
        """
        if one.live.keeps(self._p99_ms) is not other.live.keeps(self._p99_ms):
            return True
        by_rate = one.live.is_ranked_by_rate(self._p99_ms)
        return not self.are_tied(one, other, rate_of) or not (by_rate or self.are_tied(one, other, p99_of))

    def undecided(self, one: MeasuredCandidate, best: MeasuredCandidate) -> bool:
        """Return whether more windows may show that it is better than the best."""
        if one.live.keeps(self._p99_ms) is best.live.keeps(self._p99_ms):
            # of those tied on p99 the fastest is the best, until more windows separate them
            return self.are_tied(one, best, rate_of if one.live.is_ranked_by_rate(self._p99_ms) else p99_of)
        if self._p99_ms is None or one.live.keeps(self._p99_ms):
            return False
        error = _ERRORS * self._shares[p99_of] / math.sqrt(len(one.windows))
        narrowly = one.live.numbers.p99 <= self._p99_ms * 1e6 * max(_NARROWLY, 1 + error)
        return narrowly and one.live.numbers.rate > best.live.numbers.rate

    def contradicts(self, one: MeasuredCandidate) -> bool:
        """Return whether a candidate's measurement contradicts its prediction."""
        for figure in (rate_of, p99_of):
            measured, predicted = figure(one.live.numbers), figure(one.predicted.numbers)
            error = max(_ERRORS * self._shares[figure] / math.sqrt(len(one.windows)), _OFF)
            if not abs(measured - predicted) <= error * max(measured, predicted):
                return True
        return False


def ranked(measured: Iterable[MeasuredCandidate], p99_ms: float | None) -> list[MeasuredCandidate]:
    """Return the candidates, the best first; ties within noise go to the throughput."""
    candidates = list(measured)
    noise = Noise(candidates, p99_ms)
    return best_first(candidates, p99_ms, lambda one: one.live, noise.are_tied)


def leaders(ordered: Sequence[MeasuredCandidate]) -> list[MeasuredCandidate]:
    """Return the first of each settings."""
    first: dict[Settings, MeasuredCandidate] = {}
    for one in ordered:
        first.setdefault(one.live.settings, one)
    return list(first.values())


def _share(measured: Sequence[MeasuredCandidate], figure: Figure) -> float:
    squares, count = _WEIGHT * _SUPPOSED**2, _WEIGHT
    for one in measured:
        values = np.array([figure(window) for window in one.windows])
        squares += float(((values / values.mean() - 1) ** 2).sum())
        count += len(values) - 1
    return math.sqrt(squares / count)


def _median(windows: Sequence[Numbers]) -> Numbers:
    """Return the median of each number, and all requests."""
    rows = np.median([(one.p50, one.p99, one.rate, one.mean_size) for one in windows], axis=0)
    p50, p99, rate, mean_size = map(float, rows)
    return Numbers(p50, p99, rate, mean_size, requests=sum(one.requests for one in windows))
