"""`MeasuredCandidate`, a candidate that was measured live, and `Noise`, which separates real differences between
candidates from those between two measurements of the same one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .replay import Numbers
from .search import Trial

#: The assumed difference between two windows of the same settings, before any were measured twice, and how many
#: measured differences it counts as.
_SUPPOSED, _WEIGHT = 0.1, 1.0
#: Two settings differ if so many standard errors lie between them.
_ERRORS = 2.0
#: A candidate whose p99 misses the limit by less than this share may yet keep it.
_NARROWLY = 1.2


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
    """The noise of measurements. `share`: by how much windows of the same settings differ, as a standard deviation,
    relative to their mean.
    """

    def __init__(self, confirmed: Sequence[MeasuredCandidate], p99_ms: float | None) -> None:
        self._p99_ms = p99_ms
        squares, count = _WEIGHT * _SUPPOSED**2, _WEIGHT
        for one in confirmed:
            values = np.array([_value(replace(one.live, numbers=window)) for window in one.windows])
            squares += float(((values / values.mean() - 1) ** 2).sum())
            count += len(values) - 1
        self.share = math.sqrt(squares / count)

    def differ(self, one: MeasuredCandidate, other: MeasuredCandidate) -> bool:
        """Return whether they surely differ: one keeps the limit and the other does not, or by their values."""
        if one.live.rank(self._p99_ms)[0] is not other.live.rank(self._p99_ms)[0]:
            return True
        value, base = _value(one.live), _value(other.live)
        error = self.share * math.sqrt(1 / len(one.windows) + 1 / len(other.windows))
        return abs(value - base) > _ERRORS * error * max(value, base)

    def undecided(self, one: MeasuredCandidate, best: MeasuredCandidate) -> bool:
        """Return whether more windows may show that it is better than the best."""
        if not self.differ(one, best):
            return True
        narrowly = self._p99_ms is not None and one.live.numbers.p99 <= self._p99_ms * 1e6 * _NARROWLY
        return narrowly and not one.live.rank(self._p99_ms)[0] and one.live.numbers.rate > best.live.numbers.rate


def ranked(confirmed: Sequence[MeasuredCandidate], p99_ms: float | None) -> list[MeasuredCandidate]:
    """Return the candidates, the best first."""
    return sorted(confirmed, key=lambda one: one.live.rank(p99_ms), reverse=True)


def _value(one: Trial) -> float:
    """Return the value that candidates are compared by: the throughput, or the p99 where the load fixes that."""
    return one.numbers.rate if one.load.closed else one.numbers.p99


def _median(windows: Sequence[Numbers]) -> Numbers:
    """Return the median of each number, and all requests."""
    rows = np.median([(one.p50, one.p99, one.rate, one.mean_size) for one in windows], axis=0)
    p50, p99, rate, mean_size = map(float, rows)
    return Numbers(p50, p99, rate, mean_size, sum(one.requests for one in windows))
