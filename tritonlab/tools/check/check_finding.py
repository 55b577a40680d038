"""`CheckFinding`, one finding of a check: as a sentence, as requests, and as a repeatable case."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...core.foreign_file import read_json
from ...core.inference.infer_request import InferenceRequest
from ...core.plain_facts import plain
from ...core.quoting import file_stem, one_line, python_identifier, python_literal
from ...core.whole_file import write_file
from ...exchanges.exchange import Exchange
from ...exchanges.exchange_file import read_exchange, write_exchange
from ...exchanges.snippets import Snippet
from .case import Case, Judgement
from .noise import AnswerDifference
from .problems import rule_broken
from .sample import Sample

#: The file next to the requests of a kept case with the rest of the case.
_CASE_FILE = "case.json"

_TEST = '''"""A finding of tritonlab's check of a model: it fails as long as the model does this.

It runs a copy of the model, TRITONLAB_MODEL or the directory below, in a server of its own.
"""

import os
import pathlib

from tritonlab.testing import check_case

MODEL = os.environ.get("TRITONLAB_MODEL", {directory})
CASE = pathlib.Path(__file__).with_suffix(".case")


def {function}():
    # {sentence}
    check_case(CASE, MODEL{more})
'''


@dataclass(frozen=True)
class CheckFinding:
    """One finding. `relation`: the name of the broken relation; `sentence` explains how. `case`: the smallest
    experiment that shows it; `judgement`: its result. `line`: the line in the model's file, and `where` the same in the
    author's words (a cell's line). `seed` finds it again. `also`: findings that this one, the smallest, explains.
    """

    model: str
    relation: str
    sentence: str
    case: Case
    judgement: Judgement
    directory: Path
    where: str = ""
    seed: int = 0
    side_effects: bool = False
    again: Callable[[Case], Judgement | None] | None = None
    #: findings that this one explains; they are not counted
    also: tuple[CheckFinding, ...] = ()

    @property
    def requests(self) -> list[InferenceRequest]:
        """The requests, at most two: the judged one, and the one that disturbs it."""
        return [sample.request(self.model) for sample in self.case.samples]

    @property
    def line(self) -> int | None:
        """The line number in model.py, if known."""
        return self.judgement.place[1] if self.judgement.place is not None else None

    @property
    def difference(self) -> AnswerDifference | None:
        """Where the answer differs, if the finding is about a difference."""
        return self.judgement.difference

    def replay(self) -> str:
        """Repeat the case on a copy of the current model, and return the result as a sentence; "" if the model is
        fixed."""
        if self.again is None:
            raise RuntimeError("a finding that was read from a file is replayed by check_case")
        judgement = self.again(self.case)
        return judgement.sentence if judgement is not None else ""

    def to_pytest(self, path: str | Path | None = None) -> Snippet:
        """Return a pytest that fails as long as the model has this problem, and passes once it is fixed. `path`: the
        directory to write it to; its case lies next to it, in a directory of the same name."""
        name = f"test_{file_stem(self.model)}_{self.relation}_{self.case.kind}".replace("-", "_")
        more = ", side_effects=True" if self.side_effects else ""
        text = _TEST.format(
            directory=python_literal(str(self.directory)),
            function=python_identifier(name),
            sentence=one_line(self.sentence.replace("\n", " "))[:300],
            more=more,
        )
        snippet = Snippet(f"{name}.py", text)
        if path is not None:
            directory = Path(path)
            snippet.save(directory)
            write_to(self.case, directory / f"{name}.case")
        return snippet

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        judgement = self.judgement
        return {
            "relation": self.relation,
            "kind": self.case.kind,
            "sentence": self.sentence,
            "line": self.line,
            "file": judgement.place[0] if judgement.place is not None else None,
            "where": self.where,
            "requests": [sample.to_dict() for sample in self.case.samples],
            "order": list(self.case.order),
            "difference": judgement.difference.to_dict() if judgement.difference is not None else None,
            "expected": judgement.expected.text() if judgement.expected is not None else None,
            "got": judgement.got.text() if judgement.got is not None else None,
            "measured": plain(judgement.series) if judgement.series is not None else None,
            "seed": self.seed,
            "also": [one.to_dict() for one in self.also],
        }

    def lines(self) -> list[str]:
        """Return the sentence, and below it the requests and the answers."""
        found = [f"{self.relation}: {self.sentence}"]
        if self.where:
            found.append(f"    {self.where}")
        names = ("request", "other")
        for name, sample in zip(names, self.case.samples, strict=False):
            found.append(f"    {name:<9}{sample.text()}")
        if len(self.case.order) > 1:
            sent = ", ".join(names[number] for number in self.case.order[:8])
            found.append(f"    {'sent':<9}{sent}" + (", …" if len(self.case.order) > 8 else ""))
        for name, answer in (("alone", self.judgement.expected), ("got", self.judgement.got)):
            if answer is not None:
                found.append(f"    {name:<9}{answer.text()}")
        found += [f"    also     {one.relation}: {one.sentence}" for one in self.also]
        return found

    def __repr__(self) -> str:
        return "\n".join(self.lines())


#: The finding that explains findings of other kinds: a model that keeps state between requests is also wrong without a
#: reload.
_EXPLAINS = {
    ("company", "state"): {"after", "poison", "crowd", "busy", "instances", "reload", "rows", "beside", "many"},
    ("company", "batch"): {"beside", "cancelled", "crowd", "rows"},
    ("company", "crowd"): {"busy", "beside"},
    ("neighbours", "after"): {"poison", "refused"},
}
#: The same for findings at one line: an exception that ends `execute` skips the code after it.
_EXPLAINS_AT_LINE = {("neighbours", "failed"): {"after"}}


def group_findings(findings: Sequence[CheckFinding]) -> tuple[CheckFinding, ...]:
    """Return the findings that no other one explains, each with the findings that it explains."""
    below: dict[int, list[CheckFinding]] = {}
    for one in findings:
        head, seen = one, {id(one)}  # by kinds and lines, findings may explain each other in a circle
        while cause := next((other for other in findings if id(other) not in seen and _explains(other, head)), None):
            head = cause
            seen.add(id(cause))
        below.setdefault(id(head), []).extend([one] if one is not head else [])
    return tuple(replace(one, also=tuple(below[id(one)])) for one in findings if id(one) in below)


def _explains(one: CheckFinding, other: CheckFinding) -> bool:
    """Return whether a finding has the same cause as another one: by the kinds of both, because both break the same
    rule, or because the same line fails with fewer requests."""

    def has_kind_for(first: CheckFinding, second: CheckFinding) -> bool:
        return second.case.kind in _EXPLAINS.get((first.relation, first.case.kind), ())

    if has_kind_for(one, other):
        return True
    if one.relation == "answers" and other.relation != "answers" and _rule(one) and _rule(one) == _rule(other):
        return True
    if one.judgement.place is None or one.judgement.place != other.judgement.place:
        return False
    if other.case.kind in _EXPLAINS_AT_LINE.get((one.relation, one.case.kind), ()):
        return True
    return len(one.case.order) < len(other.case.order) and not has_kind_for(other, one)


def _rule(finding: CheckFinding) -> str:
    """Return the rule of Triton's that a finding breaks; "" if none."""
    return rule_broken(finding.judgement.got) if finding.judgement.got is not None else ""


def write_to(case: Case, directory: Path) -> None:
    """Write a case into a directory: its requests as golden cases, and the steps with them."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, sample in enumerate(case.samples):
        write_exchange(Exchange(sample.request("requests"), name=str(number)), directory)
    facts = {"relation": case.relation, "kind": case.kind, "order": list(case.order), "facts": plain(case.facts)}
    write_file(directory / _CASE_FILE, json.dumps(facts, indent=1) + "\n")


def read_from(directory: str | Path) -> Case:
    """Read a case. Raises ValueError for a directory without one."""
    path = Path(directory)
    try:
        facts: Mapping[str, Any] = read_json(path / _CASE_FILE)
        files = sorted((path / "requests").glob("*.json"))
        samples = tuple(Sample.from_request(read_exchange(each).request) for each in files)
        return Case(
            facts["relation"], facts["kind"], samples=samples, order=tuple(facts["order"]), facts=facts["facts"]
        )
    except Exception as error:  # any error of a value of a wrong kind
        raise ValueError(f"{path} is not a case of a check: {type(error).__name__}: {error}") from None
