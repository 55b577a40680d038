"""The percentiles of all times that are shown: views, playground, load tests, tuning.

A percentile is one of the values, chosen like in perf_analyzer: rank `percent / 100 * (n - 1)`, rounded half
up, of the sorted values. An interpolated median of two batches, one after 1 ms and one after 73 ms, is a time that no
request took. `extension/src/views/text.ts` has the same rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def percentiles(values: Sequence[float] | NDArray[Any], *percents: float) -> tuple[float, ...]:
    """Return the percentiles of unsorted values, NaN if there are none. `percents`: 0 to 100."""
    if not len(values):
        return (math.nan,) * len(percents)
    ordered = np.sort(values)
    return tuple(float(ordered[int(percent / 100 * (len(ordered) - 1) + 0.5)]) for percent in percents)
