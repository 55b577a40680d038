"""The options of a load test: the levels of load, one row of the result each, and the time of each measurement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ....core.status import InvalidArgumentError
from ....core.unknown_option import UnknownOption
from .load_row import STABILITY, STABLE_WINDOWS
from .open_loop import DISTRIBUTIONS, explicit_times
from .request_mix import ModelInputs, RequestMix

#: The kinds of load, each with perf_analyzer's word for it.
_MODES = CONCURRENCY, REQUEST_RATE, ARRIVALS = "concurrency", "request_rate", "arrivals"

#: The options for the requests; they are the ones of RequestMix.
_MIX = ("inputs", "weights", "shapes", "batch", "parameters", "priority", "timeout", "sequence_length", "seed")


@dataclass(frozen=True)
class LoadPlan:
    """The levels and times of a load test, in seconds. `times`: the due times of requests with given arrivals. `mix`:
    the options for the requests.
    """

    mode: str = CONCURRENCY
    levels: tuple[float, ...] = ()
    times: tuple[int, ...] = ()
    mix: Mapping[str, Any] = field(default_factory=dict)
    distribution: str = "poisson"
    seconds: float | None = None
    window: float = 1.0
    max_trials: int = 10
    warmup: float = 0.5
    percentile: float | None = None
    stability: float = STABILITY
    sequences: int = 4
    seed: int = 0
    max_outstanding: int = 10_000
    output_tokens: Any = None

    def requests(self, model: ModelInputs, version: int) -> RequestMix:
        return RequestMix(model, version, **self.mix)

    @staticmethod
    def from_options(options: Mapping[str, Any], model: str) -> LoadPlan:
        """Read options. Raises InvalidArgumentError for invalid values, UnknownOption for unknown names."""
        own = [name for name in LoadPlan.__dataclass_fields__ if name not in ("mode", "levels", "times", "mix")]
        UnknownOption.check("load_test", options, sorted({*own, *_MIX, *_MODES}))
        modes = [mode for mode in _MODES if options.get(mode) is not None]
        if len(modes) > 1:
            raise InvalidArgumentError(f"give only one of {' and '.join(modes)}")
        mode = modes[0] if modes else CONCURRENCY
        values = {name: options[name] for name in own if name in options}
        plan = LoadPlan(mode, mix={name: options[name] for name in _MIX if name in options}, **values)
        plan._check()
        if mode == ARRIVALS:
            times = tuple(explicit_times(options[ARRIVALS], model))
            if plan.seconds is not None:
                times = tuple(time for time in times if time <= plan.seconds * 1e9)
            span = max(times[-1] / 1e9, 1e-9)
            return replace(plan, times=times, levels=(len(times) / span,))
        return replace(plan, levels=_levels(mode, options.get(mode, 1)))

    def _check(self) -> None:
        if self.distribution not in DISTRIBUTIONS:
            known = " or ".join(DISTRIBUTIONS)
            raise InvalidArgumentError(f"distribution '{self.distribution}' does not exist: use {known}")
        options = {**vars(self), **self.mix}
        for name in ("seconds", "window", "max_outstanding", "sequences", "sequence_length", "batch"):
            value = options.get(name)
            if value is not None and not value > 0:
                raise InvalidArgumentError(f"{name} must be more than 0, not {value}")
        if self.max_trials < STABLE_WINDOWS:
            raise InvalidArgumentError(f"max_trials must be {STABLE_WINDOWS} or more, as so many windows have to agree")
        if self.percentile is not None and not 0 < self.percentile < 100:
            raise InvalidArgumentError(f"percentile must be between 0 and 100, not {self.percentile}")


def _levels(mode: str, value: Any) -> tuple[float, ...]:
    """Return the levels of load: one number, or several."""
    try:
        levels = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
        if not levels or not all(level > 0 for level in levels):
            raise InvalidArgumentError(f"{mode} must be more than 0, or a list of such numbers, not {value!r}")
        if mode == CONCURRENCY:
            if any(level % 1 for level in levels):
                raise InvalidArgumentError(f"concurrency must be a whole number, not {value!r}")
            return tuple(int(level) for level in levels)
    except TypeError:
        raise InvalidArgumentError(f"{mode} must be a number or a list of numbers, not {value!r}") from None
    return levels
