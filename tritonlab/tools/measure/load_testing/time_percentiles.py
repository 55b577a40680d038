"""A distribution of times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ....core.percentiles import percentiles


@dataclass(frozen=True)
class Percentiles:
    """A distribution of times, in microseconds."""

    avg: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float

    @staticmethod
    def from_nanoseconds(nanoseconds: NDArray[Any]) -> Percentiles | None:
        """Return the percentiles; None for an empty sequence."""
        if not len(nanoseconds):
            return None
        return Percentiles(float(nanoseconds.mean()) / 1e3, *percentiles(nanoseconds / 1e3, 50, 90, 95, 99, 100))
