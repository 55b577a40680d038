"""The author's lines by time, from the frames of all threads at regular looks of a thread of the stub.

That thread needs the interpreter's lock to look. If it waited for the lock, it would mostly get it when the author's
code releases it, and see only the lines that do. So it wakes on time (`PR_SET_TIMERSLACK`), and if the lock is then
held, a signal handler notes the line of the main thread at the next instruction that allows it. Measured on 2026-11-28
(Python 3.11, two cores at a load of 8; true seconds -> seconds in the profile) without the handler: a loop 1.48 and a
matrix product 0.31 -> 0.36 and 1.43; with it: 0.45 and 0.05 -> 0.41 and 0.04, a list in `sum` 0.27 and a `sleep` 0.23
-> 0.30 and 0.21. `tests/stub/profiled_lines.py` measures it.

Its cost for small models, on to off: medians of 8 pairs of rounds of a second that took turns (2026-11-28, two cores
at a load of 40, `python -m tests.benchmarks.line_profiling --clients`). The looks take up to 1 % of a processor even
with few requests, and wake the main thread: this is much of the time of a paced model with little to do, and only fewer
looks, which see fewer lines, would take less.

    processor time of a request, of the stub (of stub, server and client)
                                          Python 3.11                    Python 3.12
                                     little to do   a matrix product   little to do   a matrix product
    in the kernel, in a loop         1.49 (1.17)      1.06 (1.06)      1.38 (1.16)      0.98 (0.99)
    in the kernel, 100/s             1.34 (1.13)      0.93 (0.93)      1.46 (1.19)      1.04 (1.04)
    HTTP, in a loop                  1.92 (1.17)      0.94 (0.94)      1.39 (1.17)      1.03 (1.04)
    HTTP, 100/s                      2.49 (1.48)      1.12 (1.09)      1.66 (1.21)      1.06 (1.06)

The handler runs where the interpreter looks for signals. Python 3.11 and later do so only at calls and at the ends of
loops, so the time of an operator that holds the lock for long counts for the next call.
"""

from __future__ import annotations

import asyncio
import collections
import ctypes
import random
import signal
import sys
import threading
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from ..api import own_threads
from .author_error import is_library

#: The least and the most seconds between two looks: the first look takes longer than the following ones.
_PAUSE, _LONGEST_PAUSE = 0.005, 0.02
#: Seconds between two wakes while the model is idle.
_REST = 0.05
#: Seconds for which a look waits for the interpreter's lock before it demands it: the activity of other threads than
#: the main one within that time is missed.
_SWITCH = 1e-4
#: Seconds after a look is due at which the main thread notes its line, if the look has not happened.
_LATE = 2e-5
_PR_SET_TIMERSLACK = 29
#: Files of Python whose frames are on top of a thread that waits for another one.
_WAITS = ("threading.py", "queue.py", "selectors.py")
#: The largest share of the time for looks; beyond it they become rarer.
_SHARE = 0.01

Place = Tuple[str, int, int]
#: Places, the innermost first, and whether their thread waits for another one.
Seen = Tuple[List[Place], bool]


class LineTimes:
    """Nanoseconds by (file, line, size of the batch): the line's own time, the time of the author's functions that it
    called, and how often it began.
    """

    def __init__(self) -> None:
        self.rows: Dict[Place, List[int]] = {}

    def row(self, place: Place) -> List[int]:
        """Return the row of a line, which the caller may change."""
        found = self.rows.get(place)
        if found is None:
            found = self.rows.setdefault(place, [0, 0, 0])
        return found


class AuthorFiles:
    """The files whose lines are the author's: not the stub's, not a library's, and not text without a file."""

    def __init__(self) -> None:
        self._known: Dict[str, bool] = {}

    def has(self, file: str) -> bool:
        found = self._known.get(file)
        if found is None:
            found = self._known[file] = not file.startswith("<") and not is_library(file)
        return found


class LateAlarm:
    """A timer whose signal makes the main thread note its frame, unless it is cancelled in time.

    It needs SIGALRM: if the author's code uses that, it is not available. Guarantees: `arm` and `take` are called on
    one thread; the handler runs on the main thread, which holds the interpreter's lock.
    """

    def __init__(self, note: Callable[[Any], Any]) -> None:
        self._note = note
        self._noted: Any = None
        self._due = 0.0
        self._is_set = False
        self._is_ended = False
        _call_on_main_thread(self._set_up)  # the only thread that may set a handler

    def _set_up(self) -> None:
        if not self._is_ended and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
            signal.signal(signal.SIGALRM, self._handle)
            signal.siginterrupt(signal.SIGALRM, False)
            self._is_set = True

    def _handle(self, signum: int, frame: Any) -> None:
        if time.perf_counter() >= self._due:  # otherwise it is the previous signal, which came after `take`
            self._noted = self._note(frame)

    def _is_ours(self) -> bool:
        return self._is_set and signal.getsignal(signal.SIGALRM) == self._handle

    def arm(self, seconds: float) -> None:
        self._noted, self._due = None, time.perf_counter() + seconds
        if self._is_ours():
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def take(self) -> Any:
        """Cancel the timer and return the note, None if there is none."""
        if self._is_ours():
            signal.setitimer(signal.ITIMER_REAL, 0)
        return self._noted

    def end(self) -> None:
        """Release the signal. Does not wait for the main thread, which may be in a long call."""
        self._is_ended = True
        _call_on_main_thread(self._tear_down)

    def _tear_down(self) -> None:
        if self._is_ours():
            signal.signal(signal.SIGALRM, signal.SIG_DFL)


