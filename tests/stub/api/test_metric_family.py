from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from tests.stub.fake_bridge import FakeBridge, refusal
from tritonlab.stub._pb_stub.api import metric_family
from tritonlab.stub._pb_stub.api.errors import TritonModelException
from tritonlab.stub._pb_stub.api.metric_family import Metric, MetricFamily

ORPHAN = (
    "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The 'MetricFamily' object should "
    "be deleted AFTER its corresponding 'Metric' objects have been deleted."
)


def deletions(bridge: FakeBridge) -> list[Any]:
    """Return the dead families that the server knows of; wait for those that are on their way."""
    metric_family._reaper.bury()
    return [body for command, body in bridge.calls if command == "METRIC_FAMILY_DEL"]


@pytest.mark.rule("1.14.1")
def test_families_and_metrics_are_made_by_the_server(fake_bridge: FakeBridge) -> None:
    family = MetricFamily(name="n", description="d", kind=MetricFamily.HISTOGRAM)
    family.Metric({"a": "b"}, [1, 2.5])
    family.Metric(buckets=[])
    assert fake_bridge.calls == [
        ("METRIC_FAMILY_NEW", ["n", "d", 2]),
        ("METRIC_NEW", [1, {"a": "b"}, [1.0, 2.5]]),
        ("METRIC_NEW", [1, {}, []]),
    ]


