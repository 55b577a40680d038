from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tritonlab.core.infer_request import InferenceRequest
from tritonlab.core.infer_response import InferenceResponse
from tritonlab.core.infer_stats import InferStats
from tritonlab.core.instrument import Instruments
from tritonlab.core.latency_stats import Histogram, LatencyStats
from tritonlab.core.metrics import MetricRegistry
from tritonlab.core.metrics_config import MetricsConfig
from tritonlab.core.model_config import ModelConfig
from tritonlab.core.status import InternalError, NotFoundError
from tritonlab.server.server_metrics import FirstResponses, ServerMetrics
from tritonlab.testing import MockClock


def test_a_version_counts_what_the_configuration_asks_for() -> None:
    def made(config: MetricsConfig) -> ServerMetrics:
        return ServerMetrics(config, MetricRegistry(), MockClock())

    assert type(made(MetricsConfig()).stats()) is InferStats
    assert made(MetricsConfig()).first_response(ModelConfig()) is None
    assert isinstance(made(MetricsConfig(summary_latencies=True)).stats(), LatencyStats)
    assert made(MetricsConfig(histogram_latencies=True)).first_response(ModelConfig()) is not None


class Bench:
    """`FirstResponses` on one model."""

    def __init__(self) -> None:
        self.instruments = Instruments()
        self.histogram = Histogram([2])
        self.instruments.add(FirstResponses(self.find))
        self.loaded = True

    def find(self, name: str, version: int) -> Any:
        if not self.loaded:
            raise NotFoundError("gone")
        assert (name, version) == ("m", 1)
        return SimpleNamespace(first_response=self.histogram)

    def send(self, request: InferenceRequest, ms: float, **fields: Any) -> None:
        hook = self.instruments.response_sent
        assert hook is not None
        hook(request, InferenceResponse("m", 1, **fields), int(ms * 1e6))

    @property
    def counted(self) -> list[float]:
        """Responses in all, milliseconds in all, responses within the bound."""
        return [value for _, _, value in self.histogram.samples(())][:3]


def request(serial: int) -> InferenceRequest:
    made = InferenceRequest("m", {})
    made.serial = serial
    return made


@pytest.mark.rule("5.13.2")
def test_only_the_first_response_of_a_request_counts() -> None:
    bench = Bench()
    one, other = request(1), request(2)
    bench.send(one, 1, final=False)
    bench.send(other, 4, final=False)
    bench.send(one, 9, final=False)
    bench.send(one, 9, empty=True)
    bench.send(other, 9)
    assert bench.counted == [2, 5, 1]


@pytest.mark.rule("5.13.2")
def test_an_error_counts_and_a_final_flag_alone_does_not() -> None:
    bench = Bench()
    bench.send(request(1), 1, error=InternalError("no"))
    bench.send(request(2), 1, empty=True)
    assert bench.counted == [1, 1, 1]
    bench.loaded = False
    bench.send(request(3), 1)
    assert bench.counted == [1, 1, 1]
    assert bench.instruments.response_sent is not None
