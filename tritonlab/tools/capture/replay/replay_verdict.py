"""`ReplayVerdict`, the changes that a replay has found: as text, HTML, a page, JSON, JUnit and pictures."""

from __future__ import annotations

import importlib
import json
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.junit import JUnitTest
from ....core.plain_facts import Shown, plain
from ....core.short_number import duration_text
from ....core.status import TritonError
from ....core.whole_file import write_file
from ....exchanges.remote.remote_server import RemoteModel
from ....figures.axes import time_unit
from ....figures.figure import Axis, Figure, Lanes, Point, Points
from ....figures.result_page import Tone, result_page, verdict_banner
from ....figures.stored_picture import date_line, date_text, stored_picture
from ....figures.svg_picture import BLUE, ORANGE, PURPLE, RED
from ....figures.tables import table
from ....notebook.views.theme import STYLE
from ....server.api.model import Model
from .answer_changes import KINDS, ChangeGroup
from .latency_change import LatencyChange
from .learned_noise import LearnedNoise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The words of `--fail-on`, and those by default.
FAIL_ON = (*KINDS, "latency")
DEFAULT_FAIL_ON = tuple(KINDS)
#: The most groups in a text and in HTML, and points of a picture for each group.
_GROUPS, _POINTS = 20, 1000
_TONES = (RED, ORANGE, PURPLE, BLUE)
_LANE = 18
_HEADS = ("requests", "change", "example", "before", "now")


