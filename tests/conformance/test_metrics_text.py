"""Statistics and metrics (rules 5.12, 5.13): the same requests to both servers, then what each reports of them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.models import answers, executes
from tritonlab.core.metrics.metrics_config import MetricsConfig

from .clients import Client, Failure, Options
from .models import CPU, ECHO, config, model
from .observed import serving
from .rules import rule
from .scripts import eventually
from .test_trace import RAISES, REFUSES, TWICE

IO = ("IN INT32 -1", "IN INT32 -1")
BATCHED = "max_batch_size: 8"

#: Waits for as many milliseconds as its input has.
SLEEPS = answers("x", writes="IN", first="time.sleep(x.flat[0] / 1000)", imports="import time")

MEASURES = executes(
    """
    return [pb_utils.InferenceResponse([pb_utils.Tensor("IN", r.inputs()[0].as_numpy())]) for r in requests]
    """,
    initialize="""
    self.families = [
        pb_utils.MetricFamily(name=f"own_{name}", description=name, kind=kind)
        for name, kind in (
            ("gauge", pb_utils.MetricFamily.GAUGE),
            ("counter", pb_utils.MetricFamily.COUNTER),
            ("histogram", pb_utils.MetricFamily.HISTOGRAM),
        )
    ]
    more = ({}, {}, {"buckets": [1.5]})
    self.metrics = [f.Metric(labels={"b": "2", "a": "1"}, **m) for f, m in zip(self.families, more)]
    self.metrics[2].observe(float("nan"))
    """,
)

QUEUE = """
max_batch_size: 1
dynamic_batching { default_queue_policy {
  default_timeout_microseconds: 60000000 allow_timeout_override: true max_queue_size: 2
} }
"""
TAGS = 'metric_tags { key: "team" value: "a" } metric_tags { key: "Zone" value: "b" }'

MODELS = {
    "fine": model(ECHO, config(*IO, BATCHED, CPU)),
    "raises": model(RAISES, config(*IO, BATCHED, CPU)),
    "refuses": model(REFUSES, config(*IO, BATCHED, CPU)),
    "twice": model(TWICE, config(*IO, BATCHED, CPU, "model_transaction_policy { decoupled: true }")),
    "sleeps": model(SLEEPS, config(*IO, QUEUE, CPU)),
    "tagged": model(ECHO, config(*IO, BATCHED, CPU, TAGS)),
    "cached": model(ECHO, config(*IO, BATCHED, CPU, "response_cache { enable: true }")),  # of a server without a cache
    "measures": model(MEASURES, config(*IO, BATCHED, CPU)),
}


@pytest.fixture(scope="module", params=["real", "lab"])
def program(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def used(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Return a server whose models have had their requests."""
    arguments = ["--metrics-config=summary_latencies=true", "--metrics-interval-ms=100"]
    options = {"metrics_config": MetricsConfig(summary_latencies=True, interval_ms=0)}
    with serving(program, tmp_path_factory.mktemp("used"), MODELS, arguments, **options) as client:
        for name in ("fine", "raises", "refuses", "tagged"):
            client.infer(name, numbers(1, 2))
            client.infer(name, numbers(3))
        client.infer("fine", {"IN": np.zeros((3, 2), np.int32)})
        client.infer("fine", {"IN": np.zeros((3, 2), np.float32)})  # refused
        client.stream("twice", numbers(1))
        fill_the_queue(client)
        yield client


def numbers(*values: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"IN": np.array([values], np.int32)}


def fill_the_queue(client: Client) -> None:
    """Send four requests: one executes, one waits too long, one is cancelled while it waits, one finds the queue
    full."""
    first = client.submit("sleeps", numbers(1000))
    eventually(lambda: pending(client) == 0 and client.statistics("sleeps") is not None)
    time.sleep(0.2)  # it executes; nothing tells it on Triton
    late, gone = client.submit("sleeps", numbers(0), Options(timeout=100_000)), client.submit("sleeps", numbers(0))
    eventually(lambda: pending(client) == 2)
    assert client.infer("sleeps", numbers(0)).code == "UNAVAILABLE"
    gone.cancel()
    assert first.answer.result(60).error == ""
    assert late.answer.result(60).code == "UNAVAILABLE"
    eventually(lambda: pending(client) == 0)


def pending(client: Client) -> int:
    found = re.search(r'^nv_inference_pending_request_count{model="sleeps",version="1"} (\d+)$', client.metrics(), re.M)
    return int(found[1]) if found else -1


def counts(statistics: list[dict[str, Any]] | Failure) -> dict[str, Any]:
    """Return the counts of the statistics without times, which must be there."""
    assert not isinstance(statistics, Failure)
    (found,) = statistics
    assert abs(found.pop("last_inference") / 1000 - time.time()) < 600
    return dict(without_ns(found))


def without_ns(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"count", "ns"}:
        assert (value["ns"] > 0) == (value["count"] > 0)
        return value["count"]
    if isinstance(value, dict):
        return {key: without_ns(inner) for key, inner in value.items()}
    return [without_ns(inner) for inner in value] if isinstance(value, list) else value


