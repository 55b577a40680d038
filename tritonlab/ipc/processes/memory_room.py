"""The memory that this process may still allocate. If cgroups limit memory an allocation does not fail: the operating
system kills a process instead, and the server is often the largest."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from .out_of_memory import memory_left

#: Bytes that stay free: for small requests, and for models between two measurements.
RESERVE = 32 << 20
#: Seconds for which a measurement, which takes 0.1 to 0.3 ms, is valid: longer for less than a sixteenth of the rest.
_SHORT, _LONG = 0.02, 1.0
_LITTLE = 16
#: Seconds that a caller waits for memory to be given back, and between two such attempts.
_PATIENCE, _AGAIN = 0.3, 0.1


class MemoryRoom:
    """The memory that is left. Any thread may call it. Two threads at once may be promised the same memory; the reserve
    covers that."""

    def __init__(self, left: Callable[[], int] = memory_left, now: Callable[[], float] = time.monotonic) -> None:
        self._givers: set[weakref.WeakMethod[Callable[[], Any]]] = set()
        self._memory_left = left
        self._now = now
        self._left = 0
        self._looked = self._tried = float("-inf")

    def add(self, give_back: Callable[[], Any]) -> None:
        """Call this method, which returns memory to the system, before `has` returns False, as long as its object
        lives."""
        self._givers.add(weakref.WeakMethod(give_back, self._givers.discard))

    def has(self, nbytes: int, later: int = 0) -> bool:
        """Return whether `nbytes` can be allocated now, and `later` of them after that. If not, give back unused memory
        of earlier requests and measure again."""
        total = nbytes + later + RESERVE
        age = self._now() - self._looked
        if total <= self._left and age < (_LONG if total * _LITTLE < self._left else _SHORT):
            self._left -= nbytes
            return True
        if self.left() < total and (thread := self.reclaim()):
            thread.join(_PATIENCE)
            self.left()
        self._left -= nbytes
        return self._left + nbytes >= total

    def reclaim(self) -> threading.Thread | None:
        """Begin to give back unused memory of earlier requests. Return the thread that does it, as that may wait for
        messages that the caller handles; None if nothing can be given back so soon."""
        if not self._givers or self._now() - self._tried <= _AGAIN:
            return None
        self._tried = self._now()
        thread = threading.Thread(target=self._give_back, name="give memory back", daemon=True)
        thread.start()
        return thread

    def left(self) -> int:
        """Measure how many bytes are left."""
        self._left = self._memory_left()
        self._looked = self._now()
        return self._left

    def _give_back(self) -> None:
        for giver in list(self._givers):
            if (give_back := giver()) is not None:
                give_back()
        self._tried = self._now()


#: The memory room of this process.
ROOM = MemoryRoom()
