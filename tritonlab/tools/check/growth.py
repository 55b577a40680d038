"""The growth of a model's resources with requests: measured from outside, judged by robust slopes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_PAGE = os.sysconf("SC_PAGE_SIZE")
#: The measured resources, each in words for one unit.
KINDS = {
    "memory": "bytes",
    "shared memory": "bytes",
    "descriptors": "descriptors",
    "threads": "threads",
    "blocks": "blocks of shared memory",
    "files": "files",
    "objects": "Python objects",
}
#: The least gain per request that counts: less is rounding.
_LEAST = {"memory": 160.0, "shared memory": 160.0, "objects": 0.4} | dict.fromkeys(
    ("descriptors", "threads", "blocks", "files"), 0.02
)


def shared_blocks() -> set[str]:
    """Return the names in /dev/shm."""
    try:
        return set(os.listdir("/dev/shm"))
    except OSError:
        return set()


def measure(pids: Sequence[int]) -> dict[str, float]:
    """Return the resources that these processes hold now."""
    found = dict.fromkeys(KINDS, 0.0)
    for pid in pids:
        root = Path(f"/proc/{pid}")
        try:
            statm = (root / "statm").read_text().split()
            found["memory"] += (int(statm[1]) - int(statm[2])) * _PAGE
            found["shared memory"] += int(statm[2]) * _PAGE
            found["descriptors"] += len(os.listdir(root / "fd"))
            found["threads"] += len(os.listdir(root / "task"))
        except OSError:
            continue
    return found


@dataclass(frozen=True)
class Slope:
    """Growth per request: the median slope, and the bounds of its 95 % confidence interval."""

    per_request: float
    low: float
    high: float

    def grows(self, kind: str, share: float = 1.0) -> bool:
        """Return whether the growth is more than rounding; `share`: the share of the least gain that is required."""
        return self.low > 0 and self.per_request >= share * _LEAST[kind]


def slope(requests: Sequence[float], values: Sequence[float]) -> Slope:
    """Return the Theil-Sen slope over all pairs, and its confidence interval by the variance of Kendall's tau. One
    allocation of a large block, or one late release, changes it little.
    """
    x, y = np.asarray(requests, np.float64), np.asarray(values, np.float64)
    n = len(x)
    first, second = np.triu_indices(n, 1)
    slopes = np.sort((y[second] - y[first]) / (x[second] - x[first]))
    spread = 1.96 * np.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = int(np.clip((len(slopes) - spread) / 2, 0, len(slopes) - 1))
    high = int(np.clip((len(slopes) + spread) / 2, 0, len(slopes) - 1))
    return Slope(float(np.median(slopes)), float(slopes[low]), float(slopes[high]))


def is_steady(values: Sequence[float], kind: str) -> bool:
    """Return whether both halves grew alike: a cache that fills grows in the first half only."""
    half = len(values) // 2
    gains = values[half] - values[0], values[-1] - values[half]
    return gains[1] > 0 and gains[1] >= steady_share(kind) * gains[0]


def steady_share(kind: str) -> float:
    """Return the least share of an earlier growth that a later one must have, to count as the same: objects are counted
    exactly, and during the first thousand requests an interpreter makes fewer and fewer for itself."""
    return 0.7 if kind == "objects" else 0.4
