"""What destructors leave to be done; one daemon thread does it, in order.

A destructor may run on any thread and at any moment, even between two bytes of a message: it must not take a lock and
must not send. All it does is to put an errand here.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Callable, Optional

from ..api import own_threads


class DeferredCalls:
    """A thread that runs functions one after the other. If one raises, the thread ends silently: the link is gone."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()  # its put() is made to be called in destructors
        self.thread: Optional[threading.Thread] = None

    def start(self) -> None:
        """Start the thread, which first does what was put before. Must not be called in a destructor, where a thread
        must not start."""
        if self.thread is None:
            self.thread = own_threads.start("errands", self._run)

    def put(self, call: Callable[[], None]) -> None:
        """Let the thread call `call` soon. May be called anywhere."""
        self._queue.put(call)

    def _run(self) -> None:
        while True:
            self._queue.get()()
