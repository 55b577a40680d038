"""The measurements at one level of load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import NDArray

from ....core.percentiles import percentiles
from .call_log import BATCH, DONE, DUE, ERROR, FIRST, RECEIVE, RESPONSES, SEND, SENT, CallLog, Rows
from .load_windows import LoadWindow, ServerTimes, server_times


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
        """Return the percentiles; None of nothing."""
        if not len(nanoseconds):
            return None
        return Percentiles(float(nanoseconds.mean()) / 1e3, *percentiles(nanoseconds / 1e3, 50, 90, 95, 99, 100))


@dataclass(frozen=True)
class LoadRow:
    """The measurements at one level of load; times are microseconds, `seconds` is how long was measured.

    `latency`: from when a request was sent, in an open loop from when it was due, to its last response; of those
    without an error. `lag`: how late an open loop sent. `first_response`: of a decoupled model, whose requests may have
    any number of responses. `unanswered`: requests that had not ended some time after the end, and were cancelled.
    `stable`: whether the last windows agreed; None where there are too few. `server`: the counts of Triton's
    statistics.
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

    @property
    def failed(self) -> int:
        return sum(self.errors.values())

    @property
    def network_us(self) -> float | None:
        """The part of the mean latency that is neither the client's writing and reading nor in the server's columns:
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
        values["windows"] = [
            {
                "seconds": (window.end - window.begin) / 1e9,
                "inferences_per_s": window.inferences_per_s,
                "latency_us": window.latency_us,
                "failed": window.failed,
            }
            for window in self.windows
        ]
        for name in ("latency", "first_response", "lag"):
            values.pop(name, None)
            found = getattr(self, name)
            values[f"{name}_us"] = asdict(found) if found is not None else None
        values["server"] = asdict(self.server) if self.server is not None else None
        return values | {"failed": self.failed, "network_us": self.network_us}


def row_of(
    level: float,
    log: CallLog,
    times: tuple[Sequence[LoadWindow], int],
    counted: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None],
    open_loop: bool,
    decoupled: bool,
    stable: bool | None,
    unanswered: int,
) -> LoadRow:
    """Make a row. `times`: the windows, and how many of the last ones count. `counted`: the server's statistics at
    their begin and end.
    """
    windows, count = times
    begin, end = windows[-count].begin, windows[-1].end
    later, seconds = log.rows(begin), max((end - begin) / 1e9, 1e-9)
    rows = later[later[:, DONE] <= end]
    good = rows[rows[:, ERROR] == 0]
    sent = later[(later[:, SENT] > begin) & (later[:, SENT] <= end)]
    streamed = good[good[:, FIRST] > 0]
    return LoadRow(
        level=level,
        seconds=seconds,
        requests=len(good),
        requests_per_s=len(good) / seconds,
        inferences_per_s=float(good[:, BATCH].sum()) / seconds,
        responses_per_s=float(good[:, RESPONSES].sum()) / seconds,
        sent_per_s=len(sent) / seconds,
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
    )


def _mean(nanoseconds: Rows) -> float:
    return float(nanoseconds.mean()) / 1e3 if len(nanoseconds) else 0.0
