"""The method `load_test` of models, those of a server in this process and those of servers elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ....core.inference.infer_response import ParameterValue
from ....server.api.model_signature import with_field_parameters

if TYPE_CHECKING:
    from .load_run import LoadTest
    from .load_target import LoadTarget


class LoadOptions(TypedDict, total=False):
    """The options of `load_test`, which explains each of them."""

    concurrency: int | Iterable[int]
    request_rate: float | Iterable[float]
    arrivals: Sequence[float] | Any
    distribution: str
    duration: float
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
    progress: bool
    wait: bool


class LoadTested:
    """A model that can be tested under load."""

    name: str
    version: int

    def load_target(self) -> LoadTarget:
        """Return what the requests of a load test are sent to."""
        raise NotImplementedError

    def _show_progress(self, test: LoadTest) -> Callable[[], None]:
        """Show a test that the caller waits for, and return what ends that."""
        return lambda: None

    @with_field_parameters(LoadOptions)
    def load_test(self, **options: Unpack[LoadOptions]) -> Any:
        """Send the model requests under load and return the `LoadResult`: throughput, latency percentiles, errors, and
        the server's own times, a row for each level of load. It has `to_csv(path)` in perf_analyzer's columns, and
        `plot(ax)`. An interrupt ends it with what was measured so far.

        The load is one of: `concurrency` (so many clients, each sends when it has its answer; 1 by default),
        `request_rate` (per second, whatever the server does; `distribution` is "poisson" or "constant"), and
        `arrivals` (seconds, or a `Recording`, whose requests are sent again at the times they came). The first two may
        be lists or ranges: one row each. With a rate or arrivals, latency counts from when a request was due.

        Times are seconds. Each row warms up for `warmup` (0.5), and measures windows of `window` (1) until the last
        three agree within `stability` (0.1) in throughput and latency, the mean or `percentile`; at most `max_trials`
        (10). `duration`: measure so long instead; of arrivals, send those of so long. `max_outstanding` (10000) bounds
        the requests of an open loop.

        `inputs` is a dict, a list of them (in turn, or by chance with `weights`), or a function of the request's
        number; by default random values of the config's datatypes and shapes, with `seed`, and `shapes` for dimensions
        of any size. `batch`: rows of each request. `parameters`, `priority`, `timeout` (microseconds) go with each.
        Sequence models get sequences of `sequence_length` (20) requests, one per client; `sequences` (4) at once with a
        rate. `progress=False` shows nothing meanwhile; `wait=False` returns the running `LoadTest`, with `progress()`,
        `stop()` and `wait()`.

        Raises InvalidArgumentError for options that make no sense, TypeError for unknown ones.
        """
        # imported here, because only those who measure need it
        from .load_run import run_load_test

        return run_load_test(
            self.name, self.version, target=self.load_target(), options=options, show_progress=self._show_progress
        )


def smallest_shapes(config: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return shapes for the inputs of a config with variable dimensions, without the batch dimension; each of these is
    1."""
    return {
        described["name"]: [max(int(dim), 1) for dim in described["dims"]]
        for described in config.get("input", ())
        if any(int(dim) < 0 for dim in described["dims"]) and not described.get("optional")
    }
