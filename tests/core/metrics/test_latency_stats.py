from __future__ import annotations

from tritonlab.core.metrics.infer_stats import ExecuteTimes
from tritonlab.core.metrics.latency_stats import SUMMARIZED, Histogram, LatencyStats
from tritonlab.core.metrics.metrics_config import MetricsConfig
from tritonlab.core.metrics.model_metrics import ModelMetrics, model_families
from tritonlab.core.metrics.prometheus_text import render

LABELS = (("model", "m"),)


def make() -> LatencyStats:
    return LatencyStats(((0.5, 0.05),), lambda: 0)


def counts(stats: LatencyStats) -> dict[str, tuple[float, float]]:
    """Return count and sum of each summary."""
    lines = {name: stats.summary(name, LABELS) for name in SUMMARIZED}
    return {name: (found[0][2], found[1][2]) for name, found in lines.items()}


def test_each_request_of_a_batch_is_observed_in_microseconds() -> None:
    stats = make()
    stats.record_batch(2, [1999, 3000], [9999, 8000], ExecuteTimes(2000, 3000, 4000), 0, 0)
    assert counts(stats) == {
        "request": (2, 17),
        "queue": (2, 4),
        "compute_input": (2, 4),
        "compute_infer": (2, 6),
        "compute_output": (2, 8),
        "cache_hit": (0, 0),
        "cache_miss": (0, 0),
    }
    assert stats.to_dict("m", 1)["inference_count"] == 2


def test_failures_are_not_observed() -> None:
    stats = make()
    stats.record_batch(1, [1000], [2000], ExecuteTimes(1, 1, 1), 1, 0)
    stats.record_rejected("REJECTED", 5000)
    assert set(counts(stats).values()) == {(0, 0)}


def test_cached_answers() -> None:
    stats = make()
    stats.record_cache_hit(5000, 1000, 3000, 0)
    stats.record_cache_miss(7000)
    found = counts(stats)
    assert (found["request"], found["queue"], found["cache_hit"], found["cache_miss"]) == (
        (1, 5),
        (1, 1),
        (1, 3),
        (1, 7),
    )
    assert found["compute_infer"] == (0, 0)


def test_lines_of_a_summary() -> None:
    stats = make()
    config = MetricsConfig(counter_latencies=False, summary_latencies=True)
    text = render(model_families([ModelMetrics("m", 1, stats)], config))
    assert "_duration_" not in text
    assert "nv_cache" not in text
    assert (
        """\
# HELP nv_inference_queue_summary_us Summary of inference queuing duration in microseconds (includes cached requests)
# TYPE nv_inference_queue_summary_us summary
nv_inference_queue_summary_us_count{model="m",version="1"} 0
nv_inference_queue_summary_us_sum{model="m",version="1"} 0
nv_inference_queue_summary_us{model="m",version="1",quantile="0.5"} Nan
"""
        in text
    )
    stats.record_batch(1, [7000], [9000], ExecuteTimes(0, 0, 0), 0, 0)
    cached = render(model_families([ModelMetrics("m", 1, stats, cached=True)], config))
    assert 'nv_inference_queue_summary_us{model="m",version="1",quantile="0.5"} 7\n' in cached
    assert 'nv_cache_hit_summary_per_model_count{model="m",version="1"} 0\n' in cached
    assert "nv_cache_num_hits_per_model" not in cached  # with the counters of durations, as on Triton


def test_lines_of_a_histogram() -> None:
    histogram = Histogram([-1, 100])
    for value in (-2, 0.5, 100, 101):
        histogram.observe(value)
    text = render(model_families([ModelMetrics("m", 1, make(), first_response=histogram)]))
    assert (
        """\
# HELP nv_inference_first_response_histogram_ms Duration from request to first response in milliseconds
# TYPE nv_inference_first_response_histogram_ms histogram
nv_inference_first_response_histogram_ms_count{model="m",version="1"} 4
nv_inference_first_response_histogram_ms_sum{model="m",version="1"} 199.5
nv_inference_first_response_histogram_ms_bucket{model="m",version="1",le="-1"} 1
nv_inference_first_response_histogram_ms_bucket{model="m",version="1",le="100"} 3
nv_inference_first_response_histogram_ms_bucket{model="m",version="1",le="+Inf"} 4
"""
        in text
    )
