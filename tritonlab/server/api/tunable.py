"""`Tunable` is the part of `Model` that asks what other batching and other instances would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ...core.status import UnsupportedError


class Tunable:
    """Is the base of `Model`. What answers is handed in by `runtime`, because it is above this."""

    #: (model, settings that differ) -> `tuning.what_if.WhatIf`
    what_if_maker: ClassVar[Callable[[Any, Mapping[str, Any]], Any] | None] = None

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
