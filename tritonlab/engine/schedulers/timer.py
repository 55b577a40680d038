"""`Timer`, which wakes schedulers at a given time: one thread per server with a heap of deadlines."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable

from ...core.clock import Clock

_log = logging.getLogger(__name__)

#: Seconds after which the thread looks again: a configuration may have a time too long for a thread to wait.
_LONGEST_PAUSE = 86_400.0


class Timer:
    """Calls of functions at `Clock.now()` nanoseconds, on a daemon thread that starts with the first use."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()  # guards all fields below
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def call_at(self, when: int, function: Callable[[], None]) -> None:
        """Call `function()` once, not before `when`. It must not block; a call too early or twice must be harmless."""
        with self._changed:
            if self._closed:
                return
            heapq.heappush(self._heap, (when, next(self._order), function))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tritonlab timer", daemon=True)
                self._thread.start()
            elif self._heap[0][0] == when:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (not self._heap or self._heap[0][0] > self._clock.now()):
                    pause = (self._heap[0][0] - self._clock.now()) / 1e9 if self._heap else _LONGEST_PAUSE
                    self._changed.wait(min(pause, _LONGEST_PAUSE))
                if self._closed:
                    return
                _, _, function = heapq.heappop(self._heap)
            try:
                function()
            except Exception:
                _log.exception("a timer's function raised")
            del function  # the variable would keep a scheduler and its model alive until the next deadline

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._heap.clear()
            self._changed.notify()
