"""The author's lines by time, from the frames of all threads at some moments of `execute`.

At a moment that is due, a thread of the stub wakes and looks. It needs the interpreter's lock; if it waited for that,
it would mostly get it when the author's code releases it, and see only the lines that do. So 20 us later a signal
handler looks, at the next instruction that allows it, unless the thread did (`look_alarm.py`).
`tests/stub/profiled_lines.py` measures the shares that are seen (2026-11-28, Python 3.11, two cores at a load of 20,
0.8 s each; true share -> seen): a loop 0.82 -> 0.87 beside a matrix product 0.18 -> 0.13, a list in `sum` 0.38 -> 0.41
beside a `sleep`, `sorted` 0.09 -> 0.04 beside `json.dumps`, `pow` of large integers 0.52 -> 0.51 beside a loop.

The alarm is set when `execute` begins and cancelled when it ends, but only if the next look may be due before that: to
set a timer takes 1.4 us of Python, and 25 us where the machine is virtual, as each one leaves it. An execution that
takes far longer than those before it may so be missed; its time counts for no line, and once such executions are a
twentieth of all time, the alarm is always set. Between two requests nothing runs. A look takes some 50 us, and 250 us
where other processes have emptied the caches; looks are 5 to 10 ms of processor time apart, half a percent of it on a
quiet machine.

Processor time of a request of a model with little to do, on to off, of the stub (of stub, server and client): medians
of pairs of a second in turn (2026-11-28, Python 3.11, two quiet cores, 100 to 125 us a request in the kernel; `python
-m tests.benchmarks.line_profiling --clients` measures it):

                               alarm for each request    for those with a look
    in the kernel, in a loop   1.36 (1.31)               1.02 (1.03)
    HTTP, in a loop            1.19 (1.17)               1.08 (1.04)

With 100 requests a second the pairs differ by 16 to 30 % without any alarm or look.

The handler runs where the interpreter looks for signals. Python 3.11 and later do so only at calls and at the ends of
loops, so the time of an operator that holds the lock for long counts for the next call.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..api import own_threads
from .author_error import is_library
from .look_alarm import LookAlarm, wake_on_time

#: Seconds of processor time, or of `execute` if that is sooner, from one look to the next; more if looks take more than
#: `_SHARE` of it.
_PAUSE, _LONGEST_PAUSE, _SHARE = 0.005, 0.01, 0.005
#: The nanoseconds that a look is taken to cost before the first ones, which take longer than the following.
_FIRST_COST = 150_000
#: The least seconds of `execute` between two looks.
_LEAST_PAUSE = 0.0005
#: The most seconds between two looks at threads that do nothing.
_REST = 0.1
#: An execution is taken to last at most twice as long as the longest of about so many before.
_FORGET = 64
#: The most of the time of `execute` that looks may miss because no alarm was set.
_MISSED = 0.05
#: Seconds for which a look waits for the interpreter's lock before it demands it: the activity of other threads than
#: the main one within that time is missed.
_SWITCH = 1e-4
#: The least nanoseconds until a look.
_LEAST_DELAY = 10_000
_NEVER = 1 << 62
#: The least nanoseconds between two looks for threads of the author at the end of an execution.
_CHECK = 1_000_000
#: Files of Python whose frames are on top of a thread that waits for another one.
_WAITS = ("threading.py", "queue.py", "selectors.py")

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


class ExecuteClock:
    """The nanoseconds in which `execute` ran, and did not, since this was made."""

    def __init__(self) -> None:
        #: when the running `execute` began; 0 if none runs
        self.began = 0
        #: the time of the longest one lately; before the first, any
        self.longest = _NEVER
        #: the time of those that have ended
        self.before = 0
        self._made = time.perf_counter_ns()

    def end(self) -> int:
        """End an execution, and return the time."""
        now = time.perf_counter_ns()
        if self.began:  # it may have begun before this was made
            lasted = now - self.began
            self.before += lasted
            known = self.longest
            self.longest = lasted if lasted > known or known == _NEVER else known - known // _FORGET
            self.began = 0
        return now

    def busy(self) -> int:
        """Return the nanoseconds in which it ran."""
        began = self.began
        return self.before + (time.perf_counter_ns() - began if began else 0)

    def idle(self) -> int:
        """Return the nanoseconds in which it did not run."""
        return time.perf_counter_ns() - self._made - self.busy()


class LookPace:
    """The time between two looks, by their cost: dense where `execute` is a small part of what this process does."""

    def __init__(self) -> None:
        self._cost = _FIRST_COST
        self._computed_before = time.process_time_ns()
        self._chance = random.Random()  # not the module's, whose seed may be the author's

    def add_cost(self, nanoseconds: int) -> None:
        """Heed the nanoseconds of a look."""
        self._cost += (nanoseconds - self._cost) // 4

    def until_next(self, busy: int) -> int:
        """Return the nanoseconds until the next look. `busy`: those of `execute` so far."""
        share = busy / max(time.process_time_ns() - self._computed_before, 1)
        # a model that waits is not slowed by more looks
        pause = self._by_cost() * share if share < 1 else max(self._by_cost() / share, _PAUSE * 1e9)
        pause = max(pause, _LEAST_PAUSE * 1e9)
        # at a fixed pace the looks might follow the model's rhythm
        return int(pause * self._chance.uniform(0.5, 1.5))

    def beside(self) -> float:
        """Return the seconds until the next look at threads while `execute` does not run."""
        return self._by_cost() / 1e9 * self._chance.uniform(0.5, 1.5)

    def _by_cost(self) -> float:
        return min(max(_PAUSE * 1e9, self._cost / _SHARE), _LONGEST_PAUSE * 1e9)


class LineSampler:
    """Looks at the places of the author's code, from when it is made until `stop`.

    While `execute` runs an alarm is set, and at its ring either the main thread or the sampler's looks. A look counts
    for the time in which `execute` ran since the last one. Between two executions nothing is done, unless the author
    has threads or coroutines: then the sampler's thread looks at them, and a look counts for the time in which
    `execute` did not run since the last one of these.

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
        #: how often it looked while `execute` ran, or else met a line
        self.looks = 0
        self._clock = ExecuteClock()
        self._pace = LookPace()
        self._due = self._pace.until_next(0)  # the busy time at which the next look is due
        self._seen_busy = self._seen_idle = 0  # busy and idle time at the last looks
        self._missed = 0  # nanoseconds of executions without a look that was due
        self._is_armed = False
        self._looks_beside = True  # while `execute` does not run
        self._check_others = 0
        self._is_ended = False
        self._interval = sys.getswitchinterval()
        self._main = threading.main_thread().ident or 0
        self._alarm = LookAlarm(self._ring)
        sys.setswitchinterval(min(_SWITCH, self._interval))
        self._thread = own_threads.start("profile", self._look_often)

    def stop(self) -> None:
        self._is_ended = True
        self._alarm.wake()
        self._thread.join()
        self._alarm.close()
        sys.setswitchinterval(self._interval)

    def look_at_all(self) -> None:
        """From now on, count running code, too."""
        self._seen_busy, self._seen_idle = self._clock.busy(), self._clock.idle()
        self._due = self._seen_busy + self._pace.until_next(self._seen_busy)
        self.only_waiting = False
        if self._clock.began:
            self._arm()

    # -- on the main thread

    def begin(self) -> None:
        """Begin an execution."""
        clock = self._clock
        clock.began = time.perf_counter_ns()
        if not self.only_waiting or self._loop() is not None:
            left, is_near = self._due - clock.before, self._due - clock.before < clock.longest * 2
            if is_near or self._missed > clock.before * _MISSED:
                self._is_armed = True
                self._alarm.arm(left if left > _LEAST_DELAY else _LEAST_DELAY, is_near)

    def end(self) -> None:
        """End an execution."""
        clock, before = self._clock, self._clock.before
        now = clock.end()
        if self._is_armed:
            self._is_armed = False
            self._alarm.disarm()
        elif clock.before >= self._due and not self.only_waiting:
            # it took far longer than those before: its time must not count for the lines of the next look
            lasted = clock.before - before
            self._missed += lasted
            self._seen_busy += lasted
            self._due += lasted
        if now > self._check_others and not self._looks_beside:
            self._check_others = now + _CHECK
            if self._has_others():
                self._seen_idle = self._clock.idle()
                self._looks_beside = True
                self._alarm.wake()

    def _ring(self, frame: Any) -> None:
        began = time.perf_counter_ns()
        with contextlib.suppress(Exception):  # it would be raised in the author's code
            if self._clock.began and self._look_if_due(frame):
                self._pace.add_cost(time.perf_counter_ns() - began)

    # -- on the sampler's thread

    def _look_often(self) -> None:
        wake_on_time()
        pause, due, used = _PAUSE, 0.0, time.thread_time_ns()
        while not self._is_ended:
            self._alarm.wait(max(due - time.perf_counter(), 0.0) if self._looks_beside else None)
            has_looked = True
            if self._clock.began:
                has_looked = self._look_if_due(None)
            elif self._looks_beside and time.perf_counter() >= due:
                if self._look_beside():
                    pause = self._pace.beside()
                elif self._has_others():
                    pause = min(2 * pause, _REST)
                else:
                    pause, self._looks_beside = _PAUSE, False
            if time.perf_counter() >= due:
                due = time.perf_counter() + pause
            before, used = used, time.thread_time_ns()
            if has_looked:
                self._pace.add_cost(used - before)

    def _look_if_due(self, frame: Any) -> bool:
        """Look if it is time, and return whether it was. `frame`: of the main thread, if that looks at itself."""
        busy = self._clock.busy()
        if busy < self._due:
            return False
        self._due = _NEVER  # of two threads only the first one looks
        try:
            self.look(busy - self._seen_busy, frame)
            self.looks += 1
        finally:
            self._seen_busy = self._clock.busy()  # without the look itself
            self._due = self._seen_busy + self._pace.until_next(self._seen_busy)
            if self._clock.began:
                self._arm()
        return True

    def _look_beside(self) -> bool:
        """Look at what runs beside `execute`. Returns whether there was any line of the author."""
        before, self._seen_idle = self._seen_idle, self._clock.idle()
        is_any = self.look(self._seen_idle - before, None)
        self.looks += is_any
        return is_any

    def look(self, nanoseconds: int, main: Any) -> bool:
        """Count the time for the current lines of the author's code, and return whether there was any. `main`: the
        frame of the main thread, if that looks.
        """
        frames = {} if self.only_waiting else sys._current_frames()
        if main is not None and frames:
            frames[self._main] = main
        ours = own_threads.without_authors()
        seen = {ident: self._look_at(ident, frame) for ident, frame in frames.items() if ident not in ours}
        working = [ident for ident, (places, waits) in seen.items() if places and not waits]
        for places, waits in seen.values():
            self._count(places, nanoseconds, is_own=not (waits and working))
        is_any = any(places for places, _ in seen.values())
        loop = self._loop()
        if loop is not None:
            size = self._size_of(0)
            for task in asyncio.all_tasks(loop):
                places = self._waiting_places(task.get_coro(), size)
                self._count(places, nanoseconds, is_own=not working)
                is_any = is_any or bool(places)
        return is_any

    def _has_others(self) -> bool:
        """Return whether the author may have something that runs beside `execute`."""
        if self._loop() is not None:
            return True
        return not self.only_waiting and threading.active_count() > own_threads.count() + 1

    def _arm(self) -> None:
        left = max(self._due - self._clock.busy(), _LEAST_DELAY)
        self._is_armed = True
        self._alarm.arm(left, wakes=left < 2 * self._clock.longest)

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
