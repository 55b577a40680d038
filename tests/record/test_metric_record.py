from __future__ import annotations

import pytest

from tritonlab.record import metric_record
from tritonlab.record.metric_record import MetricRecord


def test_families_can_be_read_while_models_make_metrics() -> None:
    record = MetricRecord()
    record.describe("a_total", "counter", "about a")
    for name, described in record.families.items():  # as a view and `save` do, without the lock
        record.describe("b", "gauge", "about b")
        assert (name, described) == ("a_total", ("counter", "about a"))
    assert list(record.families) == ["a_total", "b"]


def test_further_series_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_record, "SERIES", 1)
    record = MetricRecord()
    for value in (1.0, 2.0):
        for label in ("x", "y"):
            record.add("a", {"l": label}, value, 0)
    assert [len(ring) for ring in record.series().values()] == [2] and record.refused == 2
