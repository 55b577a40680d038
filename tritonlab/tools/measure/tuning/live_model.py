"""A model of a server in this process that is loaded with settings and measured under load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic_ns, process_time_ns
from typing import Any

import numpy as np

from ....core.status import InternalError, InvalidArgumentError, UnavailableError
from ....notebook.authoring.settings import Settings
from ....server.api.model import Model
from ..load_testing.load_plan import LoadPlan
from ..load_testing.load_result import LoadResult
from ..load_testing.load_run import run_load_test
from ..load_testing.load_target import LocalTarget
from ..load_testing.request_mix import Lane
from .offered_load import Load
from .recorded_executions import RecordedExecutions
from .replay import Numbers
from .service_times import Floats
from .tuned_model import TunedModel


class NothingMeasured(UnavailableError):
    """A measurement without any answered or failed request: the machine or the model is too slow."""


@dataclass(frozen=True)
class Measurement:
    """The measurements under one load: the clients' numbers, and the batch size and time of each execution.

    `lead`, `turnaround`: the server's own time (`Pace`). `gap`: the further nanoseconds that clients and server need
    for each request; `think`: from the end of an execution to the next request, for a single client.
    """

    numbers: Numbers
    sizes: Floats
    took: Floats
    lead: int = 0
    turnaround: int = 0
    gap: int = 0
    think: int = 0


class LiveModel(TunedModel):
    """A model measured with `Model.load_test`; `options` are further options of it, such as `inputs`."""

    def __init__(self, model: Model, options: Mapping[str, Any]) -> None:
        super().__init__(model)
        self._options = options
        self._restore = self.restorer()
        self._changed = False

    def check(self) -> None:
        """Send one request of the load. Raises TritonError if it cannot be sent, is refused, or fails in the model."""
        mix = LoadPlan.from_options(self._options, self.name).requests(
            LocalTarget(self.model).inputs, self.model.version
        )
        for _ in self.model.infer(mix.request(Lane(0))):
            pass

    def load(self, settings: Settings) -> None:
        """Load the model with settings. Raises the errors of a load."""
        if settings != Settings.from_config(self.config):
            self._changed = True
            self.reload(settings)

    def restore(self) -> None:
        """Load the model as it was at the beginning, unless that is loaded."""
        if self._changed:
            self._restore()
            self._changed = False

    def measure(self, load: Load, seconds: float) -> Measurement:
        """Apply a load for `seconds`. Raises KeyboardInterrupt if that was interrupted, TritonError if all
        requests failed or were answered from a cache.
        """
        record, began, busy = self.record, monotonic_ns(), process_time_ns()
        # given arrivals end by themselves
        how: dict[str, Any] = {} if load.seconds else {"seconds": seconds * 0.8, "warmup": seconds * 0.2}
        options = {**load.options(), **how, **self._options}
        result = run_load_test(self.name, self.model.version, target=LocalTarget(self.model), options=options)
        assert isinstance(result, LoadResult)
        if result.stopped:
            raise KeyboardInterrupt
        row = result.rows[0]
        if row.latency is None:
            if not row.errors:
                raise NothingMeasured(f"No request was answered within {seconds:.1f} s under {load}")
            raise InternalError(f"'{self.name}' cannot be measured under {load}: {next(iter(row.errors))}")
        busy = process_time_ns() - busy
        try:
            recorded = RecordedExecutions(record, since=began)
        except ValueError:
            raise InvalidArgumentError(
                f"'{self.name}' executed nothing under {load}, as its response cache had every answer: give `inputs` "
                "as a function that makes new ones"
            ) from None
        sizes = recorded.batch_column("size")
        mean = float(sizes.mean())
        numbers = Numbers(
            p50=row.latency.p50 * 1e3,
            p99=row.latency.p99 * 1e3,
            rate=row.requests_per_s,
            mean_size=mean,
            requests=row.requests,
        )
        pace = recorded.pace(self.config)
        queued = recorded.request_column("queued")
        think = queued[1:] - recorded.answered[:-1]  # meaningful for a single client only
        return Measurement(
            numbers,
            sizes,
            took=recorded.batch_column("end") - recorded.batch_column("start"),
            lead=pace.lead,
            turnaround=pace.turnaround,
            # requests of this process, and its work for each of them, are sequential
            gap=busy // len(queued),
            think=max(int(np.median(think)), 0) if len(think) else 0,
        )