@dataclass(eq=False, repr=False)
class ReplayVerdict(Shown):
    """The result of `Model.replay`. A request counts as the same only if it was sent, and its answer was compared.

    Args:
        model: the model that was asked.
        source: the file of the capture.
        sent: how many requests were sent to it; `compared`: of how many the answer was compared.
        same: how many of these are answered as before.
        not_sent, not_compared: counts by reason.
        groups: the changes by cause, most requests first.
        noise: the noise that was learned; None without an old model.
        latency: the latencies before and now; None if they were not compared.
        notes: sentences on how to read it.
        stopped: why it ended early; empty if it did not.
    """

    model: Model | RemoteModel
    source: str
    _: KW_ONLY
    sent: int
    compared: int
    same: int
    not_sent: Mapping[str, int]
    not_compared: Mapping[str, int]
    groups: tuple[ChangeGroup, ...]
    noise: LearnedNoise | None
    latency: LatencyChange | None
    notes: tuple[str, ...]
    stopped: str = ""
    _when: float = field(default_factory=time.time, init=False)

    @property
    def proves(self) -> bool:
        """Whether the compared answers prove anything: there are some, and enough to tell noise from a change."""
        return bool(self.compared) and not (self.noise is not None and self.noise.is_undecided)

    @property
    def ok(self) -> bool:
        """Whether nothing changed, which is proved. Latencies do not count."""
        return self.proves and not self.groups and not self.stopped

    def failures(self, fail_on: Collection[str] = DEFAULT_FAIL_ON) -> list[str]:
        """Return the changes of these kinds as sentences. `fail_on`: words of FAIL_ON."""
        found = [line for group in self.groups if group.fails_on in fail_on for line in group.lines()[:1]]
        if "latency" in fail_on and self.latency is not None:
            found += [f"slower: {change}" for change in self.latency.slower]
        return found

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        return f"Replay of {self.model.name}: {self._finding()}" + (f" ({self.stopped})" if self.stopped else "")

    def _finding(self) -> str:
        if not self.sent:
            return "no request was sent"
        if not self.compared:
            return f"{self.sent:,} requests were sent, and no answer could be compared"
        count = self.compared - self.same
        if not count:
            undecided = "; they are too few to tell noise from a change" * (not self.proves)
            noisy = " but for its noise" * (self.noise is not None and bool(self.noise.noisy))
            return f"{self.compared:,} of {self.sent:,} requests are answered as before{noisy}{undecided}"
        groups = f"{len(self.groups)} group{'s' * (len(self.groups) != 1)}"
        return f"{count:,} of {self.compared:,} answers changed, in {groups}"

    def lines(self) -> Iterator[str]:
        """Yield the verdict and all that explains it."""
        yield self.verdict
        for group in self.groups[:_GROUPS]:
            yield ""
            yield from (f"  {line}" for line in group.lines())
        if len(self.groups) > _GROUPS:
            yield f"  … {len(self.groups) - _GROUPS} more groups: to_dict()"
        if self.groups:
            yield ""
        yield from (f"  {line}" for line in self._rest())
        if self.latency is not None:
            first, *rest = self.latency.lines()
            yield f"  {first}"
            yield from (f"    {line}" for line in rest)

    def _rest(self) -> Iterator[str]:
        """Yield the counts of the requests that prove nothing, and the notes."""
        yield from (f"not sent: {count:,} requests: {reason}" for reason, count in self.not_sent.items())
        yield from (f"not compared: {count:,} requests: {reason}" for reason, count in self.not_compared.items())
        yield from self.notes

    def text(self) -> str:
        return "\n".join(self.lines())

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON values; times are nanoseconds."""
        return {
            "model": self.model.name,
            "capture": self.source,
            "ok": self.ok,
            "verdict": self.verdict,
            "sent": self.sent,
            "compared": self.compared,
            "same": self.same,
            "not_sent": dict(self.not_sent),
            "not_compared": dict(self.not_compared),
            "groups": [plain(group.to_dict()) for group in self.groups],
            "noise": self.noise.to_dict() if self.noise is not None else None,
            "latency": plain(self.latency.to_dict()) if self.latency is not None else None,
            "notes": list(self.notes),
            "stopped": self.stopped,
        }

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the verdict to a file: a page for other people if its name ends with `.html`, else JSON. Raises
        OSError."""
        text = page_of([self]) if Path(path).suffix == ".html" else json.dumps(self.to_dict(), indent=1) + "\n"
        write_file(path, text)
        return Path(path)

    def junit_tests(self, fail_on: Collection[str] = DEFAULT_FAIL_ON) -> list[JUnitTest]:
        """Return a test for each of these kinds of changes; an error if nothing is proved, or if no change was found
        before it was stopped."""
        if not self.proves or (self.stopped and not self.groups):
            return [JUnitTest("replay", error=self.text(), message=self.verdict)]
        tests = []
        for word in FAIL_ON:
            groups = [group for group in self.groups if group.fails_on == word]
            failure = "\n".join(line for group in groups for line in group.lines())
            skipped = ""
            if word == "latency":
                failure = "\n".join(self.failures(["latency"]))
                skipped = "it was not compared" if self.latency is None else ""
            if word not in fail_on and failure:
                failure, skipped = "", f"not in --fail-on: {failure}"
            tests.append(JUnitTest(word, failure=failure, skipped=skipped))
        return tests

    # -- pictures

    def figure(self) -> str:
        """Return the differences of the groups by number of request as SVG text; empty without any."""
        return self._difference_figure().svg()

    def latency_figure(self) -> str:
        """Return the latencies before and now as SVG text; empty if they were not compared."""
        return self._latency_figure().svg()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the differences by number of request with matplotlib and return the Axes. `ax`: where to draw, instead
        of in a new figure. Raises ImportError without matplotlib, and UnavailableError if nothing differs."""
        title = f"Changes of {self.model.name}"
        return self._difference_figure().plot(ax, title, f"no answer of '{self.model.name}' changed")

    def plot_latency(self, ax: Axes | None = None) -> Axes:
        """Draw the latencies before and now with matplotlib and return the Axes, like `plot`."""
        title = f"Latency of {self.model.name}"
        return self._latency_figure().plot(ax, title, "the latencies were not compared")

    def _difference_figure(self) -> Figure:
        sizes = [change.absolute for group in self.groups for change in group.changes if 0 < change.absolute < math.inf]
        low = math.floor(math.log10(min(sizes, default=1.0))) - 1
        high = math.ceil(math.log10(max(sizes, default=1.0))) + 1
        shown = self.groups[: len(_TONES)]
        labels = [f"{group.example.output}, {group.kind}" if group.example.output else group.kind for group in shown]
        up: Axis | Lanes = Axis("absolute difference, power of 10", low, high, "{:g}".format)
        if not sizes:  # such as of datatypes: a lane for each group
            up = Lanes(labels, _LANE, drawn=_LANE, foot=_LANE / 2 + 4, name="change", right=16)
        marks = []
        last = 1
        for number, (group, label) in enumerate(zip(shown, labels, strict=True)):
            chosen = group.changes[:: max(1, group.count // _POINTS)]
            lane = low + 0.5 if sizes else (number + 0.5) * _LANE
            points = [
                Point(
                    change.number,
                    math.log10(change.absolute) if 0 < change.absolute < math.inf else lane,
                    f"request {change.number}: {change.before} -> {change.after}",
                )
                for change in chosen
            ]
            last = max(last, group.changes[-1].number)
            shape: Any = "dot" if any(change.absolute for change in group.changes) else "triangle"
            marks.append(Points(points, _TONES[number], label if sizes else "", shape=shape, size=2.5))
        across = Axis("number of the request in the capture", 0, last * 1.02, "{:,.0f}".format)
        return Figure(f"differences of {self.model.name} by request", across, up, marks)

    def _latency_figure(self) -> Figure:
        found = self.latency
        if found is None:
            return Figure("", Axis("", 0, 1, str), Axis("", 0, 1, str), [])
        percents = np.linspace(0, 99.5, 100)
        lines = [np.percentile(values, percents, method="nearest") / 1e3 for values in (found.before, found.now)]
        size, unit = time_unit(max(float(line.max()) for line in lines))
        most = max(float(line.max()) for line in lines) / size
        marks = [
            Points([Point(x, y / size) for x, y in zip(percents, line, strict=True)], tone, label, shape="line", size=0)
            for line, tone, label in zip(lines, (ORANGE, BLUE), ("before", "now"), strict=True)
        ]
        return Figure(
            f"latency of {self.model.name} before and now",
            Axis("percentile of the requests", 0, 100, "{:g}".format),
            Axis("latency", 0, most * 1.05, lambda value: duration_text(value * size / 1e6), unit),
            marks,
        )

    # -- HTML

    def body(self, picture: Callable[[str], str]) -> str:
        """Return the content below the verdict. `picture`: turns inline SVG into its HTML."""
        parts = []
        if self.groups:
            rows = [
                [
                    f"{group.count:,}",
                    group.sentence,
                    f"request {group.example.number:,} {group.example.place}",
                    group.example.before,
                    group.example.after,
                ]
                for group in self.groups[:_GROUPS]
            ]
            look = "text-align:left;white-space:normal;overflow-wrap:anywhere"
            parts.append(table(_HEADS, rows, numbers=(), look=look))
            parts.append(picture(self.figure()))
        parts += [f"<div>{escape(line)}</div>" for line in self._rest()]
        if self.latency is not None:
            parts += [f"<div>{escape(line)}</div>" for line in self.latency.lines()]
            parts.append(picture(self.latency_figure()))
        return "".join(parts)

    @property
    def tone(self) -> Tone:
        """The tone of its frame on a page."""
        return "bad" if self.groups else "good" if self.ok else "open"

    def html(self) -> str:
        body = self.body(lambda svg: stored_picture(svg, self._when, self.verdict))
        return f"<div class='tl-panel'><b>{escape(self.verdict)}</b>{body}{date_line(self._when)}</div>"

    @property
    def facts(self) -> str:
        """Where the requests are from, and when they were sent."""
        return f"{self.source or 'requests'}, {date_text(self._when)}"

    def panel(self) -> Any:
        """Return the verdict with buttons for each group that keep its example: as a golden case, as a failure of the
        model, or as a pytest in the working directory. It needs ipywidgets."""
        widgets: Any = importlib.import_module("ipywidgets")
        rows = [_buttons(widgets, group) for group in self.groups[:_GROUPS]]
        return widgets.VBox([widgets.HTML(f"{STYLE}{self.html()}"), *rows])


_BANNERS: Mapping[Tone, str] = {"good": "Answered as before", "bad": "Changed", "open": "Not proved"}


def page_of(verdicts: Sequence[ReplayVerdict]) -> str:
    """Return a self-contained page with the verdicts on several models."""
    names = ", ".join(verdict.model.name for verdict in verdicts)
    parts = []
    for verdict in verdicts:
        parts.append(verdict_banner(verdict.tone, _BANNERS[verdict.tone], verdict.verdict))
        parts.append(verdict.body(lambda svg: svg))
    facts = "; ".join(dict.fromkeys(verdict.facts for verdict in verdicts))
    return result_page(f"{names}: a capture, replayed", facts, "".join(parts))


def _buttons(widgets: Any, group: ChangeGroup) -> Any:
    """Return a row of buttons, each of which keeps the example of the group."""
    layout = widgets.Layout
    result = widgets.HTML("")
    actions: dict[str, tuple[str, Callable[[], object]]] = {
        "Golden": ("keep the example with its answer before as a golden case", group.to_golden),
        "Failure": ("keep the example among the failures of the model", group.keep_failure),
        "pytest": ("write a test of the example to the working directory", lambda: group.to_pytest(".").name),
    }

    def button(label: str, tooltip: str, action: Callable[[], object]) -> Any:
        found = widgets.Button(description=label, tooltip=tooltip, layout=layout(width="80px"))

        def press(_: object) -> None:
            try:
                text = str(action()).partition("\n")[0]
            except (TritonError, OSError, ValueError) as error:
                text = str(error)
            result.value = escape(text)

        found.on_click(press)
        return found

    buttons = [button(label, *action) for label, action in actions.items()]
    head = widgets.HTML(escape(group.lines()[0]))
    return widgets.HBox([head, *buttons, result], layout=layout(flex_flow="wrap"))
