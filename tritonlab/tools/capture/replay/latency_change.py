"""The latencies of the same requests before and now, and which of their differences are more than noise.

A percentile of each is compared. Blocks of consecutive requests are drawn at random with repetition, 500 times, the
same ones before and now, and the ratio of the percentiles is computed each time: requests that follow each other share
their load, so single ones would promise too much. A difference is more than noise if all ratios are on one side of 1,
it is more than 5 %, and, if the old model was asked twice, more than between these two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.percentiles import percentiles
from ....core.short_number import ns_text

PERCENTS = (50.0, 90.0, 99.0)
_DRAWS, _SEED = 500, 0
#: The least share by which a latency changes.
_LEAST = 0.05
#: The least number of requests beyond a percentile, and of all.
_BEYOND, _ENOUGH = 5, 50


@dataclass(frozen=True)
class PercentileChange:
    """One percentile before and now, in nanoseconds. `low`, `high`: the bounds of its ratio by chance. `verdict`:
    slower, faster, noise or, of too few requests, unknown."""

    percent: float
    before: float
    now: float
    low: float
    high: float
    verdict: str

    def __str__(self) -> str:
        times = f"p{self.percent:g} {ns_text(self.before)} -> {ns_text(self.now)}"
        if self.verdict == "unknown":
            return f"{times}: too few requests to tell"
        share = f"{abs(self.now / self.before - 1):.0%} {'longer' if self.now > self.before else 'shorter'}"
        bounds = f"{self.low - 1:+.0%} to {self.high - 1:+.0%}"
        return f"{times}: {'within noise' if self.verdict == 'noise' else share} ({bounds})"


@dataclass(frozen=True)
class LatencyChange:
    """The latencies of requests before and now. `against`: where those before are from, in words."""

    against: str
    before: NDArray[np.int64]
    now: NDArray[np.int64]
    changes: tuple[PercentileChange, ...]

    @property
    def slower(self) -> list[PercentileChange]:
        return [change for change in self.changes if change.verdict == "slower"]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values; times are nanoseconds."""
        found = [vars(each) for each in self.changes]
        return {"against": self.against, "requests": len(self.now), "percentiles": found}

    def lines(self) -> list[str]:
        return [f"latency of {len(self.now):,} requests, against {self.against}:", *map(str, self.changes)]


def compare_latencies(
    before: Sequence[int], now: Sequence[int], against: str, again: Sequence[int] = ()
) -> LatencyChange | None:
    """Compare the latencies of the same requests, in nanoseconds; None without any. `again`: the old ones once more."""
    if not len(before):
        return None
    old, new = np.asarray(before, np.int64), np.asarray(now, np.int64)
    first, second = percentiles(old, *PERCENTS), percentiles(new, *PERCENTS)
    third = percentiles(np.asarray(again, np.int64), *PERCENTS) if len(again) else first
    ratios = _draw(old, new)
    changes = []
    for number, percent in enumerate(PERCENTS):
        low, high = ratios[number]
        drift = max(third[number] / max(first[number], 1), first[number] / max(third[number], 1)) - 1
        least = max(_LEAST, drift)
        ratio = second[number] / max(first[number], 1)
        verdict = "noise"
        if len(new) < _ENOUGH or len(new) * (1 - percent / 100) < _BEYOND:
            verdict = "unknown"
        elif low > 1 and ratio > 1 + least:
            verdict = "slower"
        elif high < 1 and ratio < 1 / (1 + least):
            verdict = "faster"
        changes.append(PercentileChange(percent, first[number], second[number], low, high, verdict))
    return LatencyChange(against, old, new, tuple(changes))


def _draw(old: NDArray[np.int64], new: NDArray[np.int64]) -> list[tuple[float, float]]:
    """Return the least and the largest ratio of each percentile over all draws."""
    count = len(old)
    length = max(1, math.isqrt(count))
    random = np.random.default_rng(_SEED)
    found = np.empty((_DRAWS, len(PERCENTS)))
    ranks = [int(percent / 100 * (count - 1) + 0.5) for percent in PERCENTS]
    for draw in range(_DRAWS):
        starts = random.integers(0, count, math.ceil(count / length))
        chosen = ((starts[:, None] + np.arange(length)).reshape(-1) % count)[:count]
        pair = (np.partition(values[chosen], ranks)[ranks] for values in (old, new))
        one, other = next(pair), next(pair)
        found[draw] = other / np.maximum(one, 1)
    return [(float(low), float(high)) for low, high in zip(found.min(axis=0), found.max(axis=0), strict=True)]
