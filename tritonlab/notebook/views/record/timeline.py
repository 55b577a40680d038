"""The timeline of a model: the requests of each execution, its time and instance, and why each batch closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ....core.plain_facts import plain
from ....core.short_number import ns_text
from ....core.status import TritonError, UnavailableError
from ....engine.schedulers.dynamic_batch import BatchConfig
from ....figures.axes import axes_of
from ....record.call_tree import rare_facts
from ....record.line_profile import LineProfile
from ....record.model_record import REJECTIONS
from ....record.record_facts import UNKNOWN, BatchFacts, batch_facts, device_copies, why_not_together
from ....record.recording import Recording
from ....record.tensor_peek import PER_SECOND, TensorPeek
from ..card.device_text import copies_text
from ..figures.timeline_figure import plot_batch_sizes, timeline_figure
from .record_view import Live, RecordView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKS = 6
#: How many of the last executions a program gets one by one.
_LISTED = 20

#: Seconds for which the lines are profiled if there is no profile yet.
_LOOK = 3.0
#: The most lines of a reply.
_LINES = 12

Profile = Callable[[float], LineProfile]


class Timeline(RecordView):
    """A view of executions. `config` returns the current batching rules of a model; without it fewer reasons can be
    given. `lanes`: functions of `send` with replies to further questions, of tools (`Tool.lanes`). `profile`: profiles
    its lines for so many seconds.
    """

    MODULE = "timeline.js"
    LABEL = "Timeline"
    TABLES = ("batches", "requests", "rejected")

    def __init__(
        self,
        recording: Recording,
        name: str,
        live: Live | None = None,
        config: Callable[[], BatchConfig] | None = None,
        lanes: Iterable[Callable[..., Any]] = (),
        profile: Profile | None = None,
    ) -> None:
        super().__init__(recording, name, live)
        self._config = config
        #: keeps values while the view is open
        self.peek: TensorPeek | None = None
        self._lanes = [found for each in lanes if (found := each(self.send)) is not None]
        self._lines = BatchLines(name, recording, profile, self.send) if profile is not None else None
        self.update(tunable=bool(self._lanes), lines=profile is not None, rejections=list(REJECTIONS))

    def why_apart(self, one: int, other: int) -> str:
        """Return one sentence on why the requests of two rows of the record were not executed together."""
        config = self._config() if self._config is not None else UNKNOWN
        return why_not_together(self.record, one, other, config) or "One of them is no longer kept, or never came."

    def values(self, row: int) -> list[str]:
        """Return the rarer facts of the request of a row, and a line for each of its tensors, with the first values.
        Values are kept while a timeline is open, for at most `PER_SECOND` requests a second.
        """
        record = self.record
        with record.lock:
            found = record.requests.row(row)
        copied = copies_text(device_copies(record, int(found["serial"]))) if found is not None else ""
        about = [
            text for text in (rare_facts(self.recording, self.name, row), f"copied {copied}" * bool(copied)) if text
        ]
        lines = self.peek.lines(int(found["serial"])) if self.peek is not None and found is not None else []
        if self.peek is not None and not lines:
            return [
                *about,
                f"Its values are not kept; they are while a timeline is open, of {PER_SECOND:,} responses a second.",
            ]
        return about + lines

    def on_view_message(self, content: Mapping[str, Any]) -> None:
        if content.get("do") == "why":
            one, other = content["rows"]
            self.send({"kind": "answer", "why": self.why_apart(int(one), int(other))})
        elif content.get("do") == "values":
            self.send({"kind": "answer", "row": content["row"], "values": self.values(int(content["row"]))})
        elif content.get("do") == "lines":
            if self._lines is not None:
                self._lines.reply(int(content["size"]))
        else:
            for each in self._lanes:
                each.reply(content)

    def table(self, rows: int = 200) -> list[dict[str, Any]]:
        """Return the last executions as dicts: times in seconds, `start` since the first one in the record."""
        record = self.record
        with record.lock:
            first, found = record.batches.row(record.batches.dropped), record.batches.dicts(record.batches.total - rows)
            batches, word = list(found), record.words.word
        return [
            {
                "instance": word("instance", batch["instance"]),
                "start": (batch["start"] - (first or batch)["start"]) / 1e9,
                "took": (batch["end"] - batch["start"]) / 1e9,
                "requests": int(batch["count"]),
                "size": int(batch["size"]),
                "reason": word("reason", batch["reason"]),
                "failed": bool(batch["failed"]),
            }
            for batch in batches
        ]

    def text(self) -> str:
        facts = batch_facts(self.record)
        lines = [f"Timeline of {self.name}: {summary(facts)}"]
        if facts.batches:
            lines.append("  sizes    " + ", ".join(f"{size}: {count}" for size, count in facts.sizes.items()))
            lines.append("  closed   " + ", ".join(f"{word or 'unknown'}: {n}" for word, n in facts.reasons.items()))
            lines.append(f"  queue    median {ns_text(facts.queue[0])}, 95% below {ns_text(facts.queue[1])}")
            lines.append(f"  compute  median {ns_text(facts.compute[0])}, 95% below {ns_text(facts.compute[1])}")
        if copied := copies_text(device_copies(self.record)):
            lines.append(f"  copied   {copied}")
        return "\n".join([*lines, *(f"  {mark.kind:<8} {mark.text}" for mark in list(self.record.marks)[-_MARKS:])])

    def to_dict(self) -> dict[str, Any]:
        facts = {**vars(batch_facts(self.record)), "marks": [list(mark) for mark in list(self.record.marks)[-_MARKS:]]}
        copies = device_copies(self.record)
        facts["copies"] = vars(copies) if copies is not None else None
        return {"model": self.name, **plain(facts), "executions": self.table(_LISTED)}

    def figure(self) -> str:
        """Return the last executions as SVG text."""
        return timeline_figure(self.record, self.recording.wall).svg()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the last executions over the time of day with matplotlib and return the Axes: a lane for each instance,
        and above each its requests while they waited. `ax`: where to draw, instead of in a new figure. Raises
        ImportError without matplotlib, and UnavailableError if nothing was executed yet.
        """
        drawn = timeline_figure(self.record, self.recording.wall, rows=1 << 30)
        return drawn.plot(ax, f"Executions of {self.name}", f"no request to '{self.name}' has been executed yet")

    def plot_batch_sizes(self, ax: Axes | None = None) -> Axes:
        """Draw how many executions had a batch of each size with matplotlib and return the Axes. `ax`: where to draw,
        instead of in a new figure. Raises ImportError without matplotlib, and UnavailableError if nothing was executed
        yet.
        """
        if not len(self.record.batches):
            raise UnavailableError(f"there is nothing to plot: no request to '{self.name}' has been executed yet")
        ax = axes_of(ax)
        plot_batch_sizes(ax, self.name, batch_facts(self.record).sizes)
        return ax

    def html(self) -> str:
        text = self.text()
        return self.page(text.split("\n", 1)[0], text, self.figure())


