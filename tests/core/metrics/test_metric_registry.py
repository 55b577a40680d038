from __future__ import annotations

import pytest

from tritonlab.core.metrics.infer_stats import InferStats
from tritonlab.core.metrics.metric_registry import COUNTER, GAUGE, HISTOGRAM, MetricRegistry
from tritonlab.core.metrics.model_metrics import ModelMetrics
from tritonlab.core.metrics.prometheus_text import PrintedFamily
from tritonlab.core.status import TritonError

GONE = (
    "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The 'MetricFamily' object should "
    "be deleted AFTER its corresponding 'Metric' objects have been deleted."
)


@pytest.fixture
def registry() -> MetricRegistry:
    return MetricRegistry()


def refused(text: str) -> pytest.RaisesExc[TritonError]:
    return pytest.RaisesExc(TritonError, check=lambda error: error.message == text)


@pytest.mark.parametrize("name", ["__x", "9x", "", "a-b", "é", "a\n", "nv inference"])
def test_bad_family_names(registry: MetricRegistry, name: str) -> None:
    with refused("Invalid metric name"):
        registry.family(name, "d", COUNTER)
    registry.family("a:b_9", "d", COUNTER)


@pytest.mark.parametrize("name", ["__x", "a-b", "", "a:b", "9"])
def test_bad_label_names(registry: MetricRegistry, name: str) -> None:
    family = registry.family("f", "d", COUNTER)
    with refused("Invalid label name"):
        registry.metric(family, {name: "x"}, None)


def test_label_values_must_be_text(registry: MetricRegistry) -> None:
    family = registry.family("f", "d", COUNTER)
    with refused("attempt to access JSON non-string as string"):
        registry.metric(family, {"a": 1}, None)


@pytest.mark.parametrize("buckets", [[1.0, 1.0], [2.0, 1.0]])
def test_buckets_must_rise(registry: MetricRegistry, buckets: list[float]) -> None:
    family = registry.family("f", "d", HISTOGRAM)
    with refused("Bucket Boundaries must be strictly sorted"):
        registry.metric(family, None, buckets)


def test_one_name_one_kind(registry: MetricRegistry) -> None:
    registry.family("f", "d", COUNTER)
    with refused("Family name already exists with different type"):
        registry.family("f", "d", GAUGE)
    with refused("Family name already exists with different type"):
        registry.family("nv_inference_count", "d", GAUGE)


def test_a_refused_family_leaves_nothing_behind(registry: MetricRegistry) -> None:
    with refused("Family name already exists with different type"):
        registry.family("nv_inference_count", "d", GAUGE)
    registry.family("nv_inference_count", "d", COUNTER)


#: rule 1.14.2: what each kind can do
SUPPORTED = {COUNTER: {"increment", "value"}, GAUGE: {"increment", "set", "value"}, HISTOGRAM: {"observe"}}


@pytest.mark.parametrize("operation", ["increment", "set", "observe", "value"])
@pytest.mark.parametrize("kind", [COUNTER, GAUGE, HISTOGRAM])
def test_operations_by_kind(registry: MetricRegistry, kind: int, operation: str) -> None:
    buckets = [1.0] if kind == HISTOGRAM else None
    metric = registry.metric(registry.family("f", "d", kind), None, buckets)
    if operation in SUPPORTED[kind]:
        registry.operate(metric, operation, 2)
        return
    name = ("COUNTER", "GAUGE", "HISTOGRAM")[kind]
    with refused(f"TRITONSERVER_METRIC_KIND_{name} does not support {operation.capitalize()}"):
        registry.operate(metric, operation, 2)


def test_a_counter_only_rises(registry: MetricRegistry) -> None:
    metric = registry.metric(registry.family("f", "d", COUNTER), None, None)
    registry.operate(metric, "increment", 1.5)
    with refused("TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values."):
        registry.operate(metric, "increment", -1)
    registry.operate(metric, "increment", 0)
    assert registry.operate(metric, "value") == 1.5


def test_a_gauge_goes_anywhere(registry: MetricRegistry) -> None:
    metric = registry.metric(registry.family("f", "d", GAUGE), {"a": "x"}, None)
    assert registry.operate(metric, "value") == 0
    registry.operate(metric, "increment", -1.5)
    assert registry.operate(metric, "value") == -1.5
    assert registry.operate(metric, "set", 4) is None
    assert registry.expose() == '# HELP f d\n# TYPE f gauge\nf{a="x"} 4\n'


def test_histogram_lines_are_tritons(registry: MetricRegistry) -> None:
    family = registry.family("my_hist", "h", HISTOGRAM)
    labelled = registry.metric(family, {"x": "y"}, [0.5, 1, 2.5])
    plain = registry.metric(family, None, [])
    for value in (0.1, 0.5, 0.7, 3):
        registry.operate(labelled, "observe", value)
        registry.operate(plain, "observe", value)
    assert (
        registry.expose()
        == """\
# HELP my_hist h
# TYPE my_hist histogram
my_hist_count{x="y"} 4
my_hist_sum{x="y"} 4.3
my_hist_bucket{x="y",le="0.5"} 2
my_hist_bucket{x="y",le="1"} 3
my_hist_bucket{x="y",le="2.5"} 3
my_hist_bucket{x="y",le="+Inf"} 4
my_hist_count 4
my_hist_sum 4.3
my_hist_bucket{le="+Inf"} 4
"""
    )


def test_a_histogram_survives_what_is_no_number(registry: MetricRegistry) -> None:
    metric = registry.metric(registry.family("h", "h", HISTOGRAM), None, [1])
    registry.operate(metric, "observe", float("nan"))
    registry.operate(metric, "observe", float("inf"))
    assert 'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 2\n' in registry.expose()


