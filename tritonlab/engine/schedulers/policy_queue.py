"""`PolicyQueue`, which orders requests by priority level and queue policy (rules 5.5.8, 5.5.9): which may wait, for how
long, and in which order. It has no lock and no clock.

A plain dynamic batcher keeps its requests in an `ArrivalQueue`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core.config.model_config import ModelConfig
from ...core.inference.infer_request import InferenceRequest
from ...core.status import UnavailableError

#: Triton keeps nanoseconds, and its times since the epoch, in 64 bits (measured). From this duration on, more than 500
#: years, a deadline wraps around into the past.
_WRAPS = (1 << 64) - (1 << 61)
#: The number of levels that are kept even if empty.
_MOST_EMPTY = 64


@dataclass(frozen=True)
class QueuePolicy:
    """The policy of one level. `timeout` is in nanoseconds; 0 means none, and a `max_size` of 0 no limit.

    With `delay` a request that times out goes behind all others of its level instead of being refused. `override`:
    whether a request's own shorter timeout counts.
    """

    max_size: int = 0
    timeout: int = 0
    delay: bool = False
    override: bool = False

    def deadline(self, request: InferenceRequest) -> int | None:
        """Return the request's deadline, None if it has none. Its own timeout can only shorten the level's timeout; if
        the level has none it has no effect (measured).
        """
        timeout = self.timeout
        if self.override and 0 < request.timeout * 1000 < timeout:
            timeout = request.timeout * 1000
        if not timeout:
            return None
        timeout %= 1 << 64
        return request.queue_start + (timeout if timeout < _WRAPS else 0)

    @staticmethod
    def from_message(policy: Any) -> QueuePolicy:
        return QueuePolicy(
            max_size=policy.max_queue_size,
            timeout=policy.default_timeout_microseconds * 1000,
            delay=policy.timeout_action == policy.DELAY,
            override=policy.allow_timeout_override,
        )


@dataclass(frozen=True)
class QueuePolicies:
    """The policies of a model with `count` levels, up to 2^64 - 1. `special` has the policies of single levels (1 is
    the highest), `default` is the policy of all others. `default_level` is for priority 0 and priorities out of range.
    """

    special: Mapping[int, QueuePolicy] = field(default_factory=dict)
    default: QueuePolicy = QueuePolicy()
    count: int = 1
    default_level: int = 1

    @staticmethod
    def from_config(config: ModelConfig) -> QueuePolicies | None:
        """Return the policies of a normalised configuration; None if all requests are equal and wait without limit."""
        if not config.HasField("dynamic_batching"):
            return None
        batching = config.dynamic_batching
        count = max(1, batching.priority_levels)
        written = batching.priority_queue_policy
        special = {level: QueuePolicy.from_message(written[level]) for level in written if level <= count}
        default = QueuePolicy.from_message(batching.default_queue_policy)
        policies = QueuePolicies(special, default, count, batching.default_priority_level or 1)
        first = policies.policy(1)
        if count == 1 and first == QueuePolicy(override=first.override, delay=first.delay):
            return None
        return policies

    def level(self, priority: int) -> int:
        """Return the level for a request's priority."""
        return priority if 1 <= priority <= self.count else self.default_level

    def policy(self, level: int) -> QueuePolicy:
        return self.special.get(level, self.default)


class _Level:
    """The requests of one level: `waiting` by arrival, each with its deadline, and `delayed`, the timed-out ones."""

    __slots__ = ("delayed", "number", "policy", "waiting")

    def __init__(self, number: int, policy: QueuePolicy) -> None:
        self.number = number
        self.policy = policy
        self.waiting: deque[tuple[int | None, InferenceRequest]] = deque()
        self.delayed: deque[InferenceRequest] = deque()

    def __len__(self) -> int:
        return len(self.waiting) + len(self.delayed)

    def __iter__(self) -> Iterator[InferenceRequest]:
        for _, request in self.waiting:
            yield request
        yield from self.delayed


