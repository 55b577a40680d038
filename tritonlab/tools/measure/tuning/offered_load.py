"""The load for trying settings, in a replay and with `Model.load_test`: a number of clients, a rate, or recorded
arrivals.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....core.status import InvalidArgumentError
from .replay import NEVER, FixedArrivals, ReplayedRequest, Source
from .service_times import Floats


@dataclass(frozen=True)
class RequestPattern:
    """The measured pattern of requests and executions, besides the median time by batch size.

    `ratios`: the ratios of single executions to the median of their size. `gap`: nanoseconds between two requests, of
    all clients together; `think`: from the end of an execution to the next request of the same client.
    """

    ratios: Floats
    gap: int = 0
    think: int = 0


@dataclass(frozen=True)
class Load:
    """One level of load: `concurrency` (clients), or `rate` (per second), or `seconds`, the arrivals of requests."""

    concurrency: int = 0
    rate: float = 0.0
    seconds: tuple[float, ...] = ()

    @property
    def closed(self) -> bool:
        return self.concurrency > 0

    def options(self) -> dict[str, Any]:
        """Return the load as options of `load_test`."""
        if self.closed:
            return {"concurrency": self.concurrency}
        return {"arrivals": self.seconds} if self.seconds else {"request_rate": self.rate}

    def source(self, pattern: RequestPattern, requests: int, seed: int = 0) -> Source:
        """Return a source of `requests` requests of this load, for a replay."""
        random = np.random.default_rng(seed)
        if self.closed:
            return Clients(self.concurrency, pattern, requests, random)
        if self.seconds:
            times = np.asarray(self.seconds[:requests]) * 1e9
        else:
            times = np.cumsum(random.exponential(1e9 / self.rate, requests))
        ratios = random.choice(pattern.ratios, len(times)).tolist()
        whole = (times - times[0]).astype(np.int64).tolist()
        return FixedArrivals([_request(n, at, ratio) for n, (at, ratio) in enumerate(zip(whole, ratios, strict=True))])

    def __str__(self) -> str:
        if self.closed:
            return f"{self.concurrency} client{'s' * (self.concurrency > 1)}"
        return f"{len(self.seconds):,} recorded arrivals" if self.seconds else f"{self.rate:g} requests/s"


class Clients:
    """A source of requests from clients that each send after their response, `requests` in all."""

    def __init__(self, count: int, pattern: RequestPattern, requests: int, random: np.random.Generator) -> None:
        self._ratios = random.choice(pattern.ratios, requests).tolist()
        # the gaps vary: settings that are best for one gap only are not good
        self._gaps = random.exponential(pattern.gap, requests).astype(np.int64).tolist()
        self._think = pattern.think
        self._left = requests
        self._free = 0  # the time at which the clients can send the next one: they share a processor
        self._due = [0] * count
        self.due = 0

    def take(self) -> ReplayedRequest:
        at = heapq.heappop(self._due)
        self._left -= 1
        self._free = at + self._gaps[self._left]
        self._next()
        return _request(self._left, at, self._ratios[self._left])

    def answered(self, requests: Sequence[ReplayedRequest], at: int) -> None:
        for _ in requests:
            heapq.heappush(self._due, at + self._think)
        self._next()

    def _next(self) -> None:
        if not self._due or not self._left:
            self.due = NEVER
            return
        if self._due[0] < self._free:
            heapq.heapreplace(self._due, self._free)
        self.due = self._due[0]


def _request(number: int, at: int, ratio: float) -> ReplayedRequest:
    return ReplayedRequest(number, queue_start=at, arrived=at, batch_size=1, took=ratio, base=1.0)


def loads_of(
    concurrency: int | None, request_rate: float | None, arrivals: Sequence[float] | None, most: int
) -> list[Load]:
    """Return the requested levels of load; by default numbers of clients, the powers of two up to `most`. Raises
    InvalidArgumentError.
    """
    loads = [value for value in (concurrency, request_rate, arrivals) if value is not None]
    if len(loads) > 1:
        raise InvalidArgumentError("give only one of concurrency, request_rate and arrivals")
    if concurrency is not None:
        if concurrency < 1:
            raise InvalidArgumentError(f"concurrency must be 1 or more, not {concurrency}")
        return [Load(concurrency=concurrency)]
    if request_rate is not None:
        if request_rate <= 0:
            raise InvalidArgumentError(f"a request rate must be more than 0, not {request_rate}")
        return [Load(rate=request_rate)]
    if arrivals is not None:
        if len(arrivals) < 2:
            raise InvalidArgumentError("arrivals must be two or more")
        times = np.sort(np.asarray(arrivals, np.float64))
        return [Load(seconds=tuple((times - times[0]).tolist()))]
    return [Load(concurrency=1 << n) for n in range(most.bit_length()) if 1 << n <= most]
