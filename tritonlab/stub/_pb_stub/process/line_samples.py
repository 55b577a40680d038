"""The author's lines by time, from the frames of all threads as a thread of the stub sees them now and then."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from ..api import own_threads
from .author_error import is_library

#: Seconds between two looks.
_PAUSE = 0.005
#: Seconds between two wakes while there is nothing to look at.
_REST = 0.05
#: How long a look may wait for the interpreter's lock. With Python's 5 ms it would mostly come when the author's code
#: gives the lock back by itself, and see nothing but the lines that do.
_SWITCH = 1e-4
#: A look may take this share of the time; where it takes more, the looks are rarer.
_SHARE = 0.01

Place = Tuple[str, int, int]


class LineTimes:
    """Nanoseconds by (file, line, size of the batch): the line's own, those of the author's functions that it called,
    and how often it began."""

    def __init__(self) -> None:
        self.rows: Dict[Place, List[int]] = {}

    def row(self, place: Place) -> List[int]:
        """Return the row of a line, which the caller may change."""
        found = self.rows.get(place)
        if found is None:
            found = self.rows.setdefault(place, [0, 0, 0])
        return found


class AuthorFiles:
    """The files whose lines are the author's: neither ours nor of a library, nor text without a file."""

    def __init__(self) -> None:
        self._known: Dict[str, bool] = {}

    def has(self, file: str) -> bool:
        found = self._known.get(file)
        if found is None:
            found = self._known[file] = not file.startswith("<") and not is_library(file)
        return found


class LineSampler:
    """A thread that looks where the author's code is. What it sees counts for the time since its last look, because
    that thread may have waited for the interpreter's lock.

    `size_of` returns the size of the batch that a thread works for; `loop` the model's event loop. Coroutines that wait
    count for the line where they wait. With `only_waiting` nothing else counts.
    """

    def __init__(
        self,
        times: LineTimes,
        files: AuthorFiles,
        size_of: Callable[[int], int],
        loop: Callable[[], Optional[asyncio.AbstractEventLoop]],
        only_waiting: bool = False,
    ) -> None:
        self._times = times
        self._files = files
        self._size_of = size_of
        self._loop = loop
        self.only_waiting = only_waiting
        self._last = time.perf_counter_ns()
        self._end = threading.Event()
        self._interval = sys.getswitchinterval()
        self._thread = own_threads.start("profile", self._look_often)

    def stop(self) -> None:
        self._end.set()
        self._thread.join()
        sys.setswitchinterval(self._interval)

    def look_at_all(self) -> None:
        """From now on, count what runs, too."""
        self._last = time.perf_counter_ns()
        self.only_waiting = False

    def _look_often(self) -> None:
        used, pause = time.thread_time(), self._pause(0.0)
        while not self._end.wait(pause):
            since, self._last = self._last, time.perf_counter_ns()
            self.look(self._last - since)
            before, used = used, time.thread_time()
            pause = self._pause(used - before)

    def _pause(self, spent: float) -> float:
        if self.only_waiting and self._loop() is None:
            return _REST
        if not self.only_waiting:
            sys.setswitchinterval(min(_SWITCH, self._interval))
        return max(_PAUSE, spent / _SHARE)

    def look(self, nanoseconds: int) -> None:
        """Count the time for the lines at which the author's code is."""
        if not self.only_waiting:
            ours = own_threads.without_authors()
            for ident, frame in sys._current_frames().items():
                if ident not in ours:
                    self._count(frame, nanoseconds, self._size_of(ident))
        loop = self._loop()
        if loop is not None:
            size = self._size_of(0)
            for task in asyncio.all_tasks(loop):
                self._count_waiting(task.get_coro(), nanoseconds, size)

    def _count(self, frame: Any, nanoseconds: int, size: int) -> None:
        seen: Set[Place] = set()
        while frame is not None:
            file, line = frame.f_code.co_filename, frame.f_lineno
            if line is not None and self._files.has(file):
                place = (file, line, size)
                if place not in seen:
                    self._times.row(place)[1 if seen else 0] += nanoseconds
                    seen.add(place)
            frame = frame.f_back

    def _count_waiting(self, coroutine: Any, nanoseconds: int, size: int) -> None:
        """Count the time for the lines where a chain of coroutines waits; one that runs is counted as its thread."""
        places = []
        while coroutine is not None:
            if getattr(coroutine, "cr_running", False):
                return
            frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
            if frame is None:
                break
            if frame.f_lineno is not None and self._files.has(frame.f_code.co_filename):
                places.append((frame.f_code.co_filename, frame.f_lineno, size))
            coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
        if places:
            self._times.row(places[-1])[0] += nanoseconds
        for place in set(places[:-1]) - set(places[-1:]):
            self._times.row(place)[1] += nanoseconds
