"""The `nv_` metrics that every model has, from its statistics (rules 5.13.1 to 5.13.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .infer_stats import InferStats
from .latency_stats import Histogram, LatencyStats
from .metrics_config import FIRST_RESPONSE, MetricsConfig
from .prometheus_text import PrintedFamily, Sample


class ModelMetrics(NamedTuple):
    """The values of one model version for `expose`.

    `tags`: `metric_tags` of its configuration. `cached`: whether it uses the response cache. `first_response`: the
    times until the first response, in milliseconds. `gpu_uuid`: the UUID of the GPU shared by all its instances.
    """

    name: str
    version: int
    stats: InferStats
    pending: int = 0
    tags: Mapping[str, str] = {}
    load_ns: int = 0
    cached: bool = False
    first_response: Histogram | None = None
    gpu_uuid: str = ""
    namespace: str = ""


#: Counters that `counter_latencies=false` removes (measured).
_LATENCIES = ("_duration_", "nv_cache_")


def model_families(models: Iterable[ModelMetrics], config: MetricsConfig | None = None) -> list[PrintedFamily]:
    """Return one family per metric with the samples of all `models`. `metric_tags` are labels that begin with `_`."""
    config = config or MetricsConfig()
    printed = [row for row in _PER_MODEL if config.counter_latencies or not any(part in row[1] for part in _LATENCIES)]
    families = [PrintedFamily(name, kind, text) for kind, name, text, _ in printed]
    first_responses = PrintedFamily(
        FIRST_RESPONSE, "histogram", "Duration from request to first response in milliseconds"
    )
    summaries = [PrintedFamily(name, "summary", text) for name, text, _ in _SUMMARIES]
    for model in models:
        tags = [(f"_{name}", value) for name, value in model.tags.items()]
        gpu = [("gpu_uuid", model.gpu_uuid)] if model.gpu_uuid else []
        gpu += [("namespace", model.namespace)] if model.namespace else []
        labels = sorted([*tags, *gpu, ("model", model.name), ("version", str(model.version))])
        stats = model.stats.to_dict(model.name, model.version)
        for family, (_, _, _, read) in zip(families, printed, strict=True):
            family.samples += [("", _with(labels, extra), value) for extra, value in read(model, stats)]
        if model.first_response is not None:
            first_responses.samples += model.first_response.samples(labels)
        for family, (_, _, phase) in zip(summaries, _SUMMARIES, strict=True):
            family.samples += _summary(model, phase, labels)
    return [*families, first_responses, *summaries]


def _summary(model: ModelMetrics, phase: str, labels: Sequence[tuple[str, str]]) -> list[Sample]:
    if not isinstance(model.stats, LatencyStats):
        return []
    # a model with the response cache has no summary of whole requests (measured)
    if (phase == "request" and model.cached) or (phase.startswith("cache") and not model.cached):
        return []
    return model.stats.summary(phase, labels)


def _with(labels: list[tuple[str, str]], extra: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return `labels` with `extra`, sorted by name as Triton prints them."""
    return sorted([*labels, *extra.items()]) if extra else labels


_Reader = Callable[[ModelMetrics, dict[str, Any]], Iterable[tuple[Mapping[str, str], float]]]


def _total(field_name: str) -> _Reader:
    return lambda model, stats: [({}, stats[field_name])]


def _count(phase: str) -> _Reader:
    return lambda model, stats: [({}, stats["inference_stats"][phase]["count"])]


