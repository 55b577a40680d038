"""`replay` runs arrivals through the batcher that serves, `dynamic_batch_scheduler.decide`, in simulated time.

The queue, its policies, the instances' roster and every decision are the server's; only the work of an execution is
left out: an instance is busy for the time that `Pace.took` returns. In the same nanosecond, first instances become
idle, then requests arrive, then a delay ends.
"""

from __future__ import annotations

import copy
import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from ....core.inference.infer_request import InferenceRequest
from ....core.percentiles import percentiles
from ....core.status import UnavailableError
from ....engine.execution.payload import Payload
from ....engine.schedulers.dynamic_batch import BatchConfig
from ....engine.schedulers.dynamic_batch_scheduler import decide
from ....engine.schedulers.instance_roster import InstanceRoster
from ....engine.schedulers.policy_queue import ArrivalQueue, PolicyQueue, QueuePolicies
from .service_times import Floats

NEVER = 1 << 62


@dataclass(slots=True, eq=False)
class ReplayedRequest:
    """A request as `decide` takes it. Times are nanoseconds.

    `arrived`: the start of its client's wait. `took`: the time of its execution; `base`: the time of an execution of
    that size by the fit; their ratio is the deviation of that execution. `number`: its index among the executed
    arrivals, or -1. `cancelled_at`: when the batcher noticed the cancellation by its client, 0 if there was none.
    `late_from`: when the batcher found that it had timed out; NEVER if it had not.
    """

    number: int
    queue_start: int
    arrived: int
    batch_size: int
    took: float
    base: float
    inputs: dict[str, Any] = field(default_factory=dict)
    priority: int = 0
    timeout: int = 0
    cancelled_at: int = 0
    cancelled: bool = False
    late_from: int = NEVER
    prefix: ClassVar[str] = ""


class Source(Protocol):
    """The arrivals of a replay, oldest first."""

    #: the time of the next request, nanoseconds; NEVER if there is none
    due: int

    def take(self) -> ReplayedRequest:
        """Return the request that is due."""
        ...

    def answered(self, requests: Sequence[ReplayedRequest], at: int) -> None:
        """Record the response times of these requests, at the start of their execution."""
        ...


class FixedArrivals:
    """A source of arrivals that are independent of the responses: recorded ones, or at a rate."""

    def __init__(self, arrivals: Sequence[ReplayedRequest]) -> None:
        self._left = list(reversed(arrivals))
        self.due = self._left[-1].queue_start if self._left else NEVER

    def take(self) -> ReplayedRequest:
        taken = self._left.pop()
        self.due = self._left[-1].queue_start if self._left else NEVER
        return taken

    def answered(self, requests: Sequence[ReplayedRequest], at: int) -> None:
        pass


@dataclass(frozen=True)
class Pace:
    """The times of executions: `time` by batch size; `lead` from the decision to the start, and `turnaround` from the
    end until the instance can take its next batch, nanoseconds.
    """

    time: Callable[[int], float]
    lead: int = 0
    turnaround: int = 0

    def took(self, first: ReplayedRequest, size: int) -> int:
        """Return the time of a batch, with the deviation of the recorded execution of its first request."""
        return round(first.took * (self.time(size) / first.base))


@dataclass
class ReplayedBatches:
    """The batches of a replay in the order of their forming, a list for each fact. Times are nanoseconds."""

    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    lane: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    reason: list[str] = field(default_factory=list)
    requests: list[list[ReplayedRequest]] = field(default_factory=list)
    #: requests that the queue's policy refused, that timed out, or that their clients cancelled
    refused: int = 0

    def numbers(self, skip: float = 0.0) -> Numbers:
        """Sum up all batches except the first share of them, `skip`."""
        first = int(len(self.start) * skip)
        arrived, answered = self._times(first)
        ends, sizes = np.array(self.end[first:], float), np.array(self.size[first:], float)
        return Numbers.from_times(answered - arrived, arrived, ends, sizes)

    @property
    def latency(self) -> Floats:
        """The latency of each request, in the order of the batches."""
        arrived, answered = self._times(0)
        return answered - arrived

    def _times(self, first: int) -> tuple[Floats, Floats]:
        """Return the arrival and response times of the requests in the batches from `first` on."""
        batches = self.requests[first:]
        ends, counts = np.array(self.end[first:], float), np.array([len(batch) for batch in batches], int)
        arrived = np.array([request.arrived for batch in batches for request in batch], float)
        return arrived, np.repeat(ends, counts)


