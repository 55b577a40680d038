"""The findings of pre-flight: one sentence each, with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from html import escape
from typing import Any

from ....core.plain_facts import few_lines
from ....figures.tables import prose, table


class Prediction(Enum):
    """The effect of a finding at the target, the worst first."""

    #: the model does not load
    LOAD = "does not load"
    #: requests fail, or are not answered
    FAILS = "fails"
    #: answers differ from the ones here
    DIFFERS = "differs"
    #: depends on the setup of the target
    ATTENTION = "attention"


@dataclass(frozen=True)
class Finding:
    """One finding. `row` is P1 to P16; `source_line` is `<file>:<line>`, or empty."""

    row: str
    sentence: str
    remedy: str
    source_line: str = ""
    outcome: Prediction = Prediction.ATTENTION

    def to_dict(self) -> dict[str, str]:
        """Return the finding as JSON values."""
        texts = {"row": self.row, "sentence": self.sentence, "remedy": self.remedy, "source_line": self.source_line}
        return {**texts, "outcome": self.outcome.value}

    def __str__(self) -> str:
        """Return the sentence and what to do, in the form of an export's report."""
        return f"{self.sentence}: {self.remedy}"


@dataclass(frozen=True)
class Preflight:
    """The findings of pre-flight about one model for one target. `notes`: points that it could not judge; `is_complete`
    is False if the model may read files that were not observed."""

    model: str
    target: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def passed(self) -> bool:
        """Return whether nothing was found that makes the model fail or answer differently there."""
        return all(finding.outcome is Prediction.ATTENTION for finding in self.findings)

    @property
    def outcome(self) -> str:
        """The prediction: the worst one, or `equal`."""
        found = worst(finding.outcome for finding in self.findings)
        return "equal" if found is Prediction.ATTENTION else str(found.value)

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as JSON values."""
        return {
            "model": self.model,
            "target": self.target,
            "passed": self.passed,
            "outcome": self.outcome,
            "complete": self.is_complete,
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n".join([f"{self.model} on {self.target}: {self._verdict()}", *self._lines()])

    def __repr__(self) -> str:
        return few_lines(str(self))

    def _repr_html_(self) -> str:
        rows = [
            [each.row, each.outcome.value, f"{each}" + f" ({each.source_line})" * bool(each.source_line) + "."]
            for each in self.findings
        ]
        findings = table([], rows, (), "text-align:left;white-space:normal;vertical-align:top", prose) if rows else ""
        notes = "".join(f"<div>{prose(note)}.</div>" for note in self.notes)
        head = f"<b>{escape(self.model)}</b> on {escape(self.target)}: {escape(self._verdict())}"
        return f"<div class='tl-preflight'><div>{head}</div>{findings}{notes}</div>"

    def _verdict(self) -> str:
        if not self.passed:
            return f"it {self.outcome} there"
        if not self.is_complete:
            return "nothing was found that stops it, and not all that it reads was seen"
        return "nothing stops it" if self.findings else "nothing was found"

    def _lines(self) -> Iterator[str]:
        for finding in self.findings:
            where = f" ({finding.source_line})" if finding.source_line else ""
            yield f"  {finding.row:<4}{finding}{where}."
        yield from (f"  {note}." for note in self.notes)

    def cited(self, cite: Callable[[str], str]) -> Preflight:
        """Return the same with source lines in the form of `cite` for a traceback, such as by their cells."""
        return replace(
            self,
            findings=tuple(replace(each, source_line=_cited(each.source_line, cite)) for each in self.findings),
        )


def worst(outcomes: Iterable[Prediction]) -> Prediction:
    """Return the worst of them; ATTENTION if there is none."""
    return min(outcomes, key=list(Prediction).index, default=Prediction.ATTENTION)


def _cited(source_line: str, cite: Callable[[str], str]) -> str:
    file, _, line = source_line.rpartition(":")
    frame = f'File "{file}", line {line}'
    cited = cite(frame)
    return source_line if cited == frame else cited.strip()


def say_once(found: Iterable[Preflight]) -> list[Preflight]:
    """Return the findings about several models, without repetitions that concern no line of a model."""
    earlier: set[str] = set()
    once = []
    for each in found:
        kept = tuple(one for one in each.findings if one.row != "P5" or one.source_line or one.sentence not in earlier)
        earlier |= {one.sentence for one in each.findings}
        once.append(replace(each, findings=kept))
    return once


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings by row, each sentence once."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda each: int(each.row[1:])))
