"""`Tunable` is the part of `Model` that asks what other batching and other instances would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ...core.status import UnsupportedError


class Tunable:
    """Is the base of `Model`. What answers is handed in by `runtime`, because it is above this."""

    #: (model, settings that differ) -> `tuning.what_if.WhatIf`
    what_if_maker: ClassVar[Callable[[Any, Mapping[str, Any]], Any] | None] = None
    #: (model, options) -> `tuning.tune_result.TuneResult`
    tuner: ClassVar[Callable[[Any, Mapping[str, Any]], Any] | None] = None
    #: of a model that a notebook has written: its `tuning.settings.Settings` that differ from its config, and what
    #: loads it with others; None of any other model
    written: ClassVar[Callable[[Any], tuple[Any, Callable[[Any], object]] | None]] = staticmethod(lambda model: None)

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
        of the result loads the model with the settings, `config` are the lines for its config.pbtxt.

        Raises InvalidArgumentError for settings that no config can say, or if no request was recorded yet;
        UnsupportedError for sequence models and ensembles.
        """
        make = type(self).what_if_maker
        if make is None:
            raise UnsupportedError("this needs `import tritonlab`")
        differing = {
            "max_queue_delay_microseconds": max_queue_delay_microseconds,
            "preferred_batch_size": preferred_batch_size,
            "max_batch_size": max_batch_size,
            "instances": instances,
        }
        return make(self, differing)

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
        what was found. `requests`: options of `load_test` that say what is sent, such as `inputs` or `shapes`.

        Raises InvalidArgumentError, TypeError for an unknown option, UnsupportedError for sequence models and
        ensembles, and TritonError if the model fails its requests.
        """
        answer = type(self).tuner
        if answer is None:
            raise UnsupportedError("this needs `import tritonlab`")
        load = {"concurrency": concurrency, "request_rate": request_rate, "arrivals": arrivals}
        most = {"max_instances": max_instances, "max_batch_size": max_batch_size, "budget_s": budget_s}
        return answer(self, {"p99_ms": p99_ms, **load, **most, **requests})
