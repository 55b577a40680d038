"""What is kept of custom metrics: the changes of each series, a family with one set of labels."""

from __future__ import annotations

import threading

from .ring import Ring

CHANGES = 10_000
SERIES = 1_000
Key = tuple[str, tuple[tuple[str, str], ...]]


class MetricRecord:
    """The last changes of each of at most `SERIES` series. `refused` counts changes of series beyond those."""

    def __init__(self, changes: int = CHANGES) -> None:
        self._changes = changes
        self._lock = threading.Lock()  # guards everything below
        self._series: dict[Key, Ring] = {}
        self.refused = 0

    def add(self, name: str, labels: dict[str, str], value: float, now: int) -> None:
        """`value`: of a counter and a gauge what it is now, of a histogram what was observed."""
        key = name, tuple(labels.items())
        with self._lock:
            if key not in self._series and len(self._series) >= SERIES:
                self.refused += 1
                return
            self.ring(key).add((now, value))

    def ring(self, key: Key) -> Ring:
        """The changes of one series, made if there are none yet."""
        found = self._series.get(key)
        if found is None:
            found = self._series[key] = Ring(("time", "value"), self._changes)
        return found

    def since(self, rows: dict[Key, int]) -> dict[Key, tuple[int, bytes]]:
        """Of each series the first row kept from that number on, and the rows from there (`Ring.since`)."""
        with self._lock:
            return {key: ring.since(rows.get(key, 0)) for key, ring in self._series.items()}

    def series(self) -> dict[Key, Ring]:
        with self._lock:
            return dict(self._series)

    def clear(self) -> None:
        with self._lock:
            self._series, self.refused = {}, 0
