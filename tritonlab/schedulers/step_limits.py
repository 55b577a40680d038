"""`StepLimits`, which implements `max_inflight_requests`: a bound on the requests of one step that are with its model
at a time, over all requests of the ensemble (rule 5.7.10). If a decoupled step responds faster than the next step can
follow, that step's requests wait here, in order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class _Step:
    __slots__ = ("beginning", "inflight", "waiting")

    def __init__(self) -> None:
        self.inflight = 0
        self.waiting: deque[Callable[[], None]] = deque()
        self.beginning = False


class StepLimits:
    """The limit on the requests of each step, `limit` at a time; 0 means no limit. Any thread may call any method."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()  # guards the rest; nothing begins under it
        self._steps: dict[int, _Step] = {}

    def start(self, step: int, begin: Callable[[], None]) -> None:
        """Call `begin` now, or later, perhaps on another thread, when enough of the step's requests have ended."""
        if not self._limit:
            begin()
            return
        with self._lock:
            self._steps.setdefault(step, _Step()).waiting.append(begin)
        self._begin(step)

    def end(self, step: int) -> None:
        """Record that one of the step's requests has ended, and begin the next."""
        if not self._limit:
            return
        with self._lock:
            self._steps[step].inflight -= 1
        self._begin(step)

    def _begin(self, number: int) -> None:
        """Begin the requests that the limit allows. Only one thread does so at a time, so that a request that ends at
        once does not recurse.
        """
        step = self._steps[number]
        with self._lock:
            if step.beginning:
                return
            step.beginning = True
        while True:
            with self._lock:
                if step.inflight >= self._limit or not step.waiting:
                    step.beginning = False
                    return
                step.inflight += 1
                begin = step.waiting.popleft()
            begin()
