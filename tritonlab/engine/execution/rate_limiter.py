"""The rate limiter, which decides which instance executes next, where executions share resources (rule 5.10.2).

A server without `rate_limit="execution_count"` has no RateLimiter, and its requests pay nothing. With one, a scheduler
that has a batch for an idle instance calls `admit`. A refused instance waits for its turn without a payload: its
scheduler forms the batch only when the resources are free, so the batch grows meanwhile, as on Triton.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ...core.status import InvalidArgumentError
from ..life.instance_plan import InstanceEvents, InstanceT

#: The device number of resources that all devices share; in limits, of every device without its own limit.
GLOBAL = -1

#: Name -> amount, everywhere or by device.
Limits = Mapping[str, int | Mapping[int, int]]
MODES = ("off", "execution_count")


def make_rate_limiter(mode: str, limits: Limits | None) -> RateLimiter | None:
    """Make the limiter of `--rate-limit` and `--rate-limit-resource`; None for `off`. Raises InvalidArgumentError."""
    if mode not in MODES:
        raise InvalidArgumentError(f"unknown rate limit mode '{mode}', expected one of {', '.join(MODES)}")
    return RateLimiter(limits or {}) if mode != "off" else None


class _Context:
    """The limiter's record of an instance. `needs` maps (resource, device) to an amount."""

    __slots__ = ("executions", "holds", "needs", "priority", "retry")

    def __init__(self, config: Any, device_id: int) -> None:
        self.needs = {(r.name, GLOBAL if getattr(r, "global") else device_id): r.count for r in config.resources}
        self.priority: int = max(config.priority, 1)
        self.executions = 0
        self.holds = False
        self.retry: Callable[[], None] = lambda: None

    @property
    def rank(self) -> int:
        """The rank; the lowest goes first. An instance of priority 3 executes a third as often as one of priority 1."""
        return (self.executions + 1) * self.priority


class TurnWait(NamedTuple):
    """The reason why an instance has no turn yet. `first`: the waiting instance that is served next, perhaps this one;
    `holders`: the executing instances that hold its `resources`.
    """

    first: Any
    resources: list[str]
    holders: list[Any]


