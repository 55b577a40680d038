"""Facts of a record: batches and streams, the current traffic, copies, and why two requests shared no batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.percentiles import percentiles
from ..core.short_number import short_number
from ..engine.schedulers.dynamic_batch import BatchConfig
from ..engine.schedulers.why_apart import BatchPlace, FormedBatch, why_apart
from .model_record import EMPTY, ERROR, REJECTIONS, ModelRecord

#: Stands for an unknown configuration: then only the recorded reasons are given.
UNKNOWN = BatchConfig(max_batch_size=1 << 62, dynamic=True)

#: The current traffic: the last so many seconds, and at most the last so many requests.
WINDOW_SECONDS = 10.0
_REQUESTS = 5_000

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class BatchFacts:
    """Facts about the executions in the record. Times are nanoseconds, each as (median, 95th percentile), NaN if there
    are none. `rejected`: how many requests ended in the queue, by REJECTIONS.
    """

    batches: int
    requests: int
    failed: int
    sizes: dict[int, int]
    reasons: dict[str, int]
    queue: tuple[float, float]
    compute: tuple[float, float]
    span: float
    rejected: dict[str, int]
    dropped: int


def batch_facts(record: ModelRecord) -> BatchFacts:
    with record.lock:
        batch, request = record.batches.by_column(), record.requests.by_column()
        rejected = record.rejected.by_column()["reason"].astype(int).tolist()
        oldest, dropped = record.batches.dropped, record.dropped
    start, end = batch["start"], batch["end"]
    places = request["batch"].astype(np.int64) - oldest
    known = places >= 0
    sizes = Counter(batch["size"].astype(int).tolist())
    reasons = Counter(batch["reason"].tolist())
    return BatchFacts(
        batches=len(start),
        requests=int(batch["count"].sum()),
        failed=int(batch["failed"].sum()),
        sizes=dict(sorted(sizes.items())),
        reasons={record.words.word("reason", number): count for number, count in reasons.most_common()},
        queue=_spread(start[places[known]] - request["queued"][known]),
        compute=_spread(end - start),
        span=float(end.max() - start.min()) if len(start) else 0.0,
        rejected={REJECTIONS[number]: count for number, count in Counter(rejected).most_common()},
        dropped=dropped,
    )


@dataclass(frozen=True)
class StreamFacts:
    """Facts about streams. Times are nanoseconds, each as (median, 95th percentile), NaN if there are none.

    `first`: from when a request came to its first response; `gap`: between two responses of one stream. `open`:
    (serial, name, responses, when it came).
    """

    ended: int
    responses: int
    empty_finals: int
    failed: int
    first: tuple[float, float]
    gap: tuple[float, float]
    open: list[tuple[int, str, int, int]]


def stream_facts(record: ModelRecord) -> StreamFacts:
    with record.lock:
        stream, response = record.streams.by_column(), record.responses.by_column()
        names = names_by_serial(record)
        still = [(serial, names.get(serial, ""), one.count, one.arrived) for serial, one in record.open.items()]
    kinds = stream["kind"].astype(int)
    answered = stream["first"] > 0
    sent = (response["kind"].astype(int) & EMPTY) == 0
    serials, times = response["serial"][sent], response["time"][sent]
    order = np.lexsort((times, serials))
    gaps = np.diff(times[order])[np.diff(serials[order]) == 0]
    return StreamFacts(
        ended=len(kinds),
        responses=int(stream["count"].sum()) + sum(count for _, _, count, _ in still),
        empty_finals=int(((kinds & EMPTY) > 0).sum()),
        failed=int(((kinds & ERROR) > 0).sum()),
        first=_spread((stream["first"] - stream["arrived"])[answered]),
        gap=_spread(gaps),
        open=still,
    )


def names_by_serial(record: ModelRecord) -> dict[int, str]:
    """Return the request ids, by serial. The caller holds the record's lock."""
    serials = record.requests.rows()[:, 0]
    oldest = record.requests.dropped
    return {int(serials[row - oldest]): text for row, text in record.ids_since(0)}


