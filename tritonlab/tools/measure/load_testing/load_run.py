"""The run of a load test: it applies each level of load, measures windows until they agree, and can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from time import monotonic_ns
from typing import Any

from ....core.status import UnsupportedError
from .call_log import BATCH, DONE, DUE, CallLog, without_errors
from .load_plan import ARRIVALS, CONCURRENCY, LoadPlan
from .load_result import LoadResult
from .load_row import STABLE_WINDOWS, LoadRow, LoadWindow, is_stable, measure, row_of
from .load_target import LoadTarget
from .open_loop import due_times, fire
from .request_mix import Lane, RequestMix
from .time_percentiles import Percentiles
from .token_times import CountTokens, TokenLog, token_counter

#: Seconds that requests may still take after a row has been measured, before they are cancelled: in a closed loop, and
#: with given arrivals, of which every response is needed.
_DRAIN, _DRAIN_ARRIVALS = 2.0, 30.0
#: The same for the requests that were cancelled.
_CANCEL = 1.0
#: A window continues until it has so many requests, for at most so many windows' time: with a slow model some windows
#: have none.
_LEAST, _LONGEST = 10, 10
#: Seconds after which the progress of a test is shown: a shorter wait needs none.
_SHOWN_AFTER = 0.5
#: Seconds between two checks of the requests in progress.
_LOOK = 0.02
#: The nanoseconds that the progress covers.
_LATELY = 1_000_000_000


class LoadTest:
    """A load test on a thread of its own, from `start` on.

    Guarantees: every method may be called from any thread. `stop` ends the test at once; the result has the
    measurements so far.
    """

    def __init__(self, name: str, version: int, target: LoadTarget, plan: LoadPlan) -> None:
        self.name = name
        self.plan = plan
        self.place = target.place
        self._target = target
        self._mix = plan.requests(target.inputs, version)
        if plan.output_tokens is not None and not target.sees_outputs:
            raise UnsupportedError(
                "output_tokens does not count over HTTP, where answers are not decoded and have no streams: connect to "
                "the server's gRPC port"
            )
        self._count = token_counter(plan.output_tokens, target.inputs.outputs)
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"load test {name}", daemon=True)
        self._started = 0
        # written by the thread, read by any: each is replaced, never changed
        self._rows: tuple[LoadRow, ...] = ()
        self._row: _RowUnderWay | None = None
        #: the error that has ended the test early, which `wait` raises
        self.problem: BaseException | None = None
        self._why = ""

    def start(self) -> LoadTest:
        self._started = monotonic_ns()
        self._thread.start()
        return self

    def stop(self, why: str = "stopped") -> None:
        """End the test now. Requests in progress are cancelled."""
        if not self._ended.is_set():
            self._why = self._why or why
        self._stop.set()

    @property
    def finished(self) -> bool:
        return self._ended.is_set()

    def wait(self, timeout: float | None = None) -> LoadResult:
        """Wait until the test has ended, or for `timeout` seconds; return the measurements so far. An interrupt stops
        the test.
        """
        try:
            self._ended.wait(timeout)
        except KeyboardInterrupt:
            self.stop("interrupted")
            self._ended.wait()
        if self.problem is not None:
            raise self.problem
        return self.result()

    def result(self) -> LoadResult:
        """Return the measurements so far."""
        return LoadResult(model=self.name, place=self.place, mode=self.plan.mode, rows=self._rows, stopped=self._why)

    def progress(self) -> dict[str, Any]:
        """Return the progress as JSON values: `row` of `rows`, `level`, `trial` of `trials` (the maximum, unless
        `fixed`), `share` (the most of the row that is done), `seconds` since the start, `outstanding`, `errors`, and
        for the last second `inferences_per_s`, `p50_us`, `p95_us`, `p99_us`.
        """
        row, seconds = self._row, (monotonic_ns() - self._started) / 1e9
        facts: dict[str, Any] = {"rows": len(self.plan.levels), "row": len(self._rows), "seconds": seconds}
        facts |= {"finished": self.finished, "mode": self.plan.mode}
        return facts | (row.progress() if row is not None and not self.finished else {})

    # -- the thread

    def _run(self) -> None:
        try:
            for level in self.plan.levels:
                self._row = row = _RowUnderWay(
                    self._target, self._mix, plan=self.plan, level=level, stop=self._stop, count=self._count
                )
                measured = row.run()
                if measured is not None:
                    self._rows = (*self._rows, measured)
                if self._stop.is_set():
                    break
        except BaseException as problem:
            self.problem = problem
        finally:
            self._ended.set()

    def __repr__(self) -> str:
        state = "ended" if self.finished else f"row {len(self._rows) + 1} of {len(self.plan.levels)}"
        return f"<LoadTest {self.name} {self.place} [{state}]>"


class _RowUnderWay:
    """The measurement of one level of load."""

    def __init__(
        self,
        target: LoadTarget,
        mix: RequestMix,
        *,
        plan: LoadPlan,
        level: float,
        stop: threading.Event,
        count: CountTokens | None,
    ) -> None:
        self._target, self._mix, self._plan, self._level, self._stop = target, mix, plan, level, stop
        self._log = CallLog(TokenLog(count) if count is not None else None)
        self._halt = threading.Event()
        self._windows: list[LoadWindow] = []
        #: Triton's statistics at the beginning of each window and at the end of the last one
        self._counted: list[Any] = []
        #: how many requests were in progress at these times
        self._in_progress: list[int] = []
        self._begin = monotonic_ns()
        self._sender_problem: BaseException | None = None

    def run(self) -> LoadRow | None:
        """Run the row; return None if it was stopped before anything was measured."""
        plan, target = self._plan, self._target
        target.open(self._log, self._mix)
        sender = threading.Thread(target=self._send, name="load test sender", daemon=True)
        self._count()
        self._begin = monotonic_ns()
        sender.start()
        try:
            if plan.mode == ARRIVALS:
                self._whole(sender)
            else:
                self._stop.wait(plan.warmup)
                self._until_stable()
        finally:
            self._halt.set()
        self._wait_for_answers(sender, _DRAIN)
        left = target.abandon()
        self._wait_for_answers(sender, _CANCEL)  # they would disturb the next row
        if self._sender_problem is not None:
            raise self._sender_problem
        if not self._windows:
            return None
        measured = self._windows if plan.seconds or plan.mode == ARRIVALS else self._windows[-STABLE_WINDOWS:]
        return row_of(
            self._level,
            self._log,
            windows=self._windows,
            measured=measured,
            counted=(self._counted[-len(measured) - 1], self._counted[-1]),
            more=self._in_progress[-1] - self._in_progress[-len(measured) - 1],
            open_loop=plan.mode != CONCURRENCY,
            decoupled=target.inputs.decoupled,
            stable=is_stable(self._windows, plan.stability) if len(self._windows) >= STABLE_WINDOWS else None,
            unanswered=left,
        )

    def _send(self) -> None:
        plan, target, mix = self._plan, self._target, self._mix
        try:
            if plan.mode == CONCURRENCY:
                target.keep([Lane(number) for number in range(int(self._level))], mix, self._halt)
                return
            lanes = [Lane(number) for number in range(plan.sequences)]
            times = plan.times or due_times(self._level, plan.distribution, plan.seed)
            fire(times, lanes, target=target, mix=mix, halt=self._halt, most=plan.max_outstanding)
        except BaseException as problem:  # a function that makes inputs has raised
            self._sender_problem = problem
            self._stop.set()

    def _until_stable(self) -> None:
        plan = self._plan
        if plan.seconds is not None:  # exactly that long
            for _ in range(STABLE_WINDOWS):
                self._window(plan.seconds / STABLE_WINDOWS, 0)
            return
        while len(self._windows) < plan.max_trials and not self._stop.is_set():
            self._window(plan.window, _LEAST)
            if is_stable(self._windows, plan.stability) or self._windows[-1].hopeless:
                return

    def _window(self, seconds: float, least: int) -> None:
        """Measure one window; it continues until it has `least` requests, unless that takes too long."""
        if self._stop.is_set():
            return
        if not self._windows:
            self._counted, self._in_progress = [], []
            self._count()
        begin = self._windows[-1].end if self._windows else monotonic_ns()
        end = begin + int(seconds * 1e9)
        self._stop.wait(max(end - monotonic_ns(), 0) / 1e9)
        while not self._stop.is_set() and monotonic_ns() < begin + _LONGEST * seconds * 1e9:
            end = monotonic_ns()
            if len(self._log.rows(begin)) >= least:
                break
            self._stop.wait(_LOOK)
        self._close_window(begin, monotonic_ns())

    def _close_window(self, begin: int, end: int) -> None:
        rows = self._log.rows(begin, end)
        self._windows.append(measure(rows, begin, end, self._plan.percentile))
        self._count()

    def _count(self) -> None:
        self._in_progress.append(self._target.in_progress())
        self._counted.append(self._target.statistics())

    def _whole(self, sender: threading.Thread) -> None:
        """Measure all given arrivals, up to the last response."""
        while sender.is_alive() and not self._stop.wait(_LOOK):
            pass
        self._wait_for_answers(sender, _DRAIN_ARRIVALS)
        rows = self._log.rows()
        self._close_window(self._begin, max([self._begin, *rows[:, DONE].tolist()]))

    def _wait_for_answers(self, sender: threading.Thread, seconds: float) -> None:
        end = monotonic_ns() + int(seconds * 1e9)
        while (sender.is_alive() or self._target.outstanding()) and monotonic_ns() < end:
            if self._stop.wait(_LOOK):
                return

    def progress(self) -> dict[str, Any]:
        plan, now, windows = self._plan, monotonic_ns(), list(self._windows)
        if plan.mode == ARRIVALS:
            whole, trials = plan.times[-1] / 1e9, 1
        else:
            whole = plan.warmup + (plan.seconds or plan.window * STABLE_WINDOWS)
            trials = STABLE_WINDOWS if plan.seconds else plan.max_trials
        facts = {
            "level": self._level,
            "trial": len(windows) + 1,
            "trials": trials,
            "fixed": plan.seconds is not None,
            "share": min((now - self._begin) / 1e9 / max(whole, 1e-3), 1.0),
            "outstanding": self._target.outstanding(),
            "errors": sum(window.failed for window in windows),
        }
        since = max(self._begin, now - _LATELY)
        good = without_errors(self._log.rows(since))
        found = Percentiles.from_nanoseconds(good[:, DONE] - good[:, DUE])
        facts["inferences_per_s"] = float(good[:, BATCH].sum()) / max((now - since) / 1e9, 1e-3)
        return facts | {f"{name}_us": getattr(found, name, None) for name in ("p50", "p95", "p99")}


def run_load_test(
    name: str,
    version: int,
    target: LoadTarget,
    options: Mapping[str, Any],
    show_progress: Callable[[LoadTest], Callable[[], None]] | None = None,
) -> LoadResult | LoadTest:
    """Run a load test and return its result; with `wait=False` return the running test. The other options are the ones
    of LoadPlan and `progress`, whether to show the progress.

    show_progress: called with a test that takes longer than half a second; returns a function that is called at the
    end.
    """
    plan = {key: value for key, value in options.items() if key not in ("wait", "progress")}
    test = LoadTest(name, version, target, LoadPlan.from_options(plan, name))
    if not options.get("wait", True):
        return test.start()
    try:
        test.start().wait(_SHOWN_AFTER)
        if test.finished or show_progress is None or not options.get("progress", True):
            return test.wait()
        end = show_progress(test)
        try:
            return test.wait()
        finally:
            end()
    except KeyboardInterrupt:  # the interrupt came between two waits
        test.stop("interrupted")
        return test.wait()