@pytest.mark.rule("1.14.1")
@pytest.mark.parametrize(
    "arguments", [(), ("n", "d"), ("n", "d", 0), (None, "d", MetricFamily.COUNTER), ("n", None, MetricFamily.COUNTER)]
)
def test_arguments_of_other_types(fake_bridge: FakeBridge, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        MetricFamily(*arguments)
    gc.collect()
    assert deletions(fake_bridge) == [] == fake_bridge.calls


@pytest.mark.rule("1.14.2")
def test_operations_carry_floats(fake_bridge: FakeBridge) -> None:
    family = MetricFamily("n", "d", MetricFamily.GAUGE)
    metric = family.Metric()
    fake_bridge.calls.clear()
    fake_bridge.answers["METRIC_OP"] = 3
    metric.increment(True)
    metric.set(np.float32(1.5))
    metric.observe(2)
    value = metric.value()
    assert type(value) is float and value == 3.0
    operations = [body[1:] for _, body in fake_bridge.calls]
    assert operations == [["increment", 1.0], ["set", 1.5], ["observe", 2.0], ["value", 0.0]]
    assert all(type(number) is float for _, number in operations)


@pytest.mark.rule("1.14.2")
@pytest.mark.parametrize("number", ["1", None, [1], 1j])
def test_what_is_no_number_is_refused(fake_bridge: FakeBridge, number: Any) -> None:
    family = MetricFamily("n", "d", MetricFamily.GAUGE)
    metric = family.Metric()
    for operation in (metric.increment, metric.set, metric.observe):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            operation(number)


@pytest.mark.rule("1.14.3")
@pytest.mark.parametrize(
    ("kind", "arguments", "text"),
    [
        (MetricFamily.COUNTER, ([],), "Failed to create metric. Labels must be a dictionary."),
        (MetricFamily.COUNTER, ([], ()), "Failed to create metric. Labels must be a dictionary."),
        (MetricFamily.COUNTER, (None, (1,)), "Failed to create metric. Buckets must be a list."),
        (MetricFamily.GAUGE, (None, [1]), "Failed to create metric. Unexpected buckets found."),
        (MetricFamily.HISTOGRAM, (None,), "Failed to create metric. Missing required buckets."),
    ],
)
def test_labels_and_buckets_are_checked_here(
    fake_bridge: FakeBridge, kind: Any, arguments: tuple[Any, ...], text: str
) -> None:
    family = MetricFamily("n", "d", kind)
    with pytest.raises(TritonModelException) as error:
        family.Metric(*arguments)
    assert str(error.value) == text


@pytest.mark.rule("1.14.3")
def test_bucket_bounds_are_numbers(fake_bridge: FakeBridge) -> None:
    family = MetricFamily("n", "d", MetricFamily.HISTOGRAM)
    with pytest.raises(RuntimeError, match=r"^Unable to cast"):
        family.Metric(buckets=["x"])  # type: ignore[list-item]


@pytest.mark.rule("1.14.4", "1.14.5")
def test_the_servers_refusals_get_tritons_prefix(fake_bridge: FakeBridge) -> None:
    family = MetricFamily("n", "d", MetricFamily.GAUGE)
    metric = family.Metric()
    for command in ("METRIC_FAMILY_NEW", "METRIC_NEW", "METRIC_OP"):
        fake_bridge.answers[command] = refusal("no")
    for attempt, text in (
        (lambda: MetricFamily("n", "d", MetricFamily.GAUGE), "Error when creating MetricFamily: no"),
        (family.Metric, "Error when creating Metric: no"),
        (lambda: metric.increment(1), "Failed to increment metric value: no"),
        (lambda: metric.set(1), "Failed to set metric value: no"),
        (lambda: metric.observe(1), "Failed to observe metric value: no"),
        (metric.value, "Failed to get metric value: no"),
    ):
        with pytest.raises(TritonModelException) as error:
            attempt()
        assert str(error.value) == text


@pytest.mark.rule("1.14.7")
def test_metrics_of_a_dead_family_refuse_to_work(fake_bridge: FakeBridge) -> None:
    family = MetricFamily("n", "d", MetricFamily.GAUGE)
    other = MetricFamily("n", "d", MetricFamily.GAUGE)
    metric, left = family.Metric(), other.Metric()
    del family
    gc.collect()
    assert deletions(fake_bridge) == [[1]]
    with pytest.raises(TritonModelException) as error:
        metric.set(1)
    assert str(error.value) == "Failed to set metric value: " + ORPHAN
    left.set(1)


@pytest.mark.rule("1.14.7")
def test_deleting_a_metric_says_nothing_to_the_server(fake_bridge: FakeBridge) -> None:
    family = MetricFamily("n", "d", MetricFamily.GAUGE)
    metric = family.Metric()
    before = list(fake_bridge.calls)
    del metric
    gc.collect()
    assert deletions(fake_bridge) == [] and fake_bridge.calls == before


@pytest.mark.rule("1.14.7")
def test_a_new_family_waits_for_the_burial_of_the_old_one(fake_bridge: FakeBridge) -> None:
    for _ in range(20):
        family = MetricFamily("n", "d", MetricFamily.GAUGE)
        del family
    MetricFamily("n", "d", MetricFamily.COUNTER)
    commands = [command for command, _ in fake_bridge.calls]
    assert commands[:40] == ["METRIC_FAMILY_NEW", "METRIC_FAMILY_DEL"] * 20


def test_a_destructor_makes_no_call_of_its_own(fake_bridge: FakeBridge) -> None:
    """It may run in the middle of a call to the server, on the very thread that would have to answer."""
    family = MetricFamily("n", "d", MetricFamily.GAUGE)
    with metric_family._reaper._lock:
        del family
        gc.collect()
        assert [command for command, _ in fake_bridge.calls] == ["METRIC_FAMILY_NEW"]
    assert deletions(fake_bridge) == [[1]]


def test_a_server_that_is_gone_stops_no_burial(fake_bridge: FakeBridge) -> None:
    fake_bridge.answers["METRIC_FAMILY_DEL"] = refusal("gone")
    family = MetricFamily("n", "d", MetricFamily.GAUGE)
    del family
    gc.collect()
    assert deletions(fake_bridge) == [[1]]


@pytest.mark.rule("1.18", "1.18.2")
def test_no_metrics_before_the_model_is_initialized(fake_bridge: FakeBridge) -> None:
    fake_bridge.phase = "auto_complete"
    with pytest.raises(TritonModelException, match="MetricFamily is not available during auto_complete_config"):
        MetricFamily("n", "d", MetricFamily.GAUGE)


@pytest.mark.rule("1.1.4")
def test_only_a_family_makes_metrics() -> None:
    with pytest.raises(TypeError, match="No constructor defined!"):
        Metric()