def cancel_verdict(polls: int, asked: float, noticed: float, end: float, now: float) -> str:
    """Return one sentence about a cancelled request; empty if it was not cancelled. `end` is 0 while it runs."""
    if not asked:
        return ""
    words = []
    if noticed:
        words.append(f"is_cancelled() returned True after {_ms(noticed - asked)}")
    elif polls:
        words.append("its model has not called is_cancelled() since")
    else:
        words.append("never polled: its model does not call is_cancelled()")
    words.append(f"the sender closed after {_ms(end - asked)}" if end else f"it still runs after {_ms(now - asked)}")
    return f"Cancelled; {', '.join(words)}."


def _ms(ns: float) -> str:
    return f"{short_number(ns / 1e6)} ms"


class Traffic(NamedTuple):
    """Requests per second, and the milliseconds from arrival to end of execution within which half of the requests and
    99 of a hundred stay; None if none was executed.
    """

    rate: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None


def traffic(record: ModelRecord, now: int) -> Traffic:
    """Measure the executions that ended in the window before `now`, nanoseconds of the server's clock."""
    with record.lock:
        request = record.requests.by_column(record.requests.total - _REQUESTS)
        if not len(request["batch"]):
            return Traffic()
        first = max(int(request["batch"][0]), record.batches.dropped)
        all_ends = record.batches.by_column(first)["end"]
    number = request["batch"].astype(np.int64) - first
    known = (number >= 0) & (number < len(all_ends))
    ends = all_ends[number[known]]
    waits = (ends - request["arrived"][known]) / 1e6
    recent = waits[ends > now - WINDOW_SECONDS * 1e9]
    if not len(recent):
        return Traffic()
    # if there are more requests, the measured ones cover less than the window
    span = WINDOW_SECONDS if len(recent) < _REQUESTS else max((now - ends.min()) / 1e9, 1e-3)
    return Traffic(len(recent) / span, *percentiles(recent, 50, 99))


@dataclass(frozen=True)
class DeviceCopies:
    """The sums of copies. `to_device`, `to_host`: bytes; `requests`: how many requests had copies; `simulated`: whether
    the GPUs are simulated.
    """

    requests: int
    to_device: int
    to_host: int
    simulated: bool


def device_copies(record: ModelRecord, serial: int | None = None) -> DeviceCopies | None:
    """Return the copies for a request, or for all in the record; None if there were none."""
    with record.lock:
        column = record.copies.by_column()
    serials = column["serial"]
    chosen = serials == serial if serial is not None else np.ones(len(serials), bool)
    if not chosen.any():
        return None
    return DeviceCopies(
        requests=len(np.unique(serials[chosen])),
        to_device=int(column["to_device"][chosen].sum()),
        to_host=int(column["to_host"][chosen].sum()),
        simulated=bool(column["simulated"][chosen].any()),
    )


def why_not_together(record: ModelRecord, one: int, other: int, config: BatchConfig = UNKNOWN) -> str:
    """Return one sentence about the requests of two rows; empty if one of them is no longer in the record."""
    with record.lock:
        places = [_batch_place(record, row, config.max_batch_size > 0) for row in (one, other)]
    return why_apart(places[0], places[1], config) if places[0] and places[1] else ""


def _batch_place(record: ModelRecord, row: int, batched: bool) -> BatchPlace | None:
    request = record.requests.row(row)
    batch = record.batches.row(int(request["batch"])) if request is not None else None
    if request is None or batch is None:
        return None
    extra = next((extra for extra in record.extras.dicts() if extra["row"] == row), {"priority": 0, "sequence": 0})
    name = record.id_of(row)
    shapes = dict(record.words.word("shapes", request["shapes"]))
    return BatchPlace(
        name=f"'{name}'" if name else f"request {int(request['serial'])}",
        batch=FormedBatch(
            model=record.name,
            version=int(batch["version"]),
            number=int(request["batch"]),
            formed=int(batch["start"]),
            size=int(batch["size"]),
            reason=record.words.word("reason", batch["reason"]),
        ),
        queued=int(request["queued"]),
        size=int(request["size"]),
        priority=int(extra["priority"]),
        sequence=int(extra["sequence"]),
        shapes={tensor: shape[1:] if batched else shape for tensor, shape in shapes.items()},
    )


def _spread(values: Numbers) -> tuple[float, float]:
    """Return the median and the 95th percentile."""
    median, high = percentiles(values, 50, 95)
    return median, high
