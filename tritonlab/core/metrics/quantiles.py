"""The quantiles of the last minute's observations, estimated in little memory.

The algorithm is by Cormode, Korn, Muthukrishnan and Srivastava, "Effective computation of biased quantiles over
data streams" (ICDE 2005), with targeted quantiles. As in Triton's Prometheus client, the window has several sketches,
reset in turn, and small samples use the lower neighbour, so that the same observations give the same lines.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence

_BUFFER = 500
#: How many nanoseconds an observation counts, and the number of sketches that take turns.
WINDOW = 60_000_000_000
SKETCHES = 5


class Sketch:
    """The estimated ranks of a stream: a sorted list of samples `[value, g, delta]`, where g counts the observations
    between the sample before and this one, and delta is the uncertainty of the rank.
    """

    def __init__(self, targets: Sequence[tuple[float, float]]) -> None:
        self._targets = targets
        self.reset()

    def reset(self) -> None:
        self._samples: list[tuple[float, int, int]] = []
        self._count = 0
        self._buffer: list[float] = []

    def insert(self, value: float) -> None:
        self._buffer.append(value)
        if len(self._buffer) >= _BUFFER:
            self._flush()

    def get(self, quantile: float) -> float:
        """Return the value at `quantile` (0 to 1), NaN if nothing was observed."""
        self._flush()
        if not self._samples:
            return math.nan
        rank = 0
        desired = int(quantile * self._count)
        bound = desired + self._allowed(desired) / 2
        samples = self._samples
        for (value, g, _), (_, next_g, next_delta) in itertools.pairwise(samples):
            rank += g
            if rank + next_g + next_delta > bound:
                return value
        return samples[-1][0]

    def _allowed(self, rank: float) -> float:
        """Return the allowed error of a rank (the paper's f) that keeps every target."""
        size = len(self._samples)
        least = size + 1.0
        for quantile, error in self._targets:
            if rank <= quantile * size:
                allowed = 2.0 * error * (size - rank) / (1.0 - quantile) if quantile < 1 else 0.0
            else:
                allowed = 2.0 * error * rank / quantile if quantile else 0.0
            least = min(least, allowed)
        return least

    def _flush(self) -> None:
        if not self._buffer:
            return
        samples = self._samples
        for value in sorted(self._buffer):
            at = bisect.bisect_left(samples, value, key=lambda sample: sample[0])
            ends = at in (0, len(samples))
            samples.insert(at, (value, 1, 0 if ends else math.floor(self._allowed(at + 1))))
            self._count += 1
        self._buffer.clear()
        self._compress()

    def _compress(self) -> None:
        """Merge each sample with the next one where the ranks stay accurate enough."""
        merged: list[tuple[float, int, int]] = []
        for position, sample in enumerate(self._samples):
            if merged and merged[-1][1] + sample[1] + sample[2] <= self._allowed(position - 1):
                sample = (sample[0], merged.pop()[1] + sample[1], sample[2])
            merged.append(sample)
        self._samples = merged


class WindowQuantiles:
    """Estimated quantiles over the last WINDOW nanoseconds. It is not thread-safe, and the caller passes the time."""

    def __init__(self, targets: Sequence[tuple[float, float]], now: int) -> None:
        self._sketches = [Sketch(targets) for _ in range(SKETCHES)]
        self._current = 0
        self._turned = now

    def insert(self, value: float, now: int) -> None:
        self._turn(now)
        for sketch in self._sketches:
            sketch.insert(value)

    def get(self, quantile: float, now: int) -> float:
        self._turn(now)
        return self._sketches[self._current].get(quantile)

    def _turn(self, now: int) -> None:
        turns = (now - self._turned) // (WINDOW // SKETCHES)
        for _ in range(min(turns, SKETCHES)):
            self._sketches[self._current].reset()
            self._current = (self._current + 1) % SKETCHES
        self._turned += turns * (WINDOW // SKETCHES)