def _micros(phase: str) -> _Reader:
    return lambda model, stats: [({}, stats["inference_stats"][phase]["ns"] // 1000)]


def _if_cached(read: _Reader) -> _Reader:
    return lambda model, stats: read(model, stats) if model.cached else ()


def _failures(model: ModelMetrics, stats: dict[str, Any]) -> Iterable[tuple[Mapping[str, str], float]]:
    return [({"reason": reason}, count) for reason, count in model.stats.failures().items()]


_CACHED, _NOT_CACHED = "(includes cached requests)", "(does not include cached requests)"

#: The counters of rule 5.13.1: name, help text, and the function that reads a model's numbers.
_COUNTERS: tuple[tuple[str, str, _Reader], ...] = (
    ("nv_inference_request_success", "Number of successful inference requests, all batch sizes", _count("success")),
    ("nv_inference_request_failure", "Number of failed inference requests, all batch sizes", _failures),
    ("nv_inference_count", f"Number of inferences performed {_NOT_CACHED}", _total("inference_count")),
    ("nv_inference_exec_count", f"Number of model executions performed {_NOT_CACHED}", _total("execution_count")),
    (
        "nv_inference_request_duration_us",
        f"Cumulative inference request duration in microseconds {_CACHED}",
        _micros("success"),
    ),
    (
        "nv_inference_queue_duration_us",
        f"Cumulative inference queuing duration in microseconds {_CACHED}",
        _micros("queue"),
    ),
    (
        "nv_inference_compute_input_duration_us",
        f"Cumulative compute input duration in microseconds {_NOT_CACHED}",
        _micros("compute_input"),
    ),
    (
        "nv_inference_compute_infer_duration_us",
        f"Cumulative compute inference duration in microseconds {_NOT_CACHED}",
        _micros("compute_infer"),
    ),
    (
        "nv_inference_compute_output_duration_us",
        f"Cumulative inference compute output duration in microseconds {_NOT_CACHED}",
        _micros("compute_output"),
    ),
    ("nv_cache_num_hits_per_model", "Number of cache hits per model", _if_cached(_count("cache_hit"))),
    (
        "nv_cache_hit_duration_per_model",
        "Total cache hit duration per model, in microseconds",
        _if_cached(_micros("cache_hit")),
    ),
    ("nv_cache_num_misses_per_model", "Number of cache misses per model", _if_cached(_count("cache_miss"))),
    (
        "nv_cache_miss_duration_per_model",
        "Total cache miss (insert+lookup) duration per model, in microseconds",
        _if_cached(_micros("cache_miss")),
    ),
)
_GAUGES: tuple[tuple[str, str, _Reader], ...] = (
    (
        "nv_inference_pending_request_count",
        "Instantaneous number of pending requests awaiting execution per-model.",
        lambda model, stats: [({}, model.pending)],
    ),
    ("nv_model_load_duration_secs", "Model load time in seconds", lambda model, stats: [({}, model.load_ns / 1e9)]),
)
_PER_MODEL = [(kind, *row) for kind, rows in (("counter", _COUNTERS), ("gauge", _GAUGES)) for row in rows]

#: The summaries of rule 5.13.3: name, help text, and the name of the durations.
_SUMMARIES: tuple[tuple[str, str, str], ...] = (
    ("nv_inference_request_summary_us", f"Summary of inference request duration in microseconds {_CACHED}", "request"),
    ("nv_inference_queue_summary_us", f"Summary of inference queuing duration in microseconds {_CACHED}", "queue"),
    (
        "nv_inference_compute_input_summary_us",
        f"Cumulative compute input duration in microseconds {_NOT_CACHED}",
        "compute_input",
    ),
    (
        "nv_inference_compute_infer_summary_us",
        f"Cumulative compute inference duration in microseconds {_NOT_CACHED}",
        "compute_infer",
    ),
    (
        "nv_inference_compute_output_summary_us",
        f"Cumulative inference compute output duration in microseconds {_NOT_CACHED}",
        "compute_output",
    ),
    (
        "nv_cache_hit_summary_per_model",
        "Summary of cache hit counts/durations per model, in microseconds.",
        "cache_hit",
    ),
    (
        "nv_cache_miss_summary_per_model",
        "Summary of cache miss counts/durations per model, in microseconds.",
        "cache_miss",
    ),
)

#: A custom metric with one of these names joins the family if it is of the same kind.
MODEL_METRIC_KINDS = {name: kind for kind, name, _, _ in _PER_MODEL}
