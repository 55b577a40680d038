"""The autoscaler's metric, evaluated on two scrapes of /metrics as prometheus-adapter would have Prometheus do it."""

from __future__ import annotations

import math

import pytest

from tritonlab.tools.deploy.manifests.files import METRIC, TARGET_MICROSECONDS, deploy_files, of_models

from .deployments import deployment, read
from .promql import Prometheus, Value, read_metrics

POD = {"namespace": "default", "pod": "p-1"}


def scrape(**models: tuple[int, int]) -> str:
    """Return the text of Triton for successful requests and microseconds in the queue, by model. None waits."""
    waiting = "".join(f'nv_inference_pending_request_count{{model="{model}",version="1"}} 0\n' for model in models)
    rows = [("nv_inference_request_success", 0), ("nv_inference_queue_duration_us", 1), ("nv_inference_exec_count", 0)]
    return waiting + "".join(
        f'# TYPE {name} counter\n{name}{{model="{model}",version="1"}} {numbers[place]}\n'
        for name, place in rows
        for model, numbers in models.items()
    )


def queue_time(before: str, after: str, query: str = "") -> Value:
    (rule,) = read(deploy_files(deployment(), ["k8s"])["deploy/monitoring/prometheus-adapter.yaml"])["rules"]["custom"]
    labels = ",".join(f'{name}="{value}"' for name, value in POD.items())
    expression = (query or rule["metricsQuery"]).replace("<<.LabelMatchers>>", labels).replace("<<.GroupBy>>", "pod")
    data = Prometheus(read_metrics(before, **POD), read_metrics(after, **POD))
    value = data.evaluate(expression)
    assert isinstance(value, dict)
    return value.get(frozenset({("pod", "p-1")}), math.nan)


def replicas(value: Value, now: int = 1) -> int:
    """Return how many pods the autoscaler wants, with its tolerance of a tenth."""
    hpa = read(deploy_files(deployment(), ["k8s"])["deploy/k8s/overlays/prometheus/hpa.yaml"])["spec"]
    target = int(hpa["metrics"][0]["pods"]["target"]["averageValue"])
    assert isinstance(value, float) and target == TARGET_MICROSECONDS
    ratio = value / target
    wanted = now if abs(ratio - 1) <= 0.1 else math.ceil(now * ratio)
    return max(hpa["minReplicas"], min(wanted, hpa["maxReplicas"]))


BEFORE = scrape(busy=(100, 5_000), idle=(7, 70))
WAITING = scrape(busy=(160, 5_000 + 60 * 120_000), idle=(7, 70))


def test_a_model_that_idles_does_not_hide_one_that_waits() -> None:
    assert queue_time(BEFORE, WAITING) == 120_000
    assert replicas(queue_time(BEFORE, WAITING)) == 3


def test_a_model_that_is_fast_does_not_dilute_one_that_waits() -> None:
    after = scrape(busy=(160, 5_000 + 60 * 120_000), idle=(60_007, 70))
    assert queue_time(BEFORE, after) == 120_000


def test_models_that_all_idle_have_a_queue_time_of_none() -> None:
    """Not no value at all: the autoscaler could not scale down without one."""
    assert queue_time(BEFORE, BEFORE) == 0 and replicas(queue_time(BEFORE, BEFORE), now=4) == 1


def test_one_request_a_minute_is_not_understated() -> None:
    assert queue_time(BEFORE, scrape(busy=(101, 5_000 + 90_000), idle=(7, 70))) == pytest.approx(90_000)


@pytest.mark.parametrize(
    "query",
    [
        # what charts have: a mean over models, whose value is NaN while one idles
        "avg by (<<.GroupBy>>) (rate(nv_inference_queue_duration_us{<<.LabelMatchers>>}[1m])"
        " / rate(nv_inference_request_success{<<.LabelMatchers>>}[1m]))",
        "avg by (<<.GroupBy>>) (rate(nv_inference_queue_duration_us{<<.LabelMatchers>>}[1m])"
        " / clamp_min(rate(nv_inference_request_success{<<.LabelMatchers>>}[1m]), 0.001))",
    ],
)
def test_a_mean_over_models_is_wrong_and_seen_to_be(query: str) -> None:
    assert queue_time(BEFORE, WAITING, query) != 120_000


@pytest.mark.parametrize("name", ["a.b", "a+b", 'q"', "a|b", "back\\slash", "(x)"])
def test_models_are_selected_by_their_very_names(name: str) -> None:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    text = f'm{{model="{escaped}"}} 1\nm{{model="other"}} 2\nm{{model="axb"}} 3\n'
    data = Prometheus({}, read_metrics(text))
    assert data.evaluate(f"sum(m{of_models([name])})") == {frozenset(): 1.0}
    assert data.evaluate(f"sum(m{of_models([name, 'other'])})") == {frozenset(): 3.0}


def test_the_metric_has_a_name_that_no_series_of_triton_has() -> None:
    assert not METRIC.startswith("nv_")
