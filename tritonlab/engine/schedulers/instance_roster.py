"""`InstanceRoster`, the instances of a scheduler, and their readiness for a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from ..execution.rate_limiter import RateLimiter
from .scheduler import Instance

#: Called, without a lock held, when a leaving instance gets no more batches.
Left = Callable[[], None]


class InstanceRoster:
    """The state of every instance: idle, with a batch, or away while its stub is replaced. The scheduler's lock guards
    it.

    `take` takes an idle instance. With a `limiter` it takes the next one by priority, or returns None while resources
    are missing, and `retry` is called when they are free; meanwhile requests stay queued, and the batch grows (rule
    5.10.2).
    """

    def __init__(self, limiter: RateLimiter | None, retry: Callable[[], None]) -> None:
        self.idle: deque[Instance] = deque()
        self.take: Callable[[], Instance | None] = self.idle.popleft
        if limiter is not None:
            self.take = partial(self._take_admitted, limiter, retry)
        self._all: set[Instance] = set()
        self._away: set[Instance] = set()
        self._leaving: dict[Instance, Left] = {}

    def __len__(self) -> int:
        return len(self._all)

    @property
    def settled(self) -> bool:
        """Return whether no instance has a batch or is about to get one."""
        return len(self.idle) + len(self._away) >= len(self._all)

    def add(self, instance: Instance) -> None:
        """Add an instance. It counts as having a batch until it is `back`."""
        self._all.add(instance)

    def back(self, instance: Instance) -> Left | None:
        """Make an instance idle. If it was leaving it has left now; return its `left` to be called then, else None."""
        self._away.discard(instance)
        if instance in self._leaving:
            return self._leaving.pop(instance)
        self.idle.append(instance)
        return None

    def away(self, instance: Instance) -> bool:
        """Give an instance no batch until it is `back`. Returns whether it was idle."""
        self._away.add(instance)
        return self._take(instance)

    def leave(self, instance: Instance, left: Left) -> bool:
        """Give an instance no more batches. Returns whether it has none now; otherwise `back` returns `left`."""
        if self._take(instance) or instance not in self._all:
            return True
        self._leaving[instance] = left
        return False

    def remove(self, instance: Instance) -> Left | None:
        """Remove an instance."""
        self._all.discard(instance)
        self._away.discard(instance)
        self._take(instance)
        return self._leaving.pop(instance, None)

    def _take(self, instance: Instance) -> bool:
        if instance not in self.idle:
            return False
        self.idle.remove(instance)
        return True

    def _take_admitted(self, limiter: RateLimiter, retry: Callable[[], None]) -> Instance | None:
        instance: Instance = limiter.first(self.idle)
        if not limiter.admit(instance, retry):
            return None
        self.idle.remove(instance)
        return instance
