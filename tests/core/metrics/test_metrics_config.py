from __future__ import annotations

import pytest

from tritonlab.core.config.model_config import ModelConfig
from tritonlab.core.metrics.metrics_config import (
    DEFAULT_BUCKETS,
    DEFAULT_QUANTILES,
    MetricsConfig,
    first_response_buckets,
)
from tritonlab.core.status import InvalidArgumentError


def test_the_settings_of_the_flag() -> None:
    config = MetricsConfig.from_settings(
        {"counter_latencies": "false", "summary_latencies": "true", "summary_quantiles": "0.5:0.05,1:0", "foo": "bar"}
    )
    assert config == MetricsConfig(False, True, False, ((0.5, 0.05), (1.0, 0.0)))


def test_the_defaults() -> None:
    assert MetricsConfig.from_settings({}) == MetricsConfig()
    assert MetricsConfig().summary_quantiles == DEFAULT_QUANTILES


@pytest.mark.parametrize("text", ["abc", "0.5", "x:0.1", ""])
def test_quantiles_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="<quantile>:<error>"):
        MetricsConfig.from_settings({"summary_quantiles": text})


def test_buckets_of_a_model() -> None:
    config = ModelConfig()
    assert first_response_buckets(config) == DEFAULT_BUCKETS
    other = config.model_metrics.metric_control.add()
    other.metric_identifier.family = "another"
    other.histogram_options.buckets.append(7)
    assert first_response_buckets(config) == DEFAULT_BUCKETS
    control = config.model_metrics.metric_control.add()
    control.metric_identifier.family = "nv_inference_first_response_histogram_ms"
    control.histogram_options.buckets.extend([-1, 2.5])
    assert first_response_buckets(config) == (-1.0, 2.5)
