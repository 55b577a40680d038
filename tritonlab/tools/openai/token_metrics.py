"""The histograms of tokens on /metrics while the port is open: vLLM's names and labels, with the prefix `tritonlab:`.

A token is a text of a response that is not empty, as in `load_test(output_tokens=NAME)`.
"""

from __future__ import annotations

import contextlib
import threading

from ...core.inference.data_type import DataType
from ...core.inference.infer_response import InferenceResponse
from ...core.metrics.metric_registry import HISTOGRAM, MetricRegistry
from ...core.status import NotFoundError
from ..measure.load_testing.token_times import TokenLog, TokenStream, token_counter

PREFIX = "tritonlab:"
_WAITS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_GAPS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
#: The name of each, its help and its bounds.
_FAMILIES: dict[str, tuple[str, tuple[float, ...]]] = {
    "time_to_first_token_seconds": ("Time from a request to its first token, in seconds", _WAITS),
    "inter_token_latency_seconds": ("Time between two responses with tokens, in seconds", _GAPS),
    "request_time_per_output_token_seconds": ("Mean time of a request's tokens after the first, in seconds", _GAPS),
    "e2e_request_latency_seconds": ("Time from a request to its last response, in seconds", _WAITS),
    "request_generation_tokens": ("Number of tokens of a request", _COUNTS),
}


class TokenRequest:
    """The tokens of one request, in nanoseconds of the monotonic clock from `begun` on."""

    def __init__(self, metrics: TokenMetrics, output: str, begun: int) -> None:
        """output: the output with the text."""
        count = token_counter(output, {output: DataType.BYTES})
        assert count is not None
        self._log = TokenLog(count)
        self._stream = TokenStream(self._log)
        self._metrics = metrics
        self._begun = begun

    def take(self, response: InferenceResponse, now: int) -> None:
        """Count the tokens of a response that came `now`."""
        self._stream.take(response.outputs, now)
        while self._log.gaps:
            _, gap = self._log.gaps.popleft()
            self._observe(response, "inter_token_latency_seconds", gap / 1e9)

    def end(self, response: InferenceResponse, now: int) -> None:
        """Note the end of the request, which has not failed."""
        self._stream.end(self._begun, now)
        for due, first, last, ended, tokens in self._log.rows:
            self._observe(response, "time_to_first_token_seconds", (first - due) / 1e9)
            self._observe(response, "e2e_request_latency_seconds", (ended - due) / 1e9)
            self._observe(response, "request_generation_tokens", tokens)
            if tokens > 1:
                self._observe(response, "request_time_per_output_token_seconds", (last - first) / (tokens - 1) / 1e9)

    def _observe(self, response: InferenceResponse, name: str, value: float) -> None:
        self._metrics.observe(response.model_name, response.model_version, name, value)


class TokenMetrics:
    """The histograms of one port, by model and version, from any thread."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._registry = registry
        self._lock = threading.Lock()  # guards the next three
        self._is_closed = False
        self._metrics: dict[tuple[str, int], dict[str, int]] = {}
        self._handles: list[int] = []

    def observe(self, model: str, version: int, name: str, value: float) -> None:
        """Add a value to the histogram of that name; nothing once it is closed."""
        metric = self._of(model, version).get(name)
        if metric is not None:
            with contextlib.suppress(NotFoundError):  # closed just now
                self._registry.operate(metric, "observe", value)

    def _of(self, model: str, version: int) -> dict[str, int]:
        with self._lock:
            found = self._metrics.get((model, version), {})
            if not found and not self._is_closed:
                found = self._metrics[model, version] = {}
                for name, (text, bounds) in _FAMILIES.items():
                    handle = self._registry.family(f"{PREFIX}{name}", text, HISTOGRAM, model)
                    self._handles.append(handle)
                    labels = {"model": model, "version": str(version)}
                    found[name] = self._registry.metric(handle, labels, bounds)
            return found

    def close(self) -> None:
        """Take the histograms off /metrics."""
        with self._lock:
            self._is_closed = True  # the last requests may end later
            handles, self._handles, self._metrics = self._handles, [], {}
        for handle in handles:
            self._registry.delete_family(handle)