_pending: Deque[Callable[[], None]] = collections.deque()


def _run_pending(_: Any) -> int:
    while _pending:
        _pending.popleft()()
    return 0


_call_pending = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_run_pending)  # never freed: C may call it at any time


def _call_on_main_thread(function: Callable[[], None]) -> None:
    """Call a function on the main thread as soon as it executes Python code."""
    _pending.append(function)
    ctypes.pythonapi.Py_AddPendingCall(_call_pending, None)


class LineSampler:
    """A thread that samples the place of the author's code. A sample counts for the time since the last look, because
    the thread may have waited for the interpreter's lock.

    `size_of` returns the size of the batch that a thread works for; `loop` the model's event loop. Waiting coroutines
    count for the line of their wait; with `only_waiting` nothing else counts. A line that waits while a thread works on
    lines of the author counts as their caller.
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
        self._main = threading.main_thread().ident or 0
        self._alarm = LateAlarm(lambda frame: self._look_at(self._main, frame))
        self._thread = own_threads.start("profile", self._look_often)

    def stop(self) -> None:
        self._end.set()
        self._thread.join()
        self._alarm.end()
        sys.setswitchinterval(self._interval)

    def look_at_all(self) -> None:
        """From now on, count running code, too."""
        self._last = time.perf_counter_ns()
        self.only_waiting = False

    def _look_often(self) -> None:
        _wake_on_time()
        used, chance = time.thread_time(), random.Random()  # not the module's, whose seed may be the author's
        while not self._end.is_set():
            before, used = used, time.thread_time()
            # at a fixed pace the looks might follow the model's rhythm
            pause = min(max(_PAUSE, (used - before) / _SHARE), _LONGEST_PAUSE) * chance.uniform(0.5, 1.5)
            if self.only_waiting:
                self._end.wait(pause if self._loop() is not None else _REST)
                frames, noted = {}, None
            else:
                sys.setswitchinterval(min(_SWITCH, self._interval))
                self._alarm.arm(pause + _LATE)
                time.sleep(pause)  # an Event would take the interpreter's lock several times before it returns
                frames, noted = sys._current_frames(), self._alarm.take()
            since, self._last = self._last, time.perf_counter_ns()
            self.look(self._last - since, frames, noted)

    def look(self, nanoseconds: int, frames: Dict[int, Any], noted: Optional[Seen] = None) -> None:
        """Count the time for the current lines of the author's code. `frames`: by thread; `noted`: replaces the frame
        of the main thread.
        """
        ours = own_threads.without_authors()
        others = {ident: frame for ident, frame in frames.items() if ident not in ours and ident != self._main}
        seen = [self._look_at(ident, frame) for ident, frame in others.items()]
        if self._main in frames:
            seen.append(noted or self._look_at(self._main, frames[self._main]))
        is_working = any(places and not waits for places, waits in seen)
        for places, waits in seen:
            self._count(places, nanoseconds, is_own=not (waits and is_working))
        loop = self._loop()
        if loop is not None:
            size = self._size_of(0)
            for task in asyncio.all_tasks(loop):
                self._count(self._waiting_places(task.get_coro(), size), nanoseconds, is_own=not is_working)

    def _look_at(self, ident: int, frame: Any) -> Seen:
        """Return the author's lines of a thread's frames, the innermost first, and whether it waits for another one."""
        waits, size = frame.f_code.co_filename.endswith(_WAITS), self._size_of(ident)
        found: Dict[Place, None] = {}
        while frame is not None:
            file, line = frame.f_code.co_filename, frame.f_lineno
            if line is not None and self._files.has(file):
                found[file, line, size] = None
            frame = frame.f_back
        return list(found), waits

    def _count(self, places: List[Place], nanoseconds: int, is_own: bool = True) -> None:
        for place in places:
            self._times.row(place)[0 if is_own else 1] += nanoseconds
            is_own = False

    def _waiting_places(self, coroutine: Any, size: int) -> List[Place]:
        """Return the author's lines at which a chain of coroutines waits, the innermost first; none if it runs, which
        is counted with its thread.
        """
        places: Dict[Place, None] = {}
        while coroutine is not None:
            if getattr(coroutine, "cr_running", False):
                return []
            frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
            if frame is None:
                break
            if frame.f_lineno is not None and self._files.has(frame.f_code.co_filename):
                places[frame.f_code.co_filename, frame.f_lineno, size] = None
            coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
        return list(places)[::-1]


def _wake_on_time() -> None:
    """Wake this thread when its sleep ends, not up to 50 us later."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