class ArrivalQueue(deque[InferenceRequest]):
    """A queue in order of arrival whose requests wait without a limit. It has the methods of `PolicyQueue`."""

    timed = refuses = False

    def expire(self, now: int) -> list[InferenceRequest]:
        return []

    def late(self, requests: Iterable[InferenceRequest], now: int) -> list[InferenceRequest]:
        return []

    def next_deadline(self) -> int | None:
        return None

    def take_out(self, requests: Collection[InferenceRequest]) -> None:
        gone = {id(request) for request in requests}
        remaining = [request for request in self if id(request) not in gone]
        self.clear()
        self.extend(remaining)


class PolicyQueue:
    """A queue in order of execution: higher levels first; within a level by arrival, the delayed ones last."""

    def __init__(self, policies: QueuePolicies) -> None:
        self._policies = policies
        #: the levels used by requests, highest first, and by number
        self._levels: list[_Level] = []
        self._by_number: dict[int, _Level] = {}
        used = [*policies.special.values(), *([policies.default] if policies.count > len(policies.special) else [])]
        #: whether any request has a deadline
        self.timed = any(policy.timeout for policy in used)
        #: whether a timeout may end a request
        self.refuses = any(policy.timeout and not policy.delay for policy in used)

    def append(self, request: InferenceRequest) -> None:
        """Queue a request. Raises UnavailableError if its level is full."""
        number = self._policies.level(request.priority)
        level = self._by_number.get(number)
        if level is None:
            level = self._add(number)
        if level.policy.max_size and len(level) >= level.policy.max_size:
            raise UnavailableError(f"{request.prefix}Exceeds maximum queue size")
        level.waiting.append((level.policy.deadline(request), request))

    def _add(self, number: int) -> _Level:
        """Add a level. A client may use any number, so empty levels cannot all be kept."""
        if len(self._levels) >= _MOST_EMPTY:
            self._by_number = {level.number: level for level in self._levels if len(level)}
        level = self._by_number[number] = _Level(number, self._policies.policy(number))
        self._levels = [self._by_number[each] for each in sorted(self._by_number)]
        return level

    def popleft(self) -> InferenceRequest:
        """Take the first request. Raises IndexError if there is none."""
        for level in self._levels:
            if level.waiting:
                return level.waiting.popleft()[1]
            if level.delayed:
                return level.delayed.popleft()
        raise IndexError("the queue is empty")

    def expire(self, now: int) -> list[InferenceRequest]:
        """Handle timed-out requests: remove and return the ones to refuse, and move the ones to delay."""
        refused: list[InferenceRequest] = []
        for level in self._levels:
            if not level.policy.timeout:
                continue
            late = [request for until, request in level.waiting if until is not None and until <= now]
            if not late:
                continue
            level.waiting = deque(entry for entry in level.waiting if entry[0] is None or entry[0] > now)
            if level.policy.delay:
                level.delayed.extend(late)
            else:
                refused += late
        return refused

    def late(self, requests: Iterable[InferenceRequest], now: int) -> list[InferenceRequest]:
        """Return the requests, already taken out of the queue, that must be refused because they timed out."""
        found = []
        for request in requests:
            policy = self._policies.policy(self._policies.level(request.priority))
            if not policy.delay and (until := policy.deadline(request)) is not None and until <= now:
                found.append(request)
        return found

    def next_deadline(self) -> int | None:
        """Return the earliest time at which `expire` has work; None if there is none."""
        return min((until for level in self._levels for until, _ in level.waiting if until is not None), default=None)

    def take_out(self, requests: Collection[InferenceRequest]) -> None:
        """Remove these requests from wherever they are queued."""
        gone = {id(request) for request in requests}
        for level in self._levels:
            level.waiting = deque(entry for entry in level.waiting if id(entry[1]) not in gone)
            level.delayed = deque(request for request in level.delayed if id(request) not in gone)

    def clear(self) -> None:
        for level in self._levels:
            level.waiting.clear()
            level.delayed.clear()

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def __iter__(self) -> Iterator[InferenceRequest]:
        for level in self._levels:
            yield from level

    def __repr__(self) -> str:
        levels = ", ".join(f"{each.number}: {len(each.waiting)}+{len(each.delayed)}" for each in self._levels)
        return f"<PolicyQueue [waiting+delayed by level: {levels}]>"
