from __future__ import annotations

from typing import Any

import pytest

from tritonlab.tritonserver import (
    InvalidArgumentError,
    Metric,
    MetricFamily,
    MetricKind,
    NotFoundError,
    Server,
    UnsupportedError,
)


@pytest.mark.rule("6.16.7")
def test_a_counter_and_a_gauge(server: Server) -> None:
    requests = MetricFamily(MetricKind.COUNTER, "asked_total", "How often")
    level = MetricFamily(MetricKind.GAUGE, "level", "How high")
    counter, gauge = Metric(requests, {"who": "me"}), Metric(level)
    counter.increment(2)
    gauge.set_value(1.5)
    gauge.increment(-1)
    assert (counter.value, gauge.value, counter.kind, gauge.kind) == (2, 0.5, MetricKind.COUNTER, MetricKind.GAUGE)
    text = server.metrics()
    assert '# HELP asked_total How often\n# TYPE asked_total counter\nasked_total{who="me"} 2\n' in text
    assert "# TYPE level gauge\nlevel 0.5\n" in text
    with pytest.raises(UnsupportedError, match="TRITONSERVER_METRIC_KIND_COUNTER does not support Set"):
        counter.set_value(1)
    with pytest.raises(InvalidArgumentError, match="can only be incremented monotonically by non-negative values"):
        counter.increment(-1)
    with pytest.raises(TypeError):
        gauge.set_value("1")  # type: ignore[arg-type]


@pytest.mark.rule("6.16.7")
def test_metrics_go_one_by_one_and_with_their_family(server: Server) -> None:
    family = MetricFamily(MetricKind.GAUGE, "going", "")
    first, twin, other = Metric(family, {"a": "1"}), Metric(family, {"a": "1"}), Metric(family, {"a": "2"})
    twin.set_value(3)
    assert first.value == 3
    del first
    assert 'going{a="1"} 3' in server.metrics()
    del twin
    assert 'going{a="1"}' not in server.metrics() and 'going{a="2"} 0' in server.metrics()
    del family
    assert "going" not in server.metrics()
    with pytest.raises(NotFoundError, match="the corresponding 'MetricFamily' has been deleted"):
        other.set_value(1)


@pytest.mark.parametrize(
    ("kind", "name", "description", "error"),
    [
        ("gauge", "x", "", TypeError),
        (MetricKind.GAUGE, 1, "", TypeError),
        (MetricKind.GAUGE, "x", None, TypeError),
        (MetricKind.GAUGE, "1x", "", InvalidArgumentError),
        (MetricKind.GAUGE, "nv_inference_count", "", InvalidArgumentError),
    ],
)
def test_what_is_no_family(kind: Any, name: Any, description: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        MetricFamily(kind, name, description)


@pytest.mark.parametrize(
    ("labels", "error"), [({"a": 1}, InvalidArgumentError), ({"a": None}, TypeError), ({1: "a"}, TypeError)]
)
def test_what_is_no_label(labels: Any, error: type[Exception]) -> None:
    family = MetricFamily(MetricKind.GAUGE, "labelled", "")
    with pytest.raises(error):
        Metric(family, labels)
    with pytest.raises(TypeError):
        Metric("labelled")  # type: ignore[arg-type]
