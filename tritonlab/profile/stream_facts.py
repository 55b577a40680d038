"""The streams of a decoupled model in a record: when responses came, and how each stream ended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.short_number import short_number
from .model_record import EMPTY, ERROR, ModelRecord


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
        streams, responses = record.streams.rows(), record.responses.rows()
        names = names_by_serial(record)
        still = [(serial, names.get(serial, ""), one.count, one.arrived) for serial, one in record.open.items()]
    column = {name: streams[:, number] for number, name in enumerate(record.streams.columns)}
    kinds = column["kind"].astype(int)
    answered = column["first"] > 0
    sent = responses[(responses[:, 3].astype(int) & EMPTY) == 0]
    order = np.lexsort((sent[:, 1], sent[:, 0]))
    sent = sent[order]
    gaps = np.diff(sent[:, 1])[np.diff(sent[:, 0]) == 0]
    return StreamFacts(
        ended=len(streams),
        responses=int(column["count"].sum()) + sum(count for _, _, count, _ in still),
        empty_finals=int(((kinds & EMPTY) > 0).sum()),
        failed=int(((kinds & ERROR) > 0).sum()),
        first=spread((column["first"] - column["arrived"])[answered]),
        gap=spread(gaps),
        open=still,
    )


def names_by_serial(record: ModelRecord) -> dict[int, str]:
    """Return the request ids, by serial. The caller holds the record's lock."""
    serials = record.requests.rows()[:, 0]
    oldest = record.requests.dropped
    return {int(serials[row - oldest]): text for row, text in record.ids_since(0)}


def spread(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float]:
    """Return the median and the 95th percentile."""
    if not len(values):
        return float("nan"), float("nan")
    median, high = np.quantile(values, (0.5, 0.95))
    return float(median), float(high)


def cancel_verdict(polls: int, asked: float, noticed: float, end: float, now: float) -> str:
    """Return one sentence about a request that was cancelled; empty if it was not. `end` is 0 while it runs."""
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