def summary(facts: BatchFacts) -> str:
    """Return the facts in one sentence."""
    ended = ", ".join(f"{reason}: {count:,}" for reason, count in facts.rejected.items())
    lost = sum(facts.rejected.values())
    if not facts.batches:
        return f"no request has been executed yet{f', {lost:,} ended in the queue ({ended})' if lost else ''}."
    missed = f"; {lost:,} other{'s' * (lost > 1)} ended in the queue ({ended})" if lost else ""
    batches = f"{facts.batches:,} batch{'es' * (facts.batches > 1)}"
    dropped = f"; {facts.dropped:,} older events are not kept" if facts.dropped else ""
    failed = f", {facts.failed} failed" if facts.failed else ""
    requests = f"{facts.requests:,} request{'s' * (facts.requests > 1)}"
    mean = facts.requests / facts.batches
    return f"{requests} in {batches}{failed} ({mean:.3g} each) within {ns_text(facts.span)}{missed}{dropped}."


class BatchLines:
    """The lines for batches of one size: from the model's last profile, or else from a new profile of other clients'
    requests, made by `profile(seconds)`.
    """

    def __init__(
        self, name: str, recording: Recording, profile: Profile, send: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._name = name
        self._recording = recording
        self._profile = profile
        self._send = send
        self._lock = threading.Lock()  # guards the next attributes
        self._wanted: int | None = None

    def reply(self, size: int) -> None:
        """Send the lines for batches of that size, at once or after the profile."""
        known = self._recording.line_profiles.get(self._name)
        if known is not None and size in known.sizes:
            self._tell(size, known)
            return
        self._send({"kind": "lines", "size": size, "title": f"Looking at the lines for {_LOOK:.0f} s …", "rows": []})
        with self._lock:
            looking, self._wanted = self._wanted is not None, size
        if not looking:
            threading.Thread(target=self._look, name="batch lines", daemon=True).start()

    def _look(self) -> None:
        try:
            found, problem = self._profile(_LOOK), ""
        except TritonError as error:
            found, problem = None, str(error)
        with self._lock:
            size, self._wanted = self._wanted or 0, None
        if found is None:
            self._send({"kind": "lines", "size": size, "title": problem, "rows": []})
        else:
            self._tell(size, found)

    def _tell(self, size: int, profile: LineProfile) -> None:
        found = profile.of(size)
        # a model whose threads do the work has its time outside of its batches
        if not found.lines and 0 in profile.sizes:
            found = profile.of(0)
        title, *rest = found.text().splitlines()
        rows = [[*row, line.text.strip()] for line, row in found.table(_LINES)]
        text = " ".join([title, *rest]) if not rows else title
        self._send({"kind": "lines", "size": size, "title": text, "head": found.heads(), "rows": rows})