@dataclass(frozen=True)
class Numbers:
    """The sums of executions: latencies from a request's arrival to the end of its execution, in nanoseconds; `rate` in
    requests per second; `mean_size`, the mean batch size. NaN if nothing was executed. `busy`: the time in which any
    request waited or was executed, NaN if unknown.
    """

    p50: float
    p99: float
    rate: float
    mean_size: float
    requests: int
    busy: float = math.nan

    @property
    def busy_rate(self) -> float:
        """Return the requests per second of the busy time."""
        return self.requests / max(self.busy, 1.0) * 1e9

    @staticmethod
    def busy_time(arrived: Floats, ends: Floats) -> float:
        """Return the total time in which any of the requests was waiting or executed."""
        order = np.argsort(arrived)
        arrived, ends = arrived[order], ends[order]
        free = np.concatenate([arrived[:1], np.maximum.accumulate(ends)[:-1]])
        return float(np.maximum(ends - np.maximum(arrived, free), 0).sum())

    @staticmethod
    def from_times(latency: Floats, arrived: Floats, ends: Floats, sizes: Floats) -> Numbers:
        if not len(latency):
            nan = float("nan")
            return Numbers(p50=nan, p99=nan, rate=nan, mean_size=nan, requests=0)
        p50, p99 = percentiles(latency, 50, 99)
        span = max(float(ends.max() - arrived.min()), 1.0)
        rate, busy = len(latency) / span * 1e9, Numbers.busy_time(arrived, arrived + latency)
        return Numbers(p50=p50, p99=p99, rate=rate, mean_size=float(sizes.mean()), requests=len(latency), busy=busy)

    def to_dict(self) -> dict[str, float | None]:
        """Return the numbers as JSON values; None if nothing was executed."""
        busy = {"busy_seconds": self.busy / 1e9, "requests_per_busy_second": self.busy_rate}
        found = {
            **({} if math.isnan(self.busy) else busy),
            "p50_ms": self.p50 / 1e6,
            "p99_ms": self.p99 / 1e6,
            "requests_per_second": self.rate,
            "mean_batch_size": self.mean_size,
        }
        return {
            **{name: None if math.isnan(value) else value for name, value in found.items()},
            "requests": self.requests,
        }


class _Lane:
    """An instance, which is only a number in a replay."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"lane {number}"

    def execute(self, payload: Payload) -> None:
        raise AssertionError("nothing is executed in a replay")


def replay(
    source: Source,
    config: BatchConfig,
    policies: QueuePolicies | None,
    lanes: int,
    pace: Pace,
    stop: Callable[[], bool] = lambda: False,
) -> ReplayedBatches:
    """Return the batches that these arrivals would have formed on `lanes` instances. `stop` ends the replay early."""
    queue: ArrivalQueue | PolicyQueue = ArrivalQueue() if policies is None else PolicyQueue(policies)
    roster = InstanceRoster(None, lambda: None)
    for number in range(lanes):
        roster.back(_Lane(number))
    busy: list[tuple[int, int, _Lane]] = []
    cancels: list[tuple[int, int, ReplayedRequest]] = []
    replayed, wake, rounds, numbers = ReplayedBatches(), 0, 0, itertools.count()
    while True:
        due, free = source.due, busy[0][0] if busy else NEVER
        now = min(due, free, wake or NEVER)
        rounds += 1
        if now == NEVER or (not rounds & 0x3FF and stop()):
            return replayed
        if free <= now:
            roster.back(heapq.heappop(busy)[2])
        elif due <= now:
            request = source.take()
            if request.cancelled_at:
                request = copy.copy(request)  # another replay may have the same arrivals
                heapq.heappush(cancels, (request.cancelled_at, rounds, request))
            try:
                queue.append(cast(InferenceRequest, request))
            except UnavailableError:
                replayed.refused += 1
        while cancels and cancels[0][0] <= now:
            heapq.heappop(cancels)[2].cancelled = True
        work, wake = decide(queue, roster, config, now)
        for instance, taken, batch in work:
            requests = cast(list[ReplayedRequest], taken)
            if instance is None:
                replayed.refused += len(requests)
                continue
            lane, start, size = cast(_Lane, instance), now + pace.lead, batch.size
            if queue.refuses and any(request.late_from <= now for request in requests):
                # as in the server for requests that time out on the way to the instance
                requests = [request for request in requests if now < request.late_from]
                size = sum(request.batch_size for request in requests)
                replayed.refused += len(taken) - len(requests)
                if not requests:
                    heapq.heappush(busy, (start, next(numbers), lane))
                    continue
            end = start + pace.took(requests[0], size)
            heapq.heappush(busy, (end + pace.turnaround, next(numbers), lane))
            replayed.start.append(start)
            replayed.end.append(end)
            replayed.lane.append(lane.number)
            replayed.size.append(size)
            replayed.reason.append(batch.reason)
            replayed.requests.append(requests)
            source.answered(requests, end)
