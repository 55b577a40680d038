"""The result of a push: the steps on each server, with times; `undo()` brings the former model back."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any

from ....core.plain_facts import few_lines, plain
from ....core.process_bound import ProcessBound
from ....exchanges.golden import GoldenReport, verdict_of
from ....figures.tables import table, text_table
from ....notebook.views.theme import stored_html

_HEADS = ("", "seconds", "")


class PushState(enum.Enum):
    """The end of a push on one server."""

    PROVED = "pushed and proved"
    LOADED = "loaded; no request was sent"
    #: the load failed, and a former model did not stop serving
    REFUSED = "not pushed; the server is as before"
    UNDONE = "undone; the former model serves again"
    #: there was no former model
    REMOVED = "undone; it is unloaded again"
    UNKNOWN = "not undone: the server has to be looked at"
    NOT_TRIED = "not tried"

    @property
    def is_pushed(self) -> bool:
        return self in (PushState.PROVED, PushState.LOADED)


@dataclass(frozen=True)
class PushStep:
    """A step on one server, and how long it took."""

    name: str
    seconds: float
    text: str = ""


@dataclass
class TargetResult:
    """The push on one server.

    before: the model that was served there, in words. reason: why it was not pushed, or undone. report: the result of
    the proof. again: the comparison of the former model's answers to the requests of the proof, before the push and
    after its undo; None if not compared.
    """

    protocol: str
    address: str
    before: str = ""
    state: PushState = PushState.NOT_TRIED
    steps: list[PushStep] = field(default_factory=list)
    reason: str = ""
    report: GoldenReport | None = None
    again: GoldenReport | None = None

    @property
    def place(self) -> str:
        return f"{self.protocol} {self.address}"

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = plain(
            {name: getattr(self, name) for name in ("protocol", "address", "before", "state", "reason", "seconds")}
        )
        steps = [{"name": step.name, "seconds": step.seconds, "text": step.text} for step in self.steps]
        proofs = {"report": plain(self.report), "again": plain(self.again)}
        return {**found, "steps": steps, **proofs}


@dataclass(eq=False, repr=False)
class Push(ProcessBound):
    """The push of one model to one server or several. `undo()` brings the former models back.

    model: its name. mark: names the push in the configuration there. targets: a `TargetResult` for each server. notes:
    sentences about differences there.
    """

    _elsewhere = "call push() in the other process, too"

    model: str
    mark: str
    targets: tuple[TargetResult, ...]
    notes: tuple[str, ...]
    _undo: Callable[[], object]

    @property
    def ok(self) -> bool:
        """Whether every server has the model, and gave the answers of the proof if there are any."""
        return all(target.state.is_pushed for target in self.targets)

    def undo(self) -> Push:
        """Load the former model again on each server that has the push, the last one first, and return this result.
        A model that another push has replaced since is left alone, with the reason."""
        self._undo()
        return self

    @property
    def verdict(self) -> str:
        """The result in one line."""
        return "; ".join(f"{target.place}: {target.state.value}" for target in self.targets)

    def text(self) -> str:
        """Return the steps on each server as lines."""
        lines: list[str] = []
        for target in self.targets:
            lines.append(f"{self.model} -> {target.place}: {target.state.value}")
            lines += [f"  {line}" for line in target.reason.splitlines()]
            lines += [f"  {line}" for line in text_table(_rows(target), numbers=(1,))] if target.steps else []
        return "\n".join([*lines, *self.notes])

    def html(self) -> str:
        found = []
        for target in self.targets:
            tone = "good" if target.state.is_pushed else "bad"
            head = f"{self.model} → {target.place}: {target.state.value}"
            found.append(f"<div class='tl-note tl-{tone}-note' role='status'><b>{escape(head)}</b></div>")
            found += [f"<pre class='tl-lines'>{escape(target.reason)}</pre>"] if target.reason else []
            found += [table(_HEADS, _rows(target), numbers=(1,))] if target.steps else []
        found += [f"<div class='tl-note'>{escape(note)}</div>" for note in self.notes]
        return f"<div class='tl-panel'>{''.join(found)}</div>"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        targets = [target.to_dict() for target in self.targets]
        return {"model": self.model, "ok": self.ok, "mark": self.mark, "targets": targets, "notes": list(self.notes)}

    def _repr_html_(self) -> str:
        return stored_html(self.html())

    def __repr__(self) -> str:
        return few_lines(self.text())


def proof_words(report: GoldenReport, title: str) -> str:
    """Return the verdict of a proof, with the differences of the first request that failed."""
    return verdict_of(report.to_dict()).replace("golden:", f"{title}:", 1)


def _rows(target: TargetResult) -> list[tuple[str, str, str]]:
    rows = [("before", "", target.before)] if target.before else []
    return [*rows, *((step.name, f"{step.seconds:.2f} s", step.text) for step in target.steps)]
