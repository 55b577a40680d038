"""`LatencyStats`, which also records how latencies are distributed, if the metrics show it (rules 5.13.2, 5.13.3)."""

from __future__ import annotations

import bisect
import itertools
import math
import threading
from collections.abc import Callable, Mapping, Sequence

from .infer_stats import ExecuteTimes, InferStats
from .metrics_config import Quantiles
from .prometheus_text import Sample, number_text
from .quantiles import WindowQuantiles

#: The durations that are summarized, in microseconds.
SUMMARIZED = ("request", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss")


class Summary:
    """The count, sum and quantiles of observed values."""

    def __init__(self, quantiles: Quantiles, now: int) -> None:
        self._quantiles = quantiles
        self._window = WindowQuantiles(quantiles, now)
        self._count = 0
        self._sum = 0.0

    def observe(self, value: float, now: int) -> None:
        self._count += 1
        self._sum += value
        self._window.insert(value, now)

    def samples(self, labels: Sequence[tuple[str, str]], now: int) -> list[Sample]:
        at = [
            ("", [*labels, ("quantile", number_text(q))], self._window.get(q, now) if self._count else math.nan)
            for q, _ in self._quantiles
        ]
        return [("_count", labels, self._count), ("_sum", labels, self._sum), *at]


class LatencyStats(InferStats):
    """An `InferStats` that also summarizes its durations. Any thread may call any method."""

    __slots__ = ("_clock", "_summaries", "_summary_lock")

    def __init__(self, quantiles: Quantiles, clock: Callable[[], int]) -> None:
        """`clock()` returns monotonic nanoseconds."""
        super().__init__()
        self._clock = clock
        self._summary_lock = threading.Lock()  # guards _summaries
        self._summaries = {name: Summary(quantiles, clock()) for name in SUMMARIZED}

    def record_batch(
        self,
        size: int,
        queue_ns: Sequence[int],
        request_ns: Sequence[int],
        times: ExecuteTimes,
        failed: int,
        wall_ms: int,
        nulls: int = 0,
    ) -> None:
        super().record_batch(size, queue_ns, request_ns, times, failed=failed, wall_ms=wall_ms, nulls=nulls)
        if failed:
            return
        for queued, total in zip(queue_ns, request_ns, strict=True):
            self._observe(
                {
                    "request": total,
                    "queue": queued,
                    "compute_input": times.compute_input,
                    "compute_infer": times.compute_infer,
                    "compute_output": times.compute_output,
                }
            )

    def record_cache_hit(self, request_ns: int, queue_ns: int, lookup_ns: int, wall_ms: int) -> None:
        super().record_cache_hit(request_ns, queue_ns, lookup_ns, wall_ms)
        self._observe({"request": request_ns, "queue": queue_ns, "cache_hit": lookup_ns})

    def record_cache_miss(self, lookup_and_insert_ns: int) -> None:
        super().record_cache_miss(lookup_and_insert_ns)
        self._observe({"cache_miss": lookup_and_insert_ns})

    def _observe(self, ns: Mapping[str, int]) -> None:
        now = self._clock()
        with self._summary_lock:
            for name, value in ns.items():
                self._summaries[name].observe(value // 1000, now)

    def summary(self, name: str, labels: Sequence[tuple[str, str]]) -> list[Sample]:
        """Return the metric lines of `name`, which is one of SUMMARIZED."""
        with self._summary_lock:
            return self._summaries[name].samples(labels, self._clock())


class Histogram:
    """The counts per bucket, with the number and the sum of the values. Any thread may call any method."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = [*bounds, math.inf]
        self._lock = threading.Lock()  # guards _counts and _sum
        self._counts = [0] * len(self.bounds)  # per bucket, not cumulative
        self._sum = 0.0

    def observe(self, value: float) -> None:
        with self._lock:
            self._counts[bisect.bisect_left(self.bounds, value)] += 1  # like Triton, count a NaN in the first bucket
            self._sum += value

    def samples(self, labels: Sequence[tuple[str, str]]) -> list[Sample]:
        with self._lock:
            below, total = list(itertools.accumulate(self._counts)), self._sum
        lines: list[Sample] = [("_count", labels, below[-1]), ("_sum", labels, total)]
        for bound, count in zip(self.bounds, below, strict=True):
            lines.append(("_bucket", [*labels, ("le", number_text(bound))], count))
        return lines