def expected(name: str, inferences: int, good: int, bad: int, batches: dict[int, int]) -> dict[str, Any]:
    compute = ("compute_input", "compute_infer", "compute_output")
    return {
        "name": name,
        "version": "1",
        "inference_count": inferences,
        "execution_count": sum(batches.values()),
        "inference_stats": {
            "success": good,
            "fail": bad,
            "queue": good,
            **dict.fromkeys(compute, good),
            "cache_hit": 0,
            "cache_miss": 0,
        },
        "response_stats": {},
        "batch_stats": [{"batch_size": size, **dict.fromkeys(compute, n)} for size, n in batches.items()],
        "memory_usage": [],
    }


@rule("5.12.1", "5.12.2", "5.12.3", "3.11.1", "3.11.2")
@pytest.mark.parametrize(
    ("name", "inferences", "good", "bad", "batches"),
    [
        ("fine", 5, 3, 0, {1: 2, 3: 1}),
        ("raises", 0, 0, 2, {1: 2}),
        ("refuses", 2, 2, 0, {1: 2}),
        ("twice", 1, 1, 0, {1: 1}),
        ("sleeps", 1, 1, 2, {1: 1}),
    ],
)
def test_statistics(used: Client, name: str, inferences: int, good: int, bad: int, batches: dict[int, int]) -> None:
    assert counts(used.statistics(name)) == expected(name, inferences, good, bad, batches)


def families(text: str) -> dict[str, tuple[str, str, list[str]]]:
    """Return for each family, in order, its help, its kind and what its lines are about, without values."""
    found: dict[str, tuple[str, str, list[str]]] = {}
    for block in re.split(r"(?m)^# HELP ", text)[1:]:
        help, kind, *lines = block.splitlines()
        name, _, words = help.partition(" ")
        assert kind.startswith(f"# TYPE {name} ")
        found[name] = words, kind.rpartition(" ")[2], sorted(line.rpartition(" ")[0] for line in lines if line)
    return found


#: What 2.51 has not (rule 5.13.1).
NEWER = {"nv_model_load_duration_secs"}


def labels(name: str, **more: str) -> str:
    tags = {"_Zone": "b", "_team": "a"} if name == "tagged" else {}
    pairs = sorted({**tags, "model": name, "version": "1", **more}.items())
    return ",".join(f'{key}="{value}"' for key, value in pairs)


def per_model(name: str, models: list[str]) -> list[str]:
    return sorted(f"{name}{{{labels(model)}}}" for model in models)


def summary(name: str, models: list[str]) -> list[str]:
    """Return the names of a summary's lines. Quantiles come last, other labels are sorted."""
    ends = [f',quantile="{q}"' for q in ("0.5", "0.9", "0.95", "0.99", "0.999")]
    return sorted(
        line
        for model in models
        for line in (
            f"{name}_count{{{labels(model)}}}",
            f"{name}_sum{{{labels(model)}}}",
            *(f"{name}{{{labels(model)}{end}}}" for end in ends),
        )
    )


def gpu_or_machine(name: str) -> bool:
    return name.startswith(("nv_gpu_", "nv_energy"))


UNCACHED = "(does not include cached requests)"
DURATIONS = {
    "compute_input": f"Cumulative compute input duration in microseconds {UNCACHED}",
    "compute_infer": f"Cumulative compute inference duration in microseconds {UNCACHED}",
    "compute_output": f"Cumulative inference compute output duration in microseconds {UNCACHED}",
}


