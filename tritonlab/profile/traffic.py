"""The traffic of a model: its current rate of responses, and how long its clients wait for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .model_record import BATCHES, REQUESTS, ModelRecord

#: Now means the last so many seconds, and at most the last so many requests.
WINDOW_SECONDS = 10.0
_REQUESTS = 5_000

_BATCH, _ARRIVED, _END = REQUESTS.index("batch"), REQUESTS.index("arrived"), BATCHES.index("end")


class Traffic(NamedTuple):
    """Requests per second, and the milliseconds from a request's arrival to the end of its execution that half of the
    requests and 99 of a hundred stay within; None where none was executed.
    """

    rate: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None


def traffic(record: ModelRecord, now: int) -> Traffic:
    """Measure the executions that ended in the window before `now`, nanoseconds of the server's clock."""
    with record.lock:
        requests = record.requests.rows(record.requests.total - _REQUESTS)
        if not len(requests):
            return Traffic()
        first = max(int(requests[0, _BATCH]), record.batches.dropped)
        batches = record.batches.rows(first)
    number = requests[:, _BATCH].astype(np.int64) - first
    known = (number >= 0) & (number < len(batches))
    ends = batches[number[known], _END]
    waits = (ends - requests[known, _ARRIVED]) / 1e6
    recent = waits[ends > now - WINDOW_SECONDS * 1e9]
    if not len(recent):
        return Traffic()
    # if there are more requests, those looked at cover less than the window
    span = WINDOW_SECONDS if len(recent) < _REQUESTS else max((now - ends.min()) / 1e9, 1e-3)
    p50, p99 = np.percentile(recent, [50, 99])
    return Traffic(len(recent) / span, float(p50), float(p99))
