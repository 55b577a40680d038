"""The panel of a load test: a form that starts one, its progress, with Stop, and its result.

A test runs on threads of its own, so that the form's Stop works while a cell is busy, also for a test for which a cell
waits.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, Protocol

from ....core.short_number import short_number
from ....core.status import TritonError
from ....exchanges.golden import GoldenSet
from ....notebook.views.record.record_view import recorded
from ....notebook.views.ticker import TICKER, Ticker
from ....notebook.views.widget import LiveView, in_kernel
from ....notebook.views.work_view import TerminalLine
from ....server.api.request_maker import smallest_shapes
from .load_plan import ARRIVALS, REQUEST_RATE
from .load_result import LoadResult
from .load_run import LoadTest
from .load_text import HEADS, time_text

#: Seconds between two readings of a running test: short enough to be live, long enough to cost the test nothing.
_EVERY = 0.25


class Loadable(Protocol):
    """The part of `Model` and `RemoteModel` that a load test needs."""

    name: str

    def config(self) -> dict[str, Any]: ...

    @property
    def load_test(self) -> Callable[..., Any]: ...


def show_progress(test: LoadTest) -> Callable[[], None]:
    """Show a test, for which a cell or a terminal waits; return a function that ends that."""
    if in_kernel():
        panel = LoadPanel(None, test)
        panel.show()
        return panel.end
    if sys.stdout is not None and sys.stdout.isatty():
        return TerminalLine(lambda: f"Load test of {test.name}, {_words(test)}").end
    return lambda: None


def _words(test: LoadTest) -> str:
    """Return the progress of a test in one line."""
    texts = progress_texts(test.progress())
    return " · ".join([texts["text"], *(f"{name} {value}" for name, value in texts["figures"])])


class LoadPanel(LiveView):
    """The form of a model's load tests, and the running or last test. Without a model it has no form, and follows
    `test`, for which a cell waits.
    """

    MODULE = "loadPanel.js"

    def __init__(self, model: Loadable | None, test: LoadTest | None = None, ticker: Ticker = TICKER) -> None:
        assert model is not None or test is not None
        self._model, self._test, self._ticker = model, test, ticker
        self._looked = 0.0
        self.name = model.name if model is not None else test.name if test is not None else ""
        form = form_of(model) if model is not None else None
        super().__init__(title=self.name, form=form, running=test is not None, html="", problem="")
        if test is not None:
            ticker.add(self)

    @property
    def result(self) -> LoadResult | None:
        """The measurements of the test so far; None before the first one."""
        return self._test.result() if self._test is not None else None

    def start(self, **options: Any) -> LoadTest:
        """Start a load test, with the options of `Model.load_test`. Raises its errors, and RuntimeError while a test
        runs.
        """
        if self._model is None or (self._test is not None and not self._test.finished):
            raise RuntimeError("a load test runs; stop it first")
        test: LoadTest = self._model.load_test(**options, wait=False)
        self._test = test
        self.update(running=True, problem="", html="")
        self._ticker.add(self)
        return test

    def measure(self, **options: Any) -> LoadResult:
        """Run a load test and wait for it, with its progress shown; the form then has its result. Raises the errors of
        `Model.load_test`; an interrupt ends the test with the measurements so far.
        """
        assert self._model is not None
        test: LoadTest = self._model.load_test(**options, wait=False)
        end = show_progress(test)
        try:
            result = test.wait()
        finally:
            end()
        self._test = test
        self.update(html=result.html())
        return result

    def stop(self) -> None:
        """End the test with the measurements so far."""
        if self._test is not None:
            self._test.stop()

    def on_message(self, content: Mapping[str, Any]) -> None:
        if content.get("do") == "stop":
            self.stop()
        elif content.get("do") == "start":
            try:
                self.start(**self._options(content))
            except (TritonError, ValueError, TypeError, RuntimeError, OSError) as error:
                self.update(problem=str(error), running=self._test is not None and not self._test.finished)

    def _options(self, form: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of `load_test` in the form. Raises ValueError for a field that cannot be read."""
        mode = form["mode"]
        options: dict[str, Any] = {mode: recorded(self._model) if mode == ARRIVALS else _numbers(form["levels"])}
        if mode == REQUEST_RATE:
            options["distribution"] = form["distribution"]
        if form.get("seconds"):
            options["seconds"] = float(form["seconds"])
        if form.get("inputs") == "golden":
            options["inputs"] = [case.again() for case in GoldenSet().cases(self.name)]
            return options
        options["shapes"] = {name: [int(n) for n in _numbers(text)] for name, text in form.get("shapes", {}).items()}
        if form.get("batch"):
            options["batch"] = int(form["batch"])
        return options

    # -- the ticker's side

    def tick(self) -> None:
        test, now = self._test, time.monotonic()
        if test is None or (now - self._looked < _EVERY and not test.finished):
            return
        self._looked = now
        html = test.result().html(live=True) if test.finished or test.result().rows else ""
        if not test.finished:
            self.send({"kind": "progress", **progress_texts(test.progress())})
            self.update(html=html if self._model is not None else "")
            return
        self._ticker.remove(self)
        problem = str(test.problem) if test.problem is not None else ""
        self.update(running=False, problem=problem, html=html if self._model is not None else "")
        self.freeze()

    def failed(self, error: Exception) -> None:
        self.update(problem=f"This view has stopped: {type(error).__name__}: {error}")

    def end(self) -> None:
        """End the live form of a test for which a cell has waited; the cell shows the result."""
        self._ticker.remove(self)
        self.close()

    # -- without a browser

    def text(self) -> str:
        test = self._test
        if test is None:
            return f"Load test of {self.name}: not started; press Start, or call load_test()"
        if not test.finished:
            return f"Load test of {self.name}, {test.place}: {progress_texts(test.progress())['text']}"
        if self._model is None:
            seconds = test.progress()["seconds"]
            return f"Load test of {self.name}, {test.place}: {test.result().stopped or 'done'} after {seconds:.1f} s"
        return test.result().text()

    def to_dict(self) -> dict[str, Any]:
        """Return the progress of a running test, else the result of the last one."""
        if self._test is None:
            return {"model": self.name, "running": False}
        running = not self._test.finished
        return {"running": running, **(self._test.progress() if running else {}), **self._test.result().to_dict()}

    def html(self) -> str:
        if self._model is not None and self._test is not None and self._test.finished:
            return self._test.result().html()
        # a reader of this text has no Start button
        text = f"Load test of {self.name}: not started" if self._test is None else self.text()
        return f"<div class='tl-panel'><div class='tl-text tl-dim'>{escape(text)}</div></div>"


