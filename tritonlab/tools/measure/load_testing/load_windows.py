"""Windows of time in a load test, and whether their measurements are stable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....core.percentiles import percentiles
from .call_log import BATCH, DONE, DUE, ERROR, Rows

#: perf_analyzer's rule: so many windows in a row, the largest at most this share above the smallest.
STABLE_WINDOWS, STABILITY = 3, 0.1


@dataclass(frozen=True)
class LoadWindow:
    """One window: its nanoseconds, inferences per second, and the latency that has to be stable, in microseconds: the
    mean, or the requested percentile; None if no request succeeded.
    """

    begin: int
    end: int
    inferences_per_s: float
    latency_us: float | None
    failed: int = 0

    @property
    def hopeless(self) -> bool:
        """Whether every request failed."""
        return self.failed > 0 and self.latency_us is None


def measure(rows: Rows, begin: int, end: int, percentile: float | None) -> LoadWindow:
    """Measure the requests that ended in a window; `rows` are theirs."""
    good = rows[rows[:, ERROR] == 0]
    waits = (good[:, DONE] - good[:, DUE]) / 1e3
    latency = None
    if len(waits):
        latency = float(waits.mean()) if percentile is None else percentiles(waits, percentile)[0]
    rate = float(good[:, BATCH].sum()) / max((end - begin) / 1e9, 1e-9)
    return LoadWindow(begin, end, inferences_per_s=rate, latency_us=latency, failed=len(rows) - len(good))


def is_stable(windows: Sequence[LoadWindow], stability: float = STABILITY) -> bool:
    """Return whether the last three windows agree, in throughput and in latency: largest / smallest <= 1 + `stability`,
    which is the rule of perf_analyzer (--stability-percentage).
    """
    last = windows[-STABLE_WINDOWS:]
    if len(last) < STABLE_WINDOWS:
        return False
    rates = [window.inferences_per_s for window in last]
    waits = [window.latency_us for window in last if window.latency_us is not None]
    if len(waits) < STABLE_WINDOWS or min(rates) <= 0 or min(waits) <= 0:
        return False
    return max(rates) <= (1 + stability) * min(rates) and max(waits) <= (1 + stability) * min(waits)


@dataclass(frozen=True)
class ServerTimes:
    """The server's counts while requests ran: microseconds of the mean request, and how many inferences an execution
    had in the mean.
    """

    queue_us: float
    compute_input_us: float
    compute_infer_us: float
    compute_output_us: float
    requests: int
    executions: int
    batch_size: float

    @property
    def total_us(self) -> float:
        return self.queue_us + self.compute_input_us + self.compute_infer_us + self.compute_output_us


def server_times(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> ServerTimes | None:
    """Return the difference of two statistics of a model; None if the server has none, or counted nothing."""
    if before is None or after is None:
        return None

    def moved(*path: str) -> int:
        return _sum(after, path) - _sum(before, path)

    def mean(name: str) -> float:
        count = moved("inference_stats", name, "count")
        return moved("inference_stats", name, "ns") / count / 1e3 if count > 0 else 0.0

    requests, executions = moved("inference_stats", "success", "count"), moved("execution_count")
    if requests <= 0:
        return None
    batch = moved("inference_count") / executions if executions > 0 else 0.0
    return ServerTimes(
        queue_us=mean("queue"),
        compute_input_us=mean("compute_input"),
        compute_infer_us=mean("compute_infer"),
        compute_output_us=mean("compute_output"),
        requests=requests,
        executions=executions,
        batch_size=batch,
    )


def _sum(statistics: Mapping[str, Any], path: Sequence[str]) -> int:
    """Add up a counter of all versions; gRPC's JSON writes 64-bit integers as text, and leaves out what is empty."""
    total = 0
    for found in statistics.get("model_stats", ()):
        value: Any = found
        for name in path:
            value = value.get(name, {}) if isinstance(value, Mapping) else {}
        total += int(value or 0)
    return total
