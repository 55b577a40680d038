"""The traffic that a model answers now, of a record made by hand."""

from __future__ import annotations

import pytest

from tritonlab.profile.model_record import ModelRecord
from tritonlab.profile.traffic import Traffic, traffic

SECOND = 1_000_000_000


def add(record: ModelRecord, ended: float, *waits_ms: float) -> None:
    """Add a batch that ended at so many seconds, of requests that had waited so long."""
    end = ended * SECOND
    for wait in waits_ms:
        record.requests.add((0, end - wait * 1e6, end, record.batches.total, 1, 0))
    record.batches.add((end, end, 0, 0, 1, 1, len(waits_ms), 0, 0, 0, 0, 0, 0))


def test_nothing_was_answered() -> None:
    record = ModelRecord("m")
    assert traffic(record, SECOND) == Traffic(0.0, None, None)
    add(record, 1, 5)
    assert traffic(record, 60 * SECOND) == Traffic(0.0, None, None)


def test_the_last_ten_seconds_count() -> None:
    record = ModelRecord("m")
    add(record, 1, 1000)
    add(record, 95, 1, 2, 3)
    add(record, 99, 4, 5)
    found = traffic(record, 100 * SECOND)
    assert (found.rate, found.p50_ms) == (0.5, pytest.approx(3))
    assert found.p99_ms == pytest.approx(4.96)


def test_requests_whose_batch_is_not_kept_are_left_out() -> None:
    record = ModelRecord("m", events=2)
    for wait in (1, 2, 3):
        add(record, 1, wait, wait)
    assert traffic(record, 2 * SECOND).p50_ms == pytest.approx(3)


def test_of_many_requests_the_last_tell_the_rate() -> None:
    record = ModelRecord("m")
    for number in range(10_000):
        add(record, 90 + number / 1000, 1)
    assert traffic(record, 100 * SECOND).rate == pytest.approx(1000, rel=0.01)
