from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tritonlab.core.metrics.infer_stats import ExecuteTimes, InferStats
from tritonlab.core.metrics.model_metrics import ModelMetrics, model_families
from tritonlab.core.metrics.prometheus_text import render

#: Lines of tritonserver 2.51 for a model with one success, `nv_model_load_duration_secs` of 24.11.
EXPECTED = """\
# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{_tagk="tagv",model="stat",version="1"} 1
# HELP nv_inference_request_failure Number of failed inference requests, all batch sizes
# TYPE nv_inference_request_failure counter
nv_inference_request_failure{_tagk="tagv",model="stat",reason="BACKEND",version="1"} 0
nv_inference_request_failure{_tagk="tagv",model="stat",reason="CANCELED",version="1"} 0
nv_inference_request_failure{_tagk="tagv",model="stat",reason="OTHER",version="1"} 0
nv_inference_request_failure{_tagk="tagv",model="stat",reason="REJECTED",version="1"} 0
# HELP nv_inference_count Number of inferences performed (does not include cached requests)
# TYPE nv_inference_count counter
nv_inference_count{_tagk="tagv",model="stat",version="1"} 2
# HELP nv_inference_exec_count Number of model executions performed (does not include cached requests)
# TYPE nv_inference_exec_count counter
nv_inference_exec_count{_tagk="tagv",model="stat",version="1"} 1
# HELP nv_inference_request_duration_us Cumulative inference request duration in microseconds (includes cached requests)
# TYPE nv_inference_request_duration_us counter
nv_inference_request_duration_us{_tagk="tagv",model="stat",version="1"} 9
# HELP nv_inference_queue_duration_us Cumulative inference queuing duration in microseconds (includes cached requests)
# TYPE nv_inference_queue_duration_us counter
nv_inference_queue_duration_us{_tagk="tagv",model="stat",version="1"} 1
# HELP nv_inference_compute_input_duration_us Cumulative compute input duration in microseconds \
(does not include cached requests)
# TYPE nv_inference_compute_input_duration_us counter
nv_inference_compute_input_duration_us{_tagk="tagv",model="stat",version="1"} 2
# HELP nv_inference_compute_infer_duration_us Cumulative compute inference duration in microseconds \
(does not include cached requests)
# TYPE nv_inference_compute_infer_duration_us counter
nv_inference_compute_infer_duration_us{_tagk="tagv",model="stat",version="1"} 3
# HELP nv_inference_compute_output_duration_us Cumulative inference compute output duration in microseconds \
(does not include cached requests)
# TYPE nv_inference_compute_output_duration_us counter
nv_inference_compute_output_duration_us{_tagk="tagv",model="stat",version="1"} 4
# HELP nv_inference_pending_request_count Instantaneous number of pending requests awaiting execution per-model.
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{_tagk="tagv",model="stat",version="1"} 5
# HELP nv_model_load_duration_secs Model load time in seconds
# TYPE nv_model_load_duration_secs gauge
nv_model_load_duration_secs{_tagk="tagv",model="stat",version="1"} 1.5
"""


def test_lines_of_a_model() -> None:
    stats = InferStats()
    stats.record_batch(2, [1999], [9999], ExecuteTimes(2000, 3000, 4000), 0, 0)
    text = render(model_families([ModelMetrics("stat", 1, stats, 5, {"tagk": "tagv"}, 1_500_000_000)]))
    assert text == EXPECTED


def test_cache_lines_only_where_there_is_a_cache() -> None:
    stats = InferStats()
    stats.record_cache_hit(request_ns=0, queue_ns=0, lookup_ns=63_000, wall_ms=0)
    stats.record_cache_miss(107_000)
    text = render(model_families([ModelMetrics("a", 1, stats), ModelMetrics("b", 1, stats, cached=True)]))
    assert [line for line in text.splitlines() if "nv_cache" in line and not line.startswith("# TYPE")] == [
        "# HELP nv_cache_num_hits_per_model Number of cache hits per model",
        'nv_cache_num_hits_per_model{model="b",version="1"} 1',
        "# HELP nv_cache_hit_duration_per_model Total cache hit duration per model, in microseconds",
        'nv_cache_hit_duration_per_model{model="b",version="1"} 63',
        "# HELP nv_cache_num_misses_per_model Number of cache misses per model",
        'nv_cache_num_misses_per_model{model="b",version="1"} 1',
        "# HELP nv_cache_miss_duration_per_model Total cache miss (insert+lookup) duration per model, in microseconds",
        'nv_cache_miss_duration_per_model{model="b",version="1"} 107',
    ]


def test_models_share_the_families() -> None:
    text = render(model_families([ModelMetrics("a", 1, InferStats()), ModelMetrics("a", 2, InferStats())]))
    found = {family.name: family for family in text_string_to_metric_families(text)}
    assert [s.labels["version"] for s in found["nv_inference_count"].samples] == ["1", "2"]


def test_no_models_no_lines() -> None:
    assert render(model_families([])) == ""
