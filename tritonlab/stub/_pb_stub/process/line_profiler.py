"""A profile of the author's lines in this process: `execute`, its callees, threads, coroutines and helper files."""

from __future__ import annotations

import threading
import time
from typing import Any, Dict, List, Optional, Tuple

from ..api import own_threads
from ..wire.message_bodies import Profile, Profiled
from .line_monitoring import LineMonitoring
from .line_samples import AuthorFiles, LineSampler, LineTimes
from .model_context import ModelContext
from .needed_calls import RunningExecute
from .stub_bridge import StubBridge

#: The frames kept of an allocation: work of numpy or a library for a line counts as the line's.
_DEPTH = 12
#: The most lines that are reported.
_LINES = 2000


class LineProfiler:
    """The running profile, if any. Called only on the monitor's thread."""

    def __init__(self, bridge: StubBridge, context: ModelContext) -> None:
        self._bridge = bridge
        self._context = context
        self._main = threading.get_ident()  # the main loop's thread, which makes this
        self._profile: Optional[_Times] = None
        self._began = 0
        self._memory: Optional[_Memory] = None

    def answer(self, body: Profile) -> Profiled:
        """Begin a profile, or end it and return its results. A profile that was not ended is forgotten."""
        found = self._end() if not body.begin else None
        if self._profile is not None:
            self._profile.stop()
            self._profile = None
        self._stop_tracing()
        if body.begin:
            self._began = time.perf_counter_ns()
            if body.memory:
                import tracemalloc  # slows every allocation down, so only a requested profile pays

                if not tracemalloc.is_tracing():
                    tracemalloc.start(_DEPTH)
                    self._memory = _Memory()
            else:
                self._profile = _Times(self._bridge, self._context, self._main, body.batching)
        return found if found is not None else Profiled([], [], "", 0)

    def _end(self) -> Profiled:
        lasted = time.perf_counter_ns() - self._began if self._began else 0
        if self._memory is not None:
            return Profiled([], self._memory.lines()[:_LINES], "tracemalloc", lasted)
        if self._profile is None:
            return Profiled([], [], "", 0)
        profile, self._profile = self._profile, None
        profile.stop()
        return Profiled(profile.lines()[:_LINES], [], profile.way, lasted, profile.looks)

    def _stop_tracing(self) -> None:
        if self._memory is not None:
            import tracemalloc

            self._memory.stop()
            tracemalloc.stop()
            self._memory = None


class _Memory:
    """The memory that lines hold, now and in the middle of the profile. A cache that is filled and then stays has not
    grown since; a leak has. Looks are at 1/50 s, 1/25 s and so on, as the end is unknown, and the last one before the
    middle counts.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._looks: List[Tuple[float, Dict[Tuple[str, int], List[int]]]] = []
        self._end = threading.Event()
        self._thread = own_threads.start("memory profile", self._look_often)

    def _look_often(self) -> None:
        due = 0.02
        while not self._end.wait(self._began + due - time.perf_counter()):
            since = time.perf_counter() - self._began
            self._looks.append((since, _held_lines()))
            due = 2 * max(due, time.perf_counter() - self._began - since)

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    def lines(self) -> List[Any]:
        """Return the rows of `Profiled.memory`, largest growth first."""
        middle = (time.perf_counter() - self._began) / 2
        self.stop()
        former: Dict[Tuple[str, int], List[int]] = {}
        for since, held in self._looks:
            if since <= middle:
                former = held
        rows = [[*place, *row, row[0] - former.get(place, [0])[0]] for place, row in _held_lines().items()]
        return sorted(rows, key=lambda row: (-row[4], -row[2]))


class _WatchedExecute(RunningExecute):
    """A `RunningExecute` that tells a sampler of begin and end. An object gets this class while it is watched, so that
    the way of a request has no hook otherwise.
    """

    _sampler: LineSampler

    @classmethod
    def watch(cls, running: RunningExecute, sampler: LineSampler) -> None:
        running._sampler = sampler  # type: ignore[attr-defined]
        running.__class__ = cls
        if running.requests is not None:
            sampler.begin()

    @staticmethod
    def leave(running: RunningExecute) -> None:
        running.__class__ = RunningExecute
        del running._sampler  # type: ignore[attr-defined]

    def _requests(self) -> Any:
        return self.__dict__["requests"]

    def _set_requests(self, value: Any) -> None:
        self.__dict__["requests"] = value
        if value is None:
            self._sampler.end()
        else:
            self._sampler.begin()

    requests = property(_requests, _set_requests)


class _Times:
    """The times of lines: by events where this Python has them and as long as they are cheap, else by sampling."""

    def __init__(self, bridge: StubBridge, context: ModelContext, main: int, batching: bool) -> None:
        self._running = bridge.running
        self._main = main
        self._context = context
        self._sizes: Tuple[Any, int] = (None, 0)
        self._batching = batching
        files = AuthorFiles()
        self._times = LineTimes()
        self.way = "sampling"
        self._monitoring: Optional[LineMonitoring] = None
        if LineMonitoring.available():
            self._monitoring = LineMonitoring(self._times, files, self._size_of, self._sample_only)
            self.way = "monitoring"
        # next to events it finds waiting coroutines
        self._sampler = LineSampler(
            self._times, files, self._size_of, lambda: context.loop, only_waiting=self._monitoring is not None
        )
        if self._monitoring is not None:
            self._monitoring.start()
        _WatchedExecute.watch(self._running, self._sampler)

    def stop(self) -> None:
        _WatchedExecute.leave(self._running)
        if self._monitoring is not None:
            self._monitoring.stop()
        self._sampler.stop()

    @property
    def looks(self) -> int:
        """How often lines were sampled."""
        return self._sampler.looks

    def lines(self) -> List[Any]:
        """Return the rows of `Profiled.times`, longest time first."""
        exact = self.way == "monitoring"
        rows = [
            [file, line, size, own, own + called, hits if exact else 0]
            for (file, line, size), (own, called, hits) in self._times.rows.copy().items()
        ]
        return sorted(rows, key=lambda row: -row[4])

    def _sample_only(self) -> None:
        self.way = "monitoring, then sampling"
        self._sampler.look_at_all()

    def _size_of(self, ident: int) -> int:
        """Return the batch size for a thread: 0 if it is not the thread of `execute`. Thread 0 is the event loop."""
        running = self._running
        requests = running.requests
        if requests is None:
            return 0
        if ident != self._main:
            loop = self._context.loop_thread
            if running.coroutine is None or (ident and ident != loop):
                return 0
        known, size = self._sizes
        if known is not requests:
            size = sum(map(self._rows, requests)) if self._batching else len(requests)
            self._sizes = (requests, size)
        return size

    def _rows(self, request: Any) -> int:
        inputs = request.inputs()
        return int(inputs[0].shape()[0]) if inputs and inputs[0].shape() else 1


def _held_lines() -> Dict[Tuple[str, int], List[int]]:
    """Return the bytes and blocks allocated since the begin and still held, by the author's innermost line."""
    import gc
    import tracemalloc

    gc.collect()  # otherwise unused cycles would count
    files = AuthorFiles()
    held: Dict[Tuple[str, int], List[int]] = {}
    for trace in tracemalloc.take_snapshot().traces:
        for frame in reversed(trace.traceback):  # the innermost is the last
            if files.has(frame.filename):
                row = held.setdefault((frame.filename, frame.lineno), [0, 0])
                row[0] += trace.size
                row[1] += 1
                break
    return held
