"""`ServiceTimes`, the time of an execution by its batch size, as fitted to recorded executions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: The fewest executions with which a size counts as known, if two sizes are known.
_ENOUGH = 3
_FOLDS = 5


class ServiceTimes:
    """Nanoseconds by batch size: the median of the executions of a recorded size, a straight line between two such
    sizes, and the line through all medians beyond the largest.

    Below the smallest size the time shrinks along that line, at most in proportion. If only one size was recorded, a
    larger batch is taken to cost in proportion, as no measurement shows that it costs less. `error`: the mean error of
    a prediction, in percent of the measured time, for executions outside of the fit; NaN if there were too few.
    """

    def __init__(self, medians: Mapping[int, float], counts: Mapping[int, int], error: float = float("nan")) -> None:
        self.medians = dict(sorted(medians.items()))
        self.counts = dict(counts)
        self.error = error
        self._sizes = np.array(list(self.medians), float)
        self._times = np.array(list(self.medians.values()), float)
        self._slope = self._times[0] / self._sizes[0]
        if len(self.medians) > 1:
            weights = np.sqrt([self.counts[size] for size in self.medians])
            self._slope = max(float(np.polyfit(self._sizes, self._times, 1, w=weights)[0]), 0.0)
        self._known: dict[int, float] = {}

    @staticmethod
    def fit(sizes: Floats, took: Floats) -> ServiceTimes:
        """Fit executions, given in their order. Raises ValueError if there are none."""
        fitted = _fit(sizes, took)
        if len(took) >= 2 * _FOLDS:
            folds = np.arange(len(took)) % _FOLDS
            wrong = []
            for fold in range(_FOLDS):
                seen, unseen = folds != fold, folds == fold
                other = _fit(sizes[seen], took[seen])
                predicted = np.array([other(int(size)) for size in sizes[unseen]])
                wrong.append(np.abs(predicted - took[unseen]) / np.maximum(took[unseen], 1))
            fitted.error = float(np.concatenate(wrong).mean() * 100)
        return fitted

    def __call__(self, size: int) -> float:
        found = self._known.get(size)
        if found is None:
            found = self._known[size] = self._estimate(size)
        return found

    def _estimate(self, size: int) -> float:
        first, last = self._sizes[0], self._sizes[-1]
        if size > last:
            return float(self._times[-1] + self._slope * (size - last))
        if size < first:
            return float(max(self._times[0] - self._slope * (first - size), self._times[0] * size / first))
        return float(np.interp(size, self._sizes, self._times))

    def __str__(self) -> str:
        sizes = f"sizes {', '.join(map(str, self.medians))}"
        if len(self.medians) > 8:
            sizes = f"{len(self.medians)} sizes from {self._sizes[0]:.0f} to {self._sizes[-1]:.0f}"
        error = f"off by {self.error:.1f}% on average" if np.isfinite(self.error) else "too few to estimate the error"
        return f"fitted to {sum(self.counts.values()):,} executions of {sizes}; {error}"


def _fit(sizes: Floats, took: Floats) -> ServiceTimes:
    if not len(took):
        raise ValueError("no execution was recorded")
    order = np.argsort(sizes, kind="stable")
    seen, begins = np.unique(sizes[order], return_index=True)
    groups = np.split(took[order], begins[1:])
    counts = {int(size): len(group) for size, group in zip(seen, groups, strict=True)}
    enough = {size for size, count in counts.items() if count >= _ENOUGH}
    if len(enough) < 2:
        enough = set(counts)
    medians = {int(size): float(np.median(group)) for size, group in zip(seen, groups, strict=True)}
    return ServiceTimes({size: max(medians[size], 1.0) for size in enough}, {size: counts[size] for size in enough})