class RateLimiter:
    """The resources of a server and the instances that wait for them. `limits` are the given amounts; other resources
    do not exist. Without any limits each resource has the largest amount that an instance needs (measured).

    Guarantees: an instance has all its resources or none. Only the first waiting instance by rank may take resources,
    so that many small ones do not starve a big one; others that would fit wait behind it, as on Triton. `retry`
    callables are called without the lock, one at a time.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()  # guards all fields below
        self._contexts: dict[Any, _Context] = {}
        self._used: dict[tuple[str, int], int] = {}
        self._waiting: list[_Context] = []  # oldest first
        self._turn: _Context | None = None  # the instance that was told to try again

    def register(self, instance: Any, config: Any, device_id: int) -> None:
        """Add an instance with its group's `rate_limiter`. Raises InvalidArgumentError with Triton's text if it could
        never execute.
        """
        context = _Context(config, device_id)
        with self._lock:
            for key, count in context.needs.items():
                limit = self._configured_limit(key)
                if limit is not None and count > limit:
                    raise InvalidArgumentError(
                        f'Resource count for "{key[0]}" is limited to {limit} which will prevent scheduling of one or '
                        f"more model instances, the minimum required count is {count}"
                    )
            known = [*context.needs, *(key for other in self._contexts.values() for key in other.needs)]
            shared = {name for name, device in known if device == GLOBAL}
            for name, device in known:
                if device != GLOBAL and name in shared:
                    raise InvalidArgumentError(
                        f'Resource "{name}" is present as both global and device-specific resource in the model '
                        "configuration."
                    )
            self._contexts[instance] = context

    def unregister(self, instance: Any) -> None:
        """Remove an instance with its resources and its wait; ignores an unknown one."""
        with self._lock:
            context = self._contexts.pop(instance, None)
            if context is None:
                return
            self._free(context)
            self._waiting = [waiting for waiting in self._waiting if waiting is not context]
        self.serve()

    # -- for schedulers

    def first(self, idle: Collection[Any]) -> Any:
        """Return the next of a model's idle instances by priority."""
        return min(idle, key=lambda instance: self._contexts[instance].rank)

    def admit(self, instance: Any, retry: Callable[[], None]) -> bool:
        """Give the instance its resources for one execution. If it returns False the instance waits, and `retry()` is
        called at its turn, unneeded by a scheduler with nothing to execute. Called under the scheduler's lock.
        """
        with self._lock:
            context = self._contexts[instance]
            context.retry = retry
            waiting = [c for c in self._waiting if c is not context]
            first = self._turn or min([*waiting, context], key=lambda c: c.rank)
            if first is context and self._fits(context):
                self._waiting = waiting
                for key, count in context.needs.items():
                    self._used[key] = self._used.get(key, 0) + count
                context.holds = True
                context.executions += 1
                return True
            if len(waiting) == len(self._waiting):
                self._waiting.append(context)
            return False

    def release(self, instance: Any) -> None:
        """Take the resources back after an execution. No instance gets a turn before `serve`, so this one may call
        `admit` first.
        """
        with self._lock:
            context = self._contexts.get(instance)
            if context is not None:
                self._free(context)

    def serve(self) -> None:
        """Give turns while the resources of the first waiting instance are free. Called without any lock."""
        while True:
            with self._lock:
                if self._turn is not None or not self._waiting:
                    return  # the thread that gives turns now will check again
                context = min(self._waiting, key=lambda c: c.rank)
                if not self._fits(context):
                    return
                self._waiting.remove(context)
                self._turn = context
            try:
                context.retry()
            finally:
                with self._lock:
                    self._turn = None

    def wait_of(self, instance: Any) -> TurnWait | None:
        """Return the reason of an instance's wait; None if it does not wait."""
        with self._lock:
            if self._contexts.get(instance) not in self._waiting:
                return None
            first = min(self._waiting, key=lambda c: c.rank)
            missing = [key for key, count in first.needs.items() if self._used.get(key, 0) + count > self._amount(key)]
            holders = [one for one, c in self._contexts.items() if c.holds and not c.needs.keys().isdisjoint(missing)]
            turn = next(one for one, context in self._contexts.items() if context is first)
            return TurnWait(turn, sorted({name for name, _ in missing}), holders)

    def events(self, events: InstanceEvents[InstanceT]) -> InstanceEvents[InstanceT]:
        """Return `events` changed: an instance returns its resources after each execution and when its stub dies."""

        def idle(instance: Any) -> None:
            self.release(instance)
            events.idle(instance)
            self.serve()

        def away(instance: Any) -> bool:
            was_idle = events.away(instance)
            # a payload already on its way will execute without resources: once, in the new stub
            self.release(instance)
            self.serve()
            return was_idle

        return replace(events, idle=idle, away=away)

    # -- under the lock

    def _configured_limit(self, key: tuple[str, int]) -> int | None:
        """Return the amount in the server's options; None if they name no resource at all."""
        if not self._limits:
            return None
        name, device = key
        limit = self._limits.get(name, 0)
        if isinstance(limit, int):
            return limit
        return max(limit.values(), default=0) if device == GLOBAL else limit.get(device, limit.get(GLOBAL, 0))

    def _fits(self, context: _Context) -> bool:
        return all(self._used.get(key, 0) + count <= self._amount(key) for key, count in context.needs.items())

    def _amount(self, key: tuple[str, int]) -> int:
        limit = self._configured_limit(key)
        return max(c.needs.get(key, 0) for c in self._contexts.values()) if limit is None else limit

    def _free(self, context: _Context) -> None:
        if context.holds:
            context.holds = False
            for key, count in context.needs.items():
                self._used[key] -= count

    def __repr__(self) -> str:
        with self._lock:
            used = ", ".join(
                f"{name}{'' if device == GLOBAL else f'@{device}'} {count}/{self._amount((name, device))}"
                for (name, device), count in sorted(self._used.items())
                if any((name, device) in c.needs for c in self._contexts.values())
            )
            return f"<RateLimiter [{used or 'nothing in use'} | {len(self._waiting)} waiting]>"
