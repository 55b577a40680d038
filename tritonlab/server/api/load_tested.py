"""The method `load_test` of models, both local and remote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from ...core.inference.infer_response import ParameterValue
from ...tool_table import tool_function
from .model_signature import with_field_parameters


class LoadOptions(TypedDict, total=False):
    """The options of `load_test`, whose docstring explains each of them."""

    concurrency: int | Iterable[int]
    request_rate: float | Iterable[float]
    arrivals: Sequence[float] | Any
    distribution: str
    seconds: float
    window: float
    max_trials: int
    warmup: float
    percentile: float
    stability: float
    inputs: Mapping[str, Any] | Sequence[Any] | Callable[[int], Any]
    weights: Sequence[float]
    shapes: Mapping[str, Sequence[int]]
    batch: int
    parameters: dict[str, ParameterValue]
    priority: int
    timeout: int
    sequence_length: int
    sequences: int
    seed: int
    max_outstanding: int
    output_tokens: str | Callable[[Mapping[str, Any]], int]
    progress: bool
    wait: bool


class LoadTested:
    """A model with the method `load_test`."""

    name: str
    version: int

    @with_field_parameters(LoadOptions)
    def load_test(self, **options: Unpack[LoadOptions]) -> Any:
        """Send the model requests under load and return the `LoadResult`, with a row for each level of load.

        A row has throughput, latency percentiles, errors, and the server's own times. The result has `to_csv(path)`, in
        perf_analyzer's columns, and `plot(ax)`. An interrupt ends the test with the measurements so far. The load is
        one of `concurrency`, `request_rate` and `arrivals`; the first two may be lists or ranges, with one row each.
        With a rate or arrivals, latency counts from the due time of a request. Times are seconds.

        Args:
            concurrency: the number of clients, 1 by default. Each sends its next request after the last response.
            request_rate: requests per second, independent of the responses.
            distribution: "poisson" or "constant", the spacing at a rate.
            arrivals: seconds, or a `Recording`, whose requests are sent again at their recorded times.
            warmup: the time before the measurement of a row (0.5).
            window: the time of a window (1). Windows are measured until the last three agree.
            stability: the share within which windows agree in throughput and latency (0.1).
            percentile: of the latency that must agree, instead of the mean.
            max_trials: the most windows of a row (10).
            seconds: measure for that time instead; with arrivals, send those of that time.
            max_outstanding: the most unfinished requests of an open loop (10000).
            inputs: a dict, a list of them (in turn, or by chance with `weights`), or a function of the request's
                number; by default random values of the config's datatypes and shapes, with `seed`.
            shapes: for input dimensions of any size.
            batch: rows of each request.
            parameters, priority, timeout: sent with each request; `timeout` in microseconds.
            sequence_length: requests of each sequence of a sequence model (20); each client sends one at a time.
            output_tokens: how to count the tokens of streams, for `row.tokens` (time to first token, inter-token
                latency, tokens per second): the name of an output, each element or each text of which is a token, or a
                function of the outputs of a response, a dict of arrays.
            sequences: the number of simultaneous sequences with a rate (4).
            progress: whether to show the progress.
            wait: False returns the running `LoadTest`, with `progress()`, `stop()` and `wait()`.

        Raises InvalidArgumentError for invalid options, TypeError for unknown ones.
        """
        return tool_function("Model.load_test")(self, **options)
