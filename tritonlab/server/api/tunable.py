"""`Tunable` is the part of `Model` that asks what other batching and other instances would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.unknown_option import explains_unknown
from .handed_in import HandedIn


class Tunable:
    """Is a base of `Model`. What answers is above this, and handed in."""

    @explains_unknown
    def what_if(
        self,
        *,
        max_queue_delay_microseconds: int | None = None,
        preferred_batch_size: Sequence[int] | int | None = None,
        max_batch_size: int | None = None,
        instances: int | None = None,
    ) -> Any:
        """Tells what other settings would have made of the requests that were recorded: latency percentiles, throughput
        and batch sizes, before and after.

        The recorded arrivals run through the batcher that serves, in simulated time; nothing is executed or reloaded.
        How long an execution of a batch takes is fitted to those recorded; the result says how exact that is. `apply()`
        of the result loads the model with the settings, unless an ensemble around it would stop serving; `config`
        are the lines for its config.pbtxt.

        Raises InvalidArgumentError for settings that no config can say, or if no request was recorded yet;
        UnsupportedError for sequence models and ensembles.
        """
        differing = {
            "max_queue_delay_microseconds": max_queue_delay_microseconds,
            "preferred_batch_size": preferred_batch_size,
            "max_batch_size": max_batch_size,
            "instances": instances,
        }
        return HandedIn.what_if(self, differing)

    def tune(
        self,
        p99_ms: float | None = None,
        *,
        concurrency: int | None = None,
        request_rate: float | None = None,
        arrivals: Sequence[float] | None = None,
        max_instances: int | None = None,
        max_batch_size: int | None = None,
        budget_s: float = 60.0,
        **requests: Any,
    ) -> Any:
        """Finds the delay, the preferred sizes, the largest batch and the number of instances that do most requests per
        second with 99 of 100 answered within `p99_ms` milliseconds, and returns them with what they do.

        How long executions take is measured first, by batch size and number of instances; then thousands of settings
        are replayed through the batcher that serves, and the best three, and the present ones, are measured live. The
        model is left as it was: `apply()` of the result loads it with the best settings, `config` are their lines for
        config.pbtxt.

        The load is one of `concurrency` (clients that each wait for their answer; by default whatever number does
        best), `request_rate` (per second) and `arrivals` (seconds); of the last two the shortest p99 wins. At most
        `max_instances` instances (by default as many as the machine has processors, from 2 to 4), and batches of
        `max_batch_size` (by default the model's). It takes about `budget_s` seconds at most; an interrupt ends it with
        what was found. `requests`: options of `load_test` that say what is sent, such as `inputs` or `shapes`. An
        ensemble around the model serves on, because no `max_batch_size` that is too small for it is tried.

        Raises InvalidArgumentError, TypeError for an unknown option, UnsupportedError for sequence models and
        ensembles, and TritonError if the model fails its requests.
        """
        load = {"concurrency": concurrency, "request_rate": request_rate, "arrivals": arrivals}
        most = {"max_instances": max_instances, "max_batch_size": max_batch_size, "budget_s": budget_s}
        return HandedIn.tune(self, {"p99_ms": p99_ms, **load, **most, **requests})
