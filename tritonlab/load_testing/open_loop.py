"""The open loop: requests are sent when they are due, not when the server is ready for them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from time import monotonic_ns

from .load_target import LoadTarget
from .request_mix import Lane, RequestMix

#: Seconds between two checks whether an outstanding request has ended.
_LOOK = 0.001


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
    """Send a request at each of `times`, nanoseconds from now, until `halt` is set. One that cannot be sent in time is
    sent late, none is left out, and its latency counts from when it was due: else a server that stalls would look good
    (coordinated omission). `most`: while so many have not ended, the next ones wait. `wait`: sleeps for seconds.
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