def all_families() -> dict[str, tuple[str, str, list[str]]]:
    models, cached = list(MODELS), ["cached"]
    reasons = ("REJECTED", "CANCELED", "BACKEND", "OTHER")
    counters = {
        "nv_inference_request_success": "Number of successful inference requests, all batch sizes",
        "nv_inference_request_failure": "Number of failed inference requests, all batch sizes",
        "nv_inference_count": f"Number of inferences performed {UNCACHED}",
        "nv_inference_exec_count": f"Number of model executions performed {UNCACHED}",
        "nv_inference_request_duration_us": "Cumulative inference request duration in microseconds "
        "(includes cached requests)",
        "nv_inference_queue_duration_us": "Cumulative inference queuing duration in microseconds "
        "(includes cached requests)",
        **{f"nv_inference_{part}_duration_us": words for part, words in DURATIONS.items()},
        "nv_cache_num_hits_per_model": "Number of cache hits per model",
        "nv_cache_hit_duration_per_model": "Total cache hit duration per model, in microseconds",
        "nv_cache_num_misses_per_model": "Number of cache misses per model",
        "nv_cache_miss_duration_per_model": "Total cache miss (insert+lookup) duration per model, in microseconds",
    }
    machine = {
        "nv_pinned_memory_pool_total_bytes": "Pinned memory pool total memory size, in bytes",
        "nv_pinned_memory_pool_used_bytes": "Pinned memory pool used memory size, in bytes",
        "nv_cpu_utilization": "CPU utilization rate [0.0 - 1.0]",
        "nv_cpu_memory_total_bytes": "CPU total memory (RAM), in bytes",
        "nv_cpu_memory_used_bytes": "CPU used memory (RAM), in bytes",
    }
    summaries = {
        "nv_inference_request_summary_us": "Summary of inference request duration in microseconds "
        "(includes cached requests)",
        "nv_inference_queue_summary_us": "Summary of inference queuing duration in microseconds "
        "(includes cached requests)",
        **{f"nv_inference_{part}_summary_us": words for part, words in DURATIONS.items()},
        "nv_cache_hit_summary_per_model": "Summary of cache hit counts/durations per model, in microseconds.",
        "nv_cache_miss_summary_per_model": "Summary of cache miss counts/durations per model, in microseconds.",
    }
    own = 'a="1",b="2"'
    histogram = [f'own_histogram_bucket{{{own},le="{le}"}}' for le in ("+Inf", "1.5")]
    pending_words = "Instantaneous number of pending requests awaiting execution per-model."
    found = {
        n: (t, "counter", per_model(n, cached if n.startswith("nv_cache") else models)) for n, t in counters.items()
    }
    failure = "nv_inference_request_failure"
    lines = [f"{failure}{{{labels(model, reason=reason)}}}" for model in models for reason in reasons]
    found[failure] = counters[failure], "counter", sorted(lines)
    found["own_counter"] = "counter", "counter", [f"own_counter{{{own}}}"]
    waiting = "nv_inference_pending_request_count"
    found[waiting] = pending_words, "gauge", per_model(waiting, models)
    found |= {name: (words, "gauge", [name]) for name, words in machine.items()}
    found["own_gauge"] = "gauge", "gauge", [f"own_gauge{{{own}}}"]
    found["own_histogram"] = (
        "histogram",
        "histogram",
        [*histogram, f"own_histogram_count{{{own}}}", f"own_histogram_sum{{{own}}}"],
    )
    summarized = {
        "nv_inference_request_summary_us": [name for name in models if name != "cached"],
        "nv_cache_hit_summary_per_model": cached,
        "nv_cache_miss_summary_per_model": cached,
    }
    return found | {n: (t, "summary", summary(n, summarized.get(n, models))) for n, t in summaries.items()}


@rule("1.14.4")
def test_what_is_no_number_is_in_the_first_bucket(used: Client) -> None:
    lines = [line.split() for line in used.metrics().splitlines() if line.startswith("own_histogram_bucket")]
    assert [(name.partition('le="')[2], count) for name, count in lines] == [('1.5"}', "1"), ('+Inf"}', "1")]


@rule("5.13.1", "5.13.3", "5.13.4", "1.14.8")
def test_every_line_but_for_its_value(used: Client) -> None:
    found = {n: f for n, f in families(used.metrics()).items() if n not in NEWER and not gpu_or_machine(n)}
    for name, family in all_families().items():
        assert found[name] == family
    assert list(found) == list(all_families())


def values(client: Client, name: str) -> dict[str, float]:
    """Return the values of the lines of one model."""
    lines = [line for line in client.metrics().splitlines() if f'model="{name}"' in line]
    return {key: float(value) for key, _, value in (line.rpartition(" ") for line in lines)}


@rule("5.13.1", "5.12.3", "3.11.1")
@pytest.mark.parametrize(
    ("name", "good", "inferences", "executions", "failures"),
    [
        ("fine", 3, 5, 3, {}),
        ("raises", 0, 0, 2, {"BACKEND": 2}),
        ("refuses", 2, 2, 2, {}),
        ("sleeps", 1, 1, 1, {"REJECTED": 1, "CANCELED": 1}),
    ],
)
def test_values_of_the_counters(
    used: Client, name: str, good: int, inferences: int, executions: int, failures: dict[str, int]
) -> None:
    found = values(used, name)
    assert found[f"nv_inference_request_success{{{labels(name)}}}"] == good
    assert found[f"nv_inference_count{{{labels(name)}}}"] == inferences
    assert found[f"nv_inference_exec_count{{{labels(name)}}}"] == executions
    reasons = ("REJECTED", "CANCELED", "BACKEND", "OTHER")
    failed = {r: found[f"nv_inference_request_failure{{{labels(name, reason=r)}}}"] for r in reasons}
    assert failed == {**dict.fromkeys(reasons, 0), **failures}
    assert found[f"nv_inference_request_summary_us_count{{{labels(name)}}}"] == good
    total = found[f"nv_inference_request_duration_us{{{labels(name)}}}"]
    assert (total > 0) == (good > 0)
    assert found[f"nv_inference_request_summary_us_sum{{{labels(name)}}}"] == pytest.approx(total, abs=3)


@rule("5.13.3")
def test_quantiles_of_nothing_and_of_one(used: Client) -> None:
    def quantiles(name: str, of: str) -> list[str]:
        start = f"nv_inference_{of}_summary_us{{{labels(name)},quantile="
        return [line.rpartition(" ")[2] for line in used.metrics().splitlines() if line.startswith(start)]

    assert quantiles("raises", "queue") == ["Nan"] * 5
    (value,) = set(quantiles("sleeps", "compute_infer"))
    assert 900_000 < float(value) < 5_000_000
