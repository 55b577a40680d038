"""Metrics of the program itself, which every server of the process shows."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from ...core.metrics.metric_registry import MetricRegistry
from .._c.triton_bindings import InvalidArgumentError
from .._c.triton_bindings import TRITONSERVER_MetricKind as MetricKind
from ._checks import check_float, check_member, check_text

#: The metrics that a program adds. As in Triton, they belong to the process and not to a server: every server shows
#: them, and they share one namespace with the metrics of models.
METRICS = MetricRegistry()


class MetricFamily:
    """The kind, name and description of metrics. Its metrics end with it, so keep a reference while they are in use.

    Raises InvalidArgumentError for a name that is invalid or in use; NVIDIA's package fails at the first metric
    instead.
    """

    def __init__(self, kind: MetricKind, name: str, description: str) -> None:
        check_member("kind", kind, MetricKind)
        check_text("name", name)
        check_text("description", description)
        self._kind = kind
        self._handle = METRICS.family(name, description, kind.value)
        weakref.finalize(self, METRICS.delete_family, self._handle).atexit = False


class Metric:
    """One number of a family, distinguished by its labels."""

    def __init__(self, family: MetricFamily, labels: Mapping[str, str] | None = None) -> None:
        check_member("family", family, MetricFamily)
        for name, value in (labels or {}).items():
            check_text("label name", name)
            _check_label(value)
        self._kind = family._kind
        self._metric = METRICS.metric(family._handle, labels, None)
        weakref.finalize(self, METRICS.delete_metric, self._metric).atexit = False

    @property
    def kind(self) -> MetricKind:
        return self._kind

    @property
    def value(self) -> float:
        value = METRICS.operate(self._metric, "value")
        assert value is not None
        return value

    def increment(self, value: float) -> None:
        """Add `value`. Raises InvalidArgumentError for a counter that would decrease."""
        METRICS.operate(self._metric, "increment", check_float("value", value))

    def set_value(self, value: float) -> None:
        """Set the value. Raises UnsupportedError for a counter."""
        METRICS.operate(self._metric, "set", check_float("value", value))


def _check_label(value: Any) -> None:
    """Raise unless a label is text; other Triton parameters may have other types."""
    if isinstance(value, (bool, int, bytes)):
        raise InvalidArgumentError("metric label values must be of type string")
    check_text("label value", value)
