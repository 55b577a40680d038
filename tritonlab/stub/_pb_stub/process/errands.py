"""Destructors leave here what must still be done; one daemon thread does it, in order.

A destructor may run on any thread and in the middle of anything, also between two bytes of a message: it must not take
a lock and must not send. What it wants done it puts here; putting is all it does.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Callable, Optional

from ..api import own_threads


class Errands:
    """Runs functions one after the other. One that raises ends the thread: the link is gone, and nobody is told."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()  # its put() is made to be called in destructors
        self.thread: Optional[threading.Thread] = None

    def start(self) -> None:
        """Starts the thread; what was put before is done first. Not for destructors: a thread must not start there."""
        if self.thread is None:
            self.thread = own_threads.start("errands", self._run)

    def put(self, errand: Callable[[], None]) -> None:
        """Has `errand` called soon. May be called anywhere."""
        self._queue.put(errand)

    def _run(self) -> None:
        while True:
            self._queue.get()()
