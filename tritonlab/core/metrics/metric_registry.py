"""`MetricRegistry`, the custom metrics that models make (rule 1.14), and the text of all metrics.

A custom metric lives on three levels. A *family* is printed in the text, one per name. A *handle* is one
`MetricFamily` object of a model; handles of one name share the family. A *metric* is one `Metric` object; metrics of
equal labels in one family share the sample. A sample, with its printed lines, goes when the last handle that made it
goes (measured on 2.51: it does not stay until the family's last handle goes).
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..status import InvalidArgumentError, NotFoundError, UnsupportedError
from .latency_stats import Histogram
from .metrics_config import MetricsConfig
from .model_metrics import MODEL_METRIC_KINDS, ModelMetrics, model_families
from .prometheus_text import PrintedFamily, Sample, render

COUNTER, GAUGE, HISTOGRAM = range(3)
_KINDS = ("counter", "gauge", "histogram")
_ORDER = {"counter": 0, "gauge": 1, "histogram": 2, "summary": 3}

#: No name may start with two underscores, which are reserved by Prometheus.
_METRIC_NAME = re.compile(r"(?!__)[a-zA-Z_:][a-zA-Z0-9_:]*\Z", re.ASCII)
_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*\Z", re.ASCII)

_Labels = tuple[tuple[str, str], ...]


class _Sample(Histogram):
    """The number, or the buckets, that all metrics of one label set share."""

    def __init__(self, bounds: Sequence[float]) -> None:
        super().__init__(bounds)
        self.value = 0.0
        self.handles: set[int] = set()

    def lines(self, kind: int, labels: _Labels) -> list[Sample]:
        return self.samples(labels) if kind == HISTOGRAM else [("", labels, self.value)]


@dataclass
class _CustomFamily:
    name: str
    description: str
    kind: int
    handles: set[int] = field(default_factory=set)
    samples: dict[_Labels, _Sample] = field(default_factory=dict)


class _Metric(NamedTuple):
    handle: int
    name: str
    kind: int
    labels: _Labels
    sample: _Sample


class MetricRegistry:
    """The custom metrics by the ids of the stubs, and the text of all metrics. Any thread may call any method.

    Errors have the end of Triton's messages; the stub puts `Error when creating Metric: …` before it (rule 1.14.4).
    """

    def __init__(
        self,
        on_change: Callable[[str, Mapping[str, str], float], None] | None = None,
        on_new: Callable[[str, str, str, Mapping[str, str], Sequence[float]], None] | None = None,
    ) -> None:
        """`on_change(name, labels, value)` is called after each change, with the observed value for a histogram,
        `on_new(name, kind, description, labels, buckets)` for each metric that is made.
        """
        self._on_change = on_change
        self._on_new = on_new
        self._lock = threading.Lock()  # guards all of the below and every sample
        self._ids = itertools.count(1)
        self._families: dict[str, _CustomFamily] = {}
        self._handles: dict[int, _CustomFamily] = {}
        self._makers: dict[int, str] = {}  # the models whose code owns the handles
        self._metrics: dict[int, _Metric] = {}

    def family(self, name: str, description: str, kind: int, model: str = "") -> int:
        """Return a new handle of the family `name`, for the code of `model`; an existing family keeps its description
        (rule 1.14.6)."""
        with self._lock:
            family = self._families.get(name)
            if family is None:
                if not _METRIC_NAME.match(name):
                    raise InvalidArgumentError("Invalid metric name")
                family = _CustomFamily(name, description, kind)
            if kind != family.kind or MODEL_METRIC_KINDS.get(name, _KINDS[kind]) != _KINDS[kind]:
                raise InvalidArgumentError("Family name already exists with different type")
            self._families[name] = family
            handle = next(self._ids)
            family.handles.add(handle)
            self._handles[handle] = family
            self._makers[handle] = model
            return handle

    def delete_family(self, handle: int) -> None:
        """Delete a handle and the metrics made with it (rule 1.14.7). Ignores an unknown id: its owner may be dead."""
        with self._lock:
            family = self._handles.pop(handle, None)
            self._makers.pop(handle, None)
            if family is None:
                return
            family.handles.discard(handle)
            for labels, sample in list(family.samples.items()):
                sample.handles.discard(handle)
                if not sample.handles:
                    del family.samples[labels]
            self._metrics = {key: metric for key, metric in self._metrics.items() if metric.handle != handle}
            if not family.handles:
                del self._families[family.name]

    def metric(self, handle: int, labels: Mapping[str, Any] | None, buckets: Sequence[float] | None) -> int:
        """Return the id of a new metric of the handle's family. Metrics of equal labels share one sample, with the
        buckets of the first.
        """
        key = _checked_labels(labels or {})
        bounds = list(map(float, buckets or ()))
        with self._lock:
            family = self._handles.get(handle)
            if family is None:
                raise NotFoundError(_FAMILY_DELETED)
            if any(low >= high for low, high in itertools.pairwise(bounds)):
                raise InvalidArgumentError("Bucket Boundaries must be strictly sorted")
            sample = family.samples.setdefault(key, _Sample(bounds))
            sample.handles.add(handle)
            metric = next(self._ids)
            self._metrics[metric] = _Metric(handle, family.name, family.kind, labels=key, sample=sample)
        if self._on_new is not None:
            self._on_new(family.name, _KINDS[family.kind], family.description, dict(key), sample.bounds[:-1])
        return metric

    def delete_metric(self, metric: int) -> None:
        """Delete a metric, and the sample with the last metric of its labels. This is the rule for metrics of the
        in-process API; a stub's sample stays as long as a handle that made it (measured on 2.51). Ignores an unknown
        id: its family may be gone.
        """
        with self._lock:
            found = self._metrics.pop(metric, None)
            if found is None or any(other.sample is found.sample for other in self._metrics.values()):
                return
            family = self._families.get(found.name)
            if family is not None and family.samples.get(found.labels) is found.sample:
                del family.samples[found.labels]

    def buckets(self, metric: int) -> list[float]:
        """Return the upper bounds of a histogram's sample, which may be an earlier metric's, without infinity."""
        with self._lock:
            found = self._metrics.get(metric)
            return [] if found is None else found.sample.bounds[:-1]

    def operate(self, metric: int, operation: str, value: float | None = None) -> float | None:
        """Do `increment`, `set`, `observe` or `value` as in rule 1.14.2; only `value` returns a number."""
        with self._lock:
            found = self._metrics.get(metric)
            if found is None:
                raise NotFoundError(_FAMILY_DELETED)
            operate = _OPERATIONS[operation].get(found.kind)
            if operate is None:
                kind = _KINDS[found.kind].upper()
                raise UnsupportedError(f"TRITONSERVER_METRIC_KIND_{kind} does not support {operation.capitalize()}")
            amount = 0.0 if value is None else float(value)
            result = operate(found.sample, amount)
            reported = amount if found.kind == HISTOGRAM else found.sample.value
        if self._on_change is not None and operation != "value":
            self._on_change(found.name, dict(found.labels), reported)
        return result

    def expose(
        self,
        models: Iterable[ModelMetrics] = (),
        families: Iterable[PrintedFamily] = (),
        config: MetricsConfig | None = None,
        *,
        of_model: str = "",
    ) -> str:
        """Return the text of /metrics, ordered by kind as Triton's (counters, gauges, histograms, summaries); within a
        kind the models' own metrics come first, then the caller's `families` (the machine's), then custom ones.
        `of_model`: only the samples that name this model in their labels, and the custom metrics of its code.
        """
        found = [*model_families(models, config), *families]
        for family in found if of_model else ():
            family.samples = [sample for sample in family.samples if ("model", of_model) in sample[1]]
        found += self._custom(of_model)
        return render(sorted(found, key=lambda family: _ORDER[family.kind]))

    def _custom(self, model: str) -> list[PrintedFamily]:
        """Return the custom families, with the samples of one model or all."""

        def is_printed(labels: _Labels, sample: _Sample) -> bool:
            makers = [self._makers[handle] for handle in sample.handles]
            return not model or ("model", model) in labels or model in makers

        with self._lock:
            return [
                PrintedFamily(
                    family.name,
                    _KINDS[family.kind],
                    family.description,
                    [
                        line
                        for labels, sample in family.samples.items()
                        if is_printed(labels, sample)
                        for line in sample.lines(family.kind, labels)
                    ],
                )
                for family in self._families.values()
            ]


_FAMILY_DELETED = (
    "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The 'MetricFamily' object should "
    "be deleted AFTER its corresponding 'Metric' objects have been deleted."
)


def _checked_labels(labels: Mapping[str, Any]) -> _Labels:
    for name, value in labels.items():
        if not isinstance(value, str):
            raise InvalidArgumentError("attempt to access JSON non-string as string")
        if not _LABEL_NAME.match(name):
            raise InvalidArgumentError("Invalid label name")
    return tuple(sorted(labels.items()))


def _increment_counter(sample: _Sample, value: float) -> None:
    if value < 0:
        raise InvalidArgumentError(
            "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values."
        )
    sample.value += value


def _increment(sample: _Sample, value: float) -> None:
    sample.value += value


def _set(sample: _Sample, value: float) -> None:
    sample.value = value


_OPERATIONS: dict[str, dict[int, Callable[[_Sample, float], float | None]]] = {
    "increment": {COUNTER: _increment_counter, GAUGE: _increment},
    "set": {GAUGE: _set},
    "observe": {HISTOGRAM: _Sample.observe},
    "value": dict.fromkeys((COUNTER, GAUGE), lambda sample, value: sample.value),
}
