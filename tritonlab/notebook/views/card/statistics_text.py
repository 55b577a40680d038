"""The statistics of models (rule 5.12) as a person reads them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: What Triton sums up, in the order a request meets it.
_PARTS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss")


def statistics_text(statistics: Mapping[str, Any]) -> str:
    """Return a table per version: how often each part ran, and how long on average, without parts that never ran."""
    return "\n\n".join("\n".join(_lines(stats)) for stats in statistics["model_stats"]) or "no model is loaded"


def samples(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return the samples in lines of a metrics text: name, labels and value of each. The parser is imported here,
    because `%load_ext tritonlab` would take a fifth longer with it.
    """
    parser = importlib.import_module("prometheus_client.parser")
    found = parser.text_string_to_metric_families("\n".join(lines) + "\n")
    return [{"name": s.name, "labels": s.labels, "value": s.value} for family in found for s in family.samples]


def _lines(stats: Mapping[str, Any]) -> Iterator[str]:
    inferences = _plural(stats["inference_count"], "inference")
    executions = _plural(stats["execution_count"], "execution")
    yield f"{stats['name']} version {stats['version']}: {inferences} in {executions}"
    for part in _PARTS:
        found = stats["inference_stats"][part]
        if found["count"]:
            yield f"  {part:<15}{found['count']:>8}  {found['ns'] / found['count'] / 1000:>12.1f} us on average"
    for batch in stats["batch_stats"]:
        times = batch["compute_infer"]
        mean = times["ns"] / times["count"] / 1000
        yield f"  batch of {batch['batch_size']:<6}{times['count']:>8}  {mean:>12.1f} us compute_infer"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
