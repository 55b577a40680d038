"""The open loop: requests are sent when they are due, not when the server is ready for them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic_ns
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ....core.status import InvalidArgumentError
from .load_target import LoadTarget
from .request_mix import Lane, RequestMix

#: Seconds between two checks whether an outstanding request has ended.
_LOOK = 0.001

#: The spacing of requests that come at a rate.
DISTRIBUTIONS = ("poisson", "constant")
_BLOCK = 1024


class HasArrivals(Protocol):
    """The part of `Recording` with the arrival times of requests, in seconds after the first one."""

    def arrivals(self, model: str) -> NDArray[np.float64]: ...


def due_times(rate: float, distribution: str = "poisson", seed: int = 0) -> Iterator[int]:
    """Yield, without end, the due times of `rate` requests per second, in nanoseconds after the start."""
    if distribution == "constant":
        yield from (round(number * 1e9 / rate) for number in itertools.count())
    random, now = np.random.default_rng(seed), 0.0
    while True:
        for gap in random.exponential(1e9 / rate, _BLOCK).tolist():
            now += gap
            yield int(now)


def explicit_times(arrivals: Sequence[float] | HasArrivals, model: str) -> list[int]:
    """Return the due times of requests, in nanoseconds after the start: from seconds, or from the arrivals of `model`
    in a recording. Raises InvalidArgumentError if there are none.
    """
    seconds = arrivals.arrivals(model) if hasattr(arrivals, "arrivals") else arrivals
    try:
        times = np.sort(np.asarray(seconds, np.float64).reshape(-1))
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"arrivals must be seconds, or a recording, not {arrivals!r}") from None
    if not len(times):
        raise InvalidArgumentError(f"no arrivals: the recording has no requests to model '{model}'")
    if not np.isfinite(times).all():
        raise InvalidArgumentError("arrivals must be finite numbers of seconds")
    return [round(time * 1e9) for time in (times - times[0]).tolist()]


def fire(
    times: Iterable[int],
    lanes: Sequence[Lane],
    target: LoadTarget,
    mix: RequestMix,
    halt: threading.Event,
    most: int,
    now: Callable[[], int] = monotonic_ns,
    wait: Callable[[float], object] | None = None,
) -> None:
    """Send a request at each of `times`, nanoseconds from now, until `halt` is set.

    A request that cannot be sent in time is sent late, and none is left out; its latency counts from its due time.
    Otherwise a server that stalls would look good (coordinated omission). `most`: the number of unfinished requests at
    which the next one waits. `wait`: sleeps for seconds.
    """
    begin, wait = now(), wait or halt.wait
    for due, lane in zip(times, itertools.cycle(lanes)):
        ahead = begin + due - now()
        if ahead > 0:
            wait(ahead / 1e9)
        while target.outstanding() >= most and not halt.is_set():
            wait(_LOOK)
        if halt.is_set():
            break
        target.start(mix.request(lane), begin + due, lane)
    for lane in lanes:
        if (request := mix.last(lane)) is not None:
            target.start(request, now(), lane)
