"""The changes of custom metrics, series by series: a series is a family with one set of labels."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping

from .ring import Ring

CHANGES = 10_000
SERIES = 1_000
#: A family with at least this many sets of labels gets a warning.
MANY_LABELS = 100
Key = tuple[str, tuple[tuple[str, str], ...]]


class MetricRecord:
    """The last changes of each of at most `SERIES` series. `refused` counts changes of series beyond those."""

    def __init__(self, changes: int = CHANGES) -> None:
        self._changes = changes
        self._lock = threading.Lock()  # guards everything below
        self._series: dict[Key, Ring] = {}
        self.refused = 0
        #: the kind and the description of each family; replaced at each change, because views read it without the lock
        self.families: dict[str, tuple[str, str]] = {}

    def describe(self, name: str, kind: str, description: str) -> None:
        """Record that a metric of that family was made."""
        with self._lock:
            if name in self.families or len(self.families) < SERIES:
                self.families = {**self.families, name: (kind, description)}

    def add(self, name: str, labels: dict[str, str], value: float, now: int) -> None:
        """Add a change. `value`: the current value of a counter or a gauge, or the observed value of a histogram.
        `now`: nanoseconds.
        """
        key = name, tuple(labels.items())
        with self._lock:
            if key not in self._series and len(self._series) >= SERIES:
                self.refused += 1
                return
            self.ring(key).add((now, value))

    def ring(self, key: Key) -> Ring:
        """Return the changes of one series, which is created at its first use."""
        found = self._series.get(key)
        if found is None:
            found = self._series[key] = Ring(("time", "value"), self._changes)
        return found

    def since(self, rows: Mapping[Key, int]) -> dict[Key, tuple[int, int, bytes]]:
        """Return the rows of each series from a number on: `rows` has the number by series, 0 by default.

        The values are the number of the first returned row, the number of the oldest kept row, and the data of
        `Ring.since`.
        """
        with self._lock:
            found = {}
            for key, ring in self._series.items():
                first, data = ring.since(rows.get(key, 0))
                found[key] = first, ring.dropped, data
            return found

    def series(self) -> dict[Key, Ring]:
        with self._lock:
            return dict(self._series)

    def keep(self, label: str, values: Collection[str]) -> bool:
        """Drop the series whose `label` has another value; return whether there were any."""
        with self._lock:
            kept = {key: ring for key, ring in self._series.items() if dict(key[1]).get(label) in values}
            dropped = len(kept) < len(self._series)
            self._series = kept
        return dropped

    def clear(self) -> None:
        with self._lock:
            self._series, self.refused = {}, 0

    def warnings(self) -> list[str]:
        """Return one sentence about each problem for production."""
        with self._lock:
            families, counts = dict(self.families), Counter(name for name, _ in self._series)
        found = [f"{name}: names that begin with nv_ are Triton's own" for name in families if name.startswith("nv_")]
        found += [
            f"{name}: {count} sets of labels; each is a series of its own in Prometheus"
            for name, count in counts.items()
            if count >= MANY_LABELS
        ]
        found += [
            f"{name}: a counter's name ends with _total by Prometheus's convention"
            for name, (kind, _) in families.items()
            if kind == "counter" and not name.endswith("_total")
        ]
        found += [f"{name} has no description" for name, (_, about) in families.items() if not about]
        if self.refused:
            found.append(f"{self.refused} changes of further series are not kept: there are more than {SERIES}")
        return found