def test_same_name_and_labels_share_the_value_across_models(registry: MetricRegistry) -> None:
    """Rule 1.14.6."""
    first = registry.metric(registry.family("f", "first", COUNTER), {"a": "1", "b": "2"}, None)
    second = registry.metric(registry.family("f", "second", COUNTER), {"b": "2", "a": "1"}, None)
    registry.operate(first, "increment", 1)
    registry.operate(second, "increment", 2)
    assert registry.operate(first, "value") == 3
    assert registry.expose() == '# HELP f first\n# TYPE f counter\nf{a="1",b="2"} 3\n'


def test_the_first_buckets_stay(registry: MetricRegistry) -> None:
    family = registry.family("f", "d", HISTOGRAM)
    registry.metric(family, {"a": "x"}, [1.0])
    second = registry.metric(family, {"a": "x"}, [2.0])
    registry.operate(second, "observe", 1.5)
    assert registry.buckets(second) == [1.0]
    assert 'f_bucket{a="x",le="1"} 0' in registry.expose()
    assert 'le="2"' not in registry.expose()


def test_a_deleted_family_takes_its_metrics_along(registry: MetricRegistry) -> None:
    """Rule 1.14.7."""
    family = registry.family("f", "d", GAUGE)
    metric = registry.metric(family, None, None)
    registry.delete_family(family)
    assert registry.expose() == ""
    with refused(GONE):
        registry.operate(metric, "set", 1)
    with refused(GONE):
        registry.metric(family, None, None)
    registry.delete_family(family)  # its stub died and was cleaned up: no error
    # the name is free for another kind, and starts at zero
    assert registry.operate(registry.metric(registry.family("f", "d", COUNTER), None, None), "value") == 0


def test_a_sample_goes_with_the_last_family_object_that_made_it(registry: MetricRegistry) -> None:
    """Measured on 2.51 with two MetricFamily objects of one name."""
    first = registry.family("f", "d", GAUGE)
    second = registry.family("f", "d2", GAUGE)
    registry.metric(first, {"a": "x"}, None)
    shared = registry.metric(first, {"s": "x"}, None)
    registry.metric(second, {"s": "x"}, None)
    registry.metric(second, {"b": "x"}, None)
    registry.operate(shared, "set", 7)
    registry.delete_family(first)
    assert registry.expose() == '# HELP f d\n# TYPE f gauge\nf{s="x"} 7\nf{b="x"} 0\n'


def test_changes_are_reported_with_the_new_value() -> None:
    changes: list[tuple[str, dict[str, str], float]] = []
    registry = MetricRegistry(lambda name, labels, value: changes.append((name, dict(labels), value)))
    counter = registry.metric(registry.family("c", "d", COUNTER), {"a": "x"}, None)
    histogram = registry.metric(registry.family("h", "d", HISTOGRAM), None, [1])
    registry.operate(counter, "increment", 2)
    registry.operate(counter, "increment", 3)
    registry.operate(histogram, "observe", 4)
    registry.operate(histogram, "observe", 4)
    registry.operate(counter, "value")
    with pytest.raises(TritonError):
        registry.operate(counter, "set", 1)
    assert changes == [("c", {"a": "x"}, 2), ("c", {"a": "x"}, 5), ("h", {}, 4), ("h", {}, 4)]


def test_a_family_without_metrics_is_left_out(registry: MetricRegistry) -> None:
    registry.family("f", "d", GAUGE)
    assert registry.expose() == ""


def test_everything_is_in_one_text(registry: MetricRegistry) -> None:
    registry.operate(
        registry.metric(registry.family("nv_inference_count", "d", COUNTER), {"a": "x"}, None), "increment", 3
    )
    text = registry.expose(
        [ModelMetrics("m", 1, InferStats())], [PrintedFamily("nv_cpu_utilization", "gauge", "CPU", [("", [], 0.5)])]
    )
    assert text.count("# TYPE nv_inference_count counter") == 1
    assert 'nv_inference_count{model="m",version="1"} 0\nnv_inference_count{a="x"} 3\n' in text
    assert text.endswith("# HELP nv_cpu_utilization CPU\n# TYPE nv_cpu_utilization gauge\nnv_cpu_utilization 0.5\n")


def test_what_a_model_made(registry: MetricRegistry) -> None:
    handles = {model: registry.family("f", "d", COUNTER, model) for model in ("one", "two")}
    for model, handle in handles.items():
        registry.metric(handle, {"by": model}, None)
        registry.metric(handle, {"by": "all"}, None)
    assert registry.expose(of_model="one").splitlines()[-2:] == ['f{by="one"} 0', 'f{by="all"} 0']
    registry.delete_family(handles["one"])
    assert registry.expose(of_model="one") == ""
    assert registry.expose(of_model="two").splitlines()[-2:] == ['f{by="all"} 0', 'f{by="two"} 0']


def test_metrics_of_one_model_are_those_that_name_it(registry: MetricRegistry) -> None:
    family = registry.family("f", "d", GAUGE, "two")
    for labels in ({"model": "one"}, {"submodel": "one"}):
        registry.metric(family, labels, None)
    models = [ModelMetrics(name, 1, InferStats()) for name in ("one", "other")]
    lines = [line for line in registry.expose(models, of_model="one").splitlines() if not line.startswith("#")]
    assert 'f{model="one"} 0' in lines and len(lines) > 10
    assert all('{model="one"' in line or ',model="one"' in line for line in lines)