def form_of(model: Loadable) -> dict[str, Any]:
    """Return the sizes that the form needs for inputs with variable dimensions."""
    try:
        config = model.config()
    except TritonError:  # a server elsewhere without a configuration
        config = {}
    shapes = [{"name": name, "dims": ", ".join(map(str, dims))} for name, dims in smallest_shapes(config).items()]
    found = recorded(model)
    arrivals = found.arrivals(model.name).tolist() if found is not None else []
    return {
        "shapes": shapes,
        "batches": int(config.get("max_batch_size", 0)),
        "golden": len(GoldenSet().cases(model.name)),
        "arrivals": f"{len(arrivals):,} in {short_number(arrivals[-1])} s" if len(arrivals) > 1 else "",
    }


def progress_texts(progress: Mapping[str, Any]) -> dict[str, Any]:
    """Return the progress as texts, and `share`, the finished part."""
    rows, row = progress["rows"], progress["row"]
    share = progress.get("share", 0.0)
    text = f"{progress['seconds']:.1f} s"
    if "level" in progress:
        position = f" ({row + 1} of {rows})" if rows > 1 else ""
        trials = f"{progress['trials']}" if progress["fixed"] else f"at most {progress['trials']}"
        window = f"window {min(progress['trial'], progress['trials'])} of {trials} · "
        window = window if progress["trials"] > 1 else ""
        text = f"{HEADS[progress['mode']]} {short_number(progress['level'])}{position} · {window}{text}"
    figures = {
        "inferences/s": short_number(progress.get("inferences_per_s", 0.0)),
        **{name: time_text(progress.get(f"{name}_us")) for name in ("p50", "p95", "p99")},
        "failed": f"{progress.get('errors', 0):,}",
        "under way": f"{progress.get('outstanding', 0):,}",
    }
    return {"share": (row + share) / max(rows, 1), "text": text, "figures": list(figures.items())}


def _numbers(text: str) -> list[float]:
    """Read `1, 2, 8`. Raises ValueError."""
    try:
        found = [float(word) for word in str(text).replace(",", " ").split()]
    except ValueError:
        raise ValueError(f"'{text}' is not a list of numbers: write 1, 2, 8") from None
    if not found:
        raise ValueError("write at least one number: 1, 2, 8")
    return found
