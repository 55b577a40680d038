"""The measurements of a load test: windows of time, and a row for each level of load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ....core.percentiles import percentiles
from .call_log import BATCH, DONE, DUE, FIRST, RECEIVE, RESPONSES, SEND, SENT, CallLog, Rows, without_errors
from .time_percentiles import Percentiles
from .token_times import TokenTimes

#: perf_analyzer's rule: so many windows in a row, of which the largest exceeds the smallest by at most this share.
STABLE_WINDOWS, STABILITY = 3, 0.1


@dataclass(frozen=True)
class LoadWindow:
    """One window: its nanoseconds, inferences per second, and the latency that must be stable, in microseconds: the
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

    def to_dict(self) -> dict[str, Any]:
        rest = {"inferences_per_s": self.inferences_per_s, "latency_us": self.latency_us, "failed": self.failed}
        return {"seconds": (self.end - self.begin) / 1e9, **rest}


def measure(rows: Rows, begin: int, end: int, percentile: float | None) -> LoadWindow:
    """Measure the requests that ended in a window; `rows` are their rows."""
    good = without_errors(rows)
    waits = (good[:, DONE] - good[:, DUE]) / 1e3
    latency = None
    if len(waits):
        latency = float(waits.mean()) if percentile is None else percentiles(waits, percentile)[0]
    rate = float(good[:, BATCH].sum()) / max((end - begin) / 1e9, 1e-9)
    return LoadWindow(begin, end, inferences_per_s=rate, latency_us=latency, failed=len(rows) - len(good))


def is_stable(windows: Sequence[LoadWindow], stability: float = STABILITY) -> bool:
    """Return whether the last three windows agree, in throughput and in latency: largest / smallest <= 1 +
    `stability` (perf_analyzer's rule, --stability-percentage).
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
    """The server's counts during the requests: the microseconds of an average request, and the average number of
    inferences per execution.
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
    queue, received, infer, output = map(mean, ("queue", "compute_input", "compute_infer", "compute_output"))
    batch = moved("inference_count") / executions if executions > 0 else 0.0
    return ServerTimes(queue, received, infer, output, requests, executions, batch_size=batch)


def _sum(statistics: Mapping[str, Any], path: Sequence[str]) -> int:
    """Add up a counter of all versions; gRPC's JSON writes 64-bit integers as text, and omits zeros."""
    total = 0
    for found in statistics.get("model_stats", ()):
        value: Any = found
        for name in path:
            value = value.get(name, {}) if isinstance(value, Mapping) else {}
        total += int(value or 0)
    return total


@dataclass(frozen=True)
class LoadRow:
    """The measurements at one level of load; times are microseconds, `seconds` is the measured time.

    `latency`: from the sending of a request (in an open loop, from its due time) to its last response, of requests
    without an error. `lag`: the delay of sending in an open loop. `first_response`: for a decoupled model, whose
    requests may have any number of responses. `unanswered`: requests that had not ended some time after the end, and
    were cancelled. `stable`: whether the last windows agreed; None if there are too few. `server`: the counts of
    Triton's statistics. `tokens`: the times of tokens, with `output_tokens`.
    """

    level: float
    seconds: float
    requests: int
    requests_per_s: float
    inferences_per_s: float
    responses_per_s: float
    sent_per_s: float
    latency: Percentiles | None
    first_response: Percentiles | None
    lag: Percentiles | None
    client_send_us: float
    client_receive_us: float
    server: ServerTimes | None
    errors: dict[str, int]
    unanswered: int
    stable: bool | None
    windows: tuple[LoadWindow, ...]
    tokens: TokenTimes | None = None

    @property
    def failed(self) -> int:
        return sum(self.errors.values())

    @property
    def network_us(self) -> float | None:
        """The part of the mean latency that is in neither the client's writing and reading nor the server's columns:
        the network, and the rest of the server.
        """
        if self.latency is None or self.server is None:
            return None
        rest = self.latency.avg - self.client_send_us - self.client_receive_us - self.server.total_us
        return max(rest, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON values; `_us` are microseconds."""
        values = {
            name: value for name, value in vars(self).items() if not isinstance(value, (Percentiles, ServerTimes))
        }
        values["tokens"] = self.tokens.to_dict() if self.tokens is not None else None
        values["windows"] = [window.to_dict() for window in self.windows]
        for name in ("latency", "first_response", "lag"):
            values.pop(name, None)
            found = getattr(self, name)
            values[f"{name}_us"] = asdict(found) if found is not None else None
        values["server"] = asdict(self.server) if self.server is not None else None
        return values | {"failed": self.failed, "network_us": self.network_us}


def row_of(
    level: float,
    log: CallLog,
    windows: Sequence[LoadWindow],
    measured: Sequence[LoadWindow],
    counted: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None],
    more: int,
    open_loop: bool,
    decoupled: bool,
    stable: bool | None,
    unanswered: int,
) -> LoadRow:
    """Make a row. `measured`: the last of the windows, which count. `counted`: the server's statistics at the beginning
    and end of these; `more`: how many more requests were in progress at the end.
    """
    begin, end = measured[0].begin, measured[-1].end
    rows, seconds = log.rows(begin, end), max((end - begin) / 1e9, 1e-9)
    good = without_errors(rows)
    streamed = good[good[:, FIRST] > 0]
    return LoadRow(
        level=level,
        seconds=seconds,
        requests=len(good),
        requests_per_s=len(good) / seconds,
        inferences_per_s=float(good[:, BATCH].sum()) / seconds,
        responses_per_s=float(good[:, RESPONSES].sum()) / seconds,
        sent_per_s=(len(rows) + more) / seconds,
        latency=Percentiles.from_nanoseconds(good[:, DONE] - good[:, DUE]),
        first_response=Percentiles.from_nanoseconds(streamed[:, FIRST] - streamed[:, DUE]) if decoupled else None,
        lag=Percentiles.from_nanoseconds(rows[:, SENT] - rows[:, DUE]) if open_loop else None,
        client_send_us=_mean(good[:, SEND]),
        client_receive_us=_mean(good[:, RECEIVE]),
        server=server_times(*counted),
        errors=log.errors(rows),
        unanswered=unanswered,
        stable=stable,
        windows=tuple(windows),
        tokens=TokenTimes.from_log(log.tokens, begin, end) if log.tokens is not None else None,
    )


def _mean(nanoseconds: Rows) -> float:
    return float(nanoseconds.mean()) / 1e3 if len(nanoseconds) else 0.0
