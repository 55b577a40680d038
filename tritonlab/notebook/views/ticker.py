"""The ticker, which calls all open live views on one thread."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import Protocol

_log = logging.getLogger(__name__)
#: Seconds between two ticks: a browser drops messages beyond 1,000 a second, and moves smoothly between fewer.
INTERVAL = 0.05


class Ticking(Protocol):
    def tick(self) -> None:
        """Send the new data. If it raises, it is not called again, and `failed` is called."""
        ...

    def failed(self, error: Exception) -> None: ...


class ViewEnded(Exception):
    """A view without further content, and the reason. Only its reader sees this: it is not an error of the view."""


class Ticker:
    """A thread that calls its views and runs while there are any. Guarantees: one tick at a time."""

    def __init__(self, interval: float = INTERVAL) -> None:
        self._interval = interval
        self._lock = threading.Lock()  # guards the next two
        self._open: list[Ticking] = []
        self._running = False

    def add(self, one: Ticking) -> None:
        with self._lock:
            if one not in self._open:
                self._open.append(one)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="live views", daemon=True).start()

    def remove(self, one: Ticking) -> None:
        with self._lock:
            self._open = [other for other in self._open if other is not one]

    def __contains__(self, one: object) -> bool:
        return one in self._open

    def tick(self) -> bool:
        """Do one round; return False if no view is left."""
        with self._lock:
            due = list(self._open)
            if not due:
                self._running = False
                return False
        for one in due:
            try:
                one.tick()
            except Exception as error:
                if not isinstance(error, ViewEnded):
                    _log.exception("%r cannot be shown any more", one)
                self.remove(one)
                with suppress(Exception):  # mostly the same error, as of a frontend that is gone
                    one.failed(error)
        return True

    def _run(self) -> None:
        while self.tick():
            time.sleep(self._interval)


TICKER = Ticker()
