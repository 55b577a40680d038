"""The numbers of a record about a model's batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .model_record import BATCHES, REJECTED, REJECTIONS, ModelRecord
from .stream_facts import spread

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


def column(rows: Numbers, name: str) -> Numbers:
    """Return one column of rows of BATCHES."""
    return rows[:, BATCHES.index(name)]


def batch_facts(record: ModelRecord) -> BatchFacts:
    with record.lock:
        batches, requests = record.batches.rows(), record.requests.rows()
        oldest, words, dropped = record.batches.dropped, record.words.lists()["reason"], record.dropped
        ended = record.rejected.rows()[:, REJECTED.index("reason")].astype(int).tolist()
    start, end = column(batches, "start"), column(batches, "end")
    places = requests[:, record.requests.columns.index("batch")].astype(np.int64) - oldest
    known = places >= 0
    waited = start[places[known]] - requests[known, record.requests.columns.index("queued")]
    sizes = Counter(column(batches, "size").astype(int).tolist())
    reasons = Counter(words[number] if number >= 0 else "" for number in column(batches, "reason").astype(int).tolist())
    return BatchFacts(
        batches=len(batches),
        requests=int(column(batches, "count").sum()),
        failed=int(column(batches, "failed").sum()),
        sizes=dict(sorted(sizes.items())),
        reasons=dict(reasons.most_common()),
        queue=spread(waited),
        compute=spread(end - start),
        span=float(end.max() - start.min()) if len(batches) else 0.0,
        rejected={REJECTIONS[number]: count for number, count in Counter(ended).most_common()},
        dropped=dropped,
    )
