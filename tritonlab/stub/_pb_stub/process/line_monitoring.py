"""The author's lines by time, from the events of `sys.monitoring` (Python 3.12 and later): exact, and counted.

A line in a hot loop costs several times its own time when each pass is an event. So events are replaced by sampling as
soon as they took more than a small share of the author's time, or were on for long enough.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .line_samples import AuthorFiles, LineTimes

#: The largest share of the author's time for events, and the nanoseconds allowed at first.
_SHARE, _SLACK = 0.02, 300_000
#: The nanoseconds of the author's computing time after which events end anyway: a loop within one line causes none, and
#: is still some 10 % slower while they are on. This is 5 % of half a second, and less of a longer time.
_LONGEST = 250_000_000
#: The number of a thread's events between two looks at the price.
_LOOKS = 64


class _ThreadState:
    """A thread's place in the author's code: the running line, since when, and the calls around it."""

    __slots__ = ("calls", "events", "outer", "row", "since", "size")

    def __init__(self) -> None:
        self.row: Optional[List[int]] = None
        self.since = 0
        self.size = 0
        self.events = 0
        self.outer = 0
        self.calls: List[Tuple[Any, Optional[List[int]], int]] = []


class LineMonitoring:
    """The events of the author's lines. `too_dear` is called once, from the thread that runs the author's code, after
    the events were switched off for their price.
    """

    @staticmethod
    def available() -> bool:
        """Return whether this Python has such events, and no other profiler uses them."""
        monitoring: Any = getattr(sys, "monitoring", None)
        return monitoring is not None and monitoring.get_tool(monitoring.PROFILER_ID) is None

    def __init__(
        self, times: LineTimes, files: AuthorFiles, size_of: Callable[[int], int], too_dear: Callable[[], None]
    ) -> None:
        self._times = times
        self._files = files
        self._size_of = size_of
        self._too_dear = too_dear
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._codes: Dict[Any, None] = {}
        self._threads: Dict[int, _ThreadState] = {}
        self._lock = threading.Lock()  # guards the fields below
        self._on = False
        self._busy = 0
        self._computed_before = 0  # the processor time of the process when the events began
        self._look_again = _LONGEST  # the busy time at which it may have computed for long enough
        self._spent = 0.0
        self._price = 0.0  # of one event, in nanoseconds

    def start(self) -> None:
        """Switch the events on. Raises ValueError if another tool has begun to profile meanwhile."""
        monitoring = self._monitoring
        tool, events = monitoring.PROFILER_ID, monitoring.events
        monitoring.use_tool_id(tool, "tritonlab")
        self._price = self._measure_price()
        for event, callback in (
            (events.PY_START, self._start),
            (events.PY_RESUME, self._resume),
            (events.PY_RETURN, self._leave),
            (events.PY_YIELD, self._leave),
            (events.PY_UNWIND, self._unwind),
            (events.LINE, self._line),
        ):
            monitoring.register_callback(tool, event, callback)
        self._on = True
        self._computed_before = time.process_time_ns()
        monitoring.set_events(tool, events.PY_START | events.PY_RESUME | events.PY_UNWIND)
        for frame in sys._current_frames().values():  # calls that already run report no start any more
            while frame is not None:
                self._watch(frame.f_code)
                frame = frame.f_back  # type: ignore[assignment]

    def stop(self) -> None:
        """Switch the events off, if they are on."""
        with self._lock:
            if not self._on:
                return
            self._on = False
        monitoring = self._monitoring
        tool = monitoring.PROFILER_ID
        monitoring.set_events(tool, 0)
        for code in list(self._codes):
            monitoring.set_local_events(tool, code, 0)
        for event in ("PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "PY_UNWIND", "LINE"):
            monitoring.register_callback(tool, getattr(monitoring.events, event), None)
        monitoring.free_tool_id(tool)
        monitoring.restart_events()  # events disabled for this profile are enabled again for the next

    # -- the events, each on the thread of the author's code

    def _line(self, code: Any, line: int) -> None:
        now = time.perf_counter_ns()
        state = self._threads.get(threading.get_ident())
        if state is None:
            state = self._state()
        row = state.row
        if row is not None:
            row[0] += now - state.since
        row = state.row = self._times.row((code.co_filename, line, state.size))
        row[2] += 1
        state.events += 1
        if state.events >= _LOOKS:
            self._look_at_price(state, now)
        state.since = time.perf_counter_ns()

    def _start(self, code: Any, offset: int) -> Any:
        if not self._files.has(code.co_filename):
            return self._monitoring.DISABLE
        self._watch(code)
        self._enter(code, None)
        return None

    def _resume(self, code: Any, offset: int) -> Any:
        if not self._files.has(code.co_filename):
            return self._monitoring.DISABLE
        self._watch(code)
        self._enter(code, sys._getframe(1).f_lineno)
        return None

    def _enter(self, code: Any, line: Optional[int]) -> None:
        now = time.perf_counter_ns()
        state = self._state()
        if state.row is not None:
            state.row[0] += now - state.since
        if not state.calls:
            state.size, state.outer = self._size_of(threading.get_ident()), now
        state.calls.append((code, state.row, now))
        state.row = None if line is None else self._times.row((code.co_filename, line, state.size))
        state.events += 2  # with the event of its end
        state.since = time.perf_counter_ns()

    def _leave(self, code: Any, offset: int, value: Any) -> None:
        now = time.perf_counter_ns()
        state = self._state()
        if not any(call[0] is code for call in state.calls):
            return
        if state.row is not None:
            state.row[0] += now - state.since
        while state.calls:
            left, row, since = state.calls.pop()
            if row is not None:
                row[1] += now - since
            state.row = row
            if left is code:
                break
        if not state.calls:
            state.row = None
            with self._lock:
                self._busy += now - state.outer
                seen_enough = self._on and self._busy > self._look_again and self._has_computed_enough()
            if seen_enough:
                self.stop()
                self._too_dear()
        state.since = time.perf_counter_ns()

    def _unwind(self, code: Any, offset: int, error: BaseException) -> None:
        if self._files.has(code.co_filename):
            self._leave(code, offset, None)

    def _watch(self, code: Any) -> None:
        if code in self._codes or not self._files.has(code.co_filename):
            return
        self._codes[code] = None
        events = self._monitoring.events
        local = events.LINE | events.PY_RETURN | events.PY_YIELD
        self._monitoring.set_local_events(self._monitoring.PROFILER_ID, code, local)

    # -- their cost

    def _has_computed_enough(self) -> bool:
        computed = time.process_time_ns() - self._computed_before
        self._look_again = self._busy + _LONGEST - computed
        return computed > _LONGEST

    def _state(self) -> _ThreadState:
        return self._threads.setdefault(threading.get_ident(), _ThreadState())

    def _look_at_price(self, state: _ThreadState, now: int) -> None:
        with self._lock:
            self._spent += state.events * self._price
            state.events = 0
            busy = self._busy + (now - state.outer if state.calls else 0)
            dear = self._on and self._spent > _SLACK + busy * _SHARE
        if dear:
            self.stop()
            self._too_dear()

    def _measure_price(self) -> float:
        """Return the nanoseconds of an event here, the least of some tries."""
        times, self._times, code = self._times, LineTimes(), sys._getframe().f_code
        ident, best = threading.get_ident(), float("inf")
        for _ in range(5):
            self._threads[ident] = _ThreadState()
            began = time.perf_counter_ns()
            for line in range(50):
                self._line(code, line)
            best = min(best, (time.perf_counter_ns() - began) / 50)
        self._times = times
        self._threads.clear()
        return best * 2  # and the interpreter's part of it
