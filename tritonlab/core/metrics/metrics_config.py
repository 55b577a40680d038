"""The settings of `--metrics-config`: which metrics a server shows (rules 5.13.2, 5.13.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..status import InvalidArgumentError

#: (quantile, allowed error of its rank)
Quantiles = tuple[tuple[float, float], ...]

DEFAULT_QUANTILES: Quantiles = ((0.5, 0.05), (0.9, 0.01), (0.95, 0.001), (0.99, 0.001), (0.999, 0.001))
#: Upper bounds in milliseconds; a value above them all is counted too.
DEFAULT_BUCKETS = (100.0, 500.0, 2000.0, 5000.0)
FIRST_RESPONSE = "nv_inference_first_response_histogram_ms"


@dataclass(frozen=True)
class MetricsConfig:
    """The metrics that are shown. `counter_latencies`, `summary_latencies`: durations as counters, and as summaries
    with `summary_quantiles`. `histogram_latencies`: histograms of the times to the first response. `interval_ms`: the
    largest age of the machine's numbers in milliseconds. `cpu`, `gpu`: the numbers of each.
    """

    counter_latencies: bool = True
    summary_latencies: bool = False
    histogram_latencies: bool = False
    summary_quantiles: Quantiles = DEFAULT_QUANTILES
    interval_ms: float = 2000.0
    cpu: bool = True
    gpu: bool = True

    @staticmethod
    def from_settings(
        settings: Mapping[str, str], interval_ms: float = 2000.0, cpu: bool = True, gpu: bool = True
    ) -> MetricsConfig:
        """Read the texts of `--metrics-config`; settings that do not exist are ignored. Raises InvalidArgumentError for
        quantiles that cannot be read (Triton logs the error and uses its defaults).
        """
        flags = {name: settings[name] == "true" for name in _FLAGS if name in settings}
        quantiles = DEFAULT_QUANTILES
        if "summary_quantiles" in settings:
            quantiles = parse_quantiles(settings["summary_quantiles"])
        return MetricsConfig(**flags, summary_quantiles=quantiles, interval_ms=interval_ms, cpu=cpu, gpu=gpu)


_FLAGS = ("counter_latencies", "summary_latencies", "histogram_latencies")


def parse_quantiles(text: str) -> Quantiles:
    """Read pairs of quantile and allowed error, `0.5:0.05,0.9:0.01`. Raises InvalidArgumentError for other texts."""
    found = []
    for pair in text.split(","):
        quantile, colon, error = pair.partition(":")
        try:
            found.append((float(quantile), float(error)))
        except ValueError:
            missing = "" if colon else "No ':' delimiter found. "
            raise InvalidArgumentError(
                f"failed to parse summary_quantiles [{pair}]. {missing}Expected format is <quantile>:<error>"
            ) from None
    return tuple(found)


def first_response_buckets(config: Any) -> tuple[float, ...]:
    """Return the bucket bounds in milliseconds of a model's configuration (`ModelConfig`)."""
    for control in config.model_metrics.metric_control:
        if control.metric_identifier.family == FIRST_RESPONSE and control.histogram_options.buckets:
            return tuple(control.histogram_options.buckets)
    return DEFAULT_BUCKETS
