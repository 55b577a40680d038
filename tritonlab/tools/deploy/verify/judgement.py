"""The comparison of a judge's answers with the notebook's answers to the same requests, and with our server's on the
same copy: equal, by wording, different, not loaded, or not proved."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....core.status import TritonError
from ....exchanges.exchange import Exchange
from .differences import (
    DIFFERS,
    EQUAL,
    NOT_LOADED,
    NOT_SENT,
    NOT_VERIFIED,
    ORDER,
    TEXT,
    WORDS,
    Difference,
    compare_exchanges,
    document_differences,
)
from .replayed_requests import ALONE, STREAM, TOGETHER, ModelAnswers
from .shipped_requests import key_of

#: The pairs of the comparison, in words.
_NOTEBOOK, _TRITON, _COPY = "in the notebook", "in Triton", "in our server on the copy"
#: The answers of our server after another start, which show the answers that stay the same.
AGAIN = "again"
#: A file that a model opens in the repository.
_MISSING = re.compile(r"No such file or directory: '(<repository>/[^']*)'")


@dataclass(frozen=True)
class SentRequest:
    """The evidence of one request. `inputs`: names, datatypes and shapes; `notebook`: `answered`, `failed`, or why its
    answer there is unknown; `sent`: how often it was sent to the judge; `key`: equal for equal requests."""

    name: str
    source: str
    inputs: str
    notebook: str
    sent: int
    symbol: str
    key: str
    is_open: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "result": WORDS[self.symbol]}


@dataclass(frozen=True)
class ModelJudgement:
    """The verdict on one model. `latencies_ms`: of one request, sent repeatedly; `through`: the ensemble whose requests
    reached it, if it got none of its own."""

    name: str
    findings: tuple[Difference, ...]
    requests: tuple[SentRequest, ...] = ()
    through: str = ""
    load_seconds: float = 0.0
    latencies_ms: tuple[float, ...] = ()
    own_latencies_ms: tuple[float, ...] = ()

    @property
    def symbol(self) -> str:
        return max((finding.symbol for finding in self.findings), key=ORDER.index, default=EQUAL)

    @property
    def passed(self) -> bool:
        return not any(finding.is_serious for finding in self.findings)

    @property
    def sent(self) -> int:
        """Return how often requests were sent to it."""
        return sum(request.sent for request in self.requests)

    @property
    def failed(self) -> int:
        """Return how many of its requests had failed in the notebook."""
        return sum(request.notebook == "failed" for request in self.requests)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "symbol": self.symbol,
            "verdict": WORDS[self.symbol],
            "passed": self.passed,
            "requests": [request.to_dict() for request in self.requests],
            "through": self.through,
            "findings": [finding.to_dict() for finding in self.findings],
            "load_seconds": round(self.load_seconds, 3),
            "latencies_ms": [round(each, 3) for each in self.latencies_ms],
            "own_latencies_ms": [round(each, 3) for each in self.own_latencies_ms],
        }


def judge(
    ours: ModelAnswers,
    theirs: ModelAnswers,
    cases: Sequence[Exchange],
    *,
    release: str,
    places: tuple[str, str],
    open_findings: Sequence[str] = (),
    through: str = "",
) -> ModelJudgement:
    """Return the verdict on a model.

    Args:
        ours: the answers of our server on a copy of the export.
        theirs: the answers of the judge on another copy.
        cases: the requests, with the answers that the notebook gave.
        release: the release of Triton, as older ones word errors differently.
        places: the repositories of both, whose paths appear in tracebacks.
        open_findings: the pre-flight findings about what the model reads on the author's machine.
        through: an ensemble with the model as a step that was sent requests.
    """
    own = [case for case in cases if case.model == ours.name]
    if theirs.not_judged:
        return ModelJudgement(ours.name, (Difference(NOT_VERIFIED, "load", theirs.not_judged),))
    if theirs.problem:
        loads_here = "it does not load here either" if ours.problem else "it loads here"
        # Triton's text ends the error of each version with a semicolon
        problem = theirs.problem.replace(places[1], "<repository>").strip("; \n")
        text = f"{problem}; {loads_here}{_missing_beside(ours.name, problem)}"
        return ModelJudgement(ours.name, (Difference(NOT_LOADED, "load", text),), load_seconds=theirs.load_seconds)
    if ours.problem:
        text = f"loads there, and not here: {ours.problem.strip()}"
        return ModelJudgement(ours.name, (Difference(DIFFERS, "load", text),), load_seconds=theirs.load_seconds)
    findings = [*_documents("metadata", ours.metadata, theirs.metadata)]
    if ours.ready is not theirs.ready:
        here, there = ("ready" if each.ready else "not ready" for each in (ours, theirs))
        findings.insert(0, Difference(DIFFERS, "readiness", f"{here} here, {there} there"))
    findings += [*_documents("config", ours.config, theirs.config)]
    requests = []
    for case in own:
        found = tuple(dict.fromkeys(_of_case(case, ours, theirs, release, places)))
        findings += found
        requests.append(_evidence(case, theirs, found))
    if not (requests or through):
        findings.append(Difference(NOT_SENT, "requests", NO_REQUEST))
    elif requests and all(request.notebook == "failed" for request in requests):
        text = "all of them failed in the notebook, too: equal errors do not prove an answer"
        findings.append(Difference(NOT_VERIFIED, "requests", text))
    findings += [
        Difference(NOT_VERIFIED, "pre-flight", f"{sentence}; while this is open, nothing is called equal")
        for sentence in open_findings
    ]
    return ModelJudgement(
        ours.name,
        tuple(dict.fromkeys(findings)),
        tuple(requests),
        through="" if requests else through,
        load_seconds=theirs.load_seconds,
        latencies_ms=tuple(theirs.latencies_ms),
        own_latencies_ms=tuple(ours.latencies_ms),
    )


#: The advice for a model without requests.
NO_REQUEST = "call the model in the notebook and export again, or keep a request with `%triton golden add`"


_NOT_KEPT = "the notebook's answer is not kept"


def _evidence(case: Exchange, theirs: ModelAnswers, findings: Sequence[Difference]) -> SentRequest:
    kept = kept_answer(case)
    return SentRequest(
        case.name,
        case.source or "golden",
        ", ".join(f"{name} {each.datatype.name}{[*each.shape]}" for name, each in case.request.inputs.items())
        or ("not kept" if case.unsent else "no inputs"),
        "failed" if case.error else "answered" if kept is not None else case.unanswered or _NOT_KEPT,
        sent=sum(len(theirs.answers.get((way, case.name), ())) for way in (ALONE, TOGETHER, STREAM)),
        symbol=max((finding.symbol for finding in findings), key=ORDER.index, default=EQUAL),
        key=key_of(case),
        is_open=any(finding.symbol in (DIFFERS, TEXT) and not finding.known for finding in findings),
    )


def _missing_beside(name: str, problem: str) -> str:
    """Return the advice about a missing file next to the model's directory; empty if that is not the problem."""
    found = _MISSING.search(problem)
    path = os.path.normpath(found[1]) if found else ""
    if not path.startswith("<repository>/") or path.startswith(f"<repository>/{name}/"):
        return ""
    return (
        f"; {path} lies beside the model directory and was not exported with it: copy it there, export the whole "
        "repository, or bring it with --file (files=) and open it beside model.py"
    )


def _documents(what: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    for path, one, other in document_differences(ours, theirs):
        yield Difference(DIFFERS, what, f"{path}: {one!r} here, {other!r} there")


def kept_answer(case: Exchange) -> Exchange | None:
    """Return the notebook's answer; None if unknown. Its error has no status."""
    if case.unanswered or not case.has_answer:
        return None
    # the notebook's repository was another directory
    text = re.sub(rf"[^\s'\"(]+(?=/{re.escape(case.model)}/)", "<repository>", case.error_text)
    return replace(case, error=TritonError(text) if text else None)


def _of_case(
    case: Exchange, ours: ModelAnswers, theirs: ModelAnswers, release: str, places: tuple[str, str]
) -> Iterator[Difference]:
    """Yield the differences for one request, in each of the ways in which it was sent."""
    if case.unsent:
        yield Difference(NOT_VERIFIED, case.name, case.unsent)
        return
    kept = kept_answer(case)
    if kept is None:
        why = case.unanswered or _NOT_KEPT
        text = f"{why}, so Triton was compared with our server alone; `%triton golden add` keeps an answer"
        yield Difference(NOT_VERIFIED, case.name, text)
    varies = _varying(case, ours)
    found: dict[Difference, list[str]] = {}  # the same difference in several ways is reported once
    for way in (ALONE, TOGETHER, STREAM):
        here, there = ours.answers.get((way, case.name)), theirs.answers.get((way, case.name))
        if here is None:
            continue
        if there is None:
            yield Difference(DIFFERS, f"{case.name}, {way}", "was not sent, as the server had stopped answering")
            continue
        for one, other in zip(here, there, strict=True):
            for each in _of_answers(kept, one, other, release=release, places=places):
                if not (varies and each.is_value):
                    found.setdefault(each, []).append(way)
    for each, ways in found.items():
        yield replace(each, where=f"{case.name}, {', '.join(dict.fromkeys(ways))}")
    if varies:
        text = f"answers to it vary from one time to the next in our server alone, so they cannot be compared: {varies}"
        yield Difference(NOT_VERIFIED, case.name, text)


def _varying(case: Exchange, answers: ModelAnswers) -> str:
    """Return how one server's answers to one request differ from each other; empty if they are equal, or fail."""
    sent = [one for way in (ALONE, TOGETHER, STREAM, AGAIN) for one in answers.answers.get((way, case.name), ())]
    answered = [one for one in sent if one.error is None] or [one for one in sent if one.answers()]
    for other in answered[1:]:
        found = compare_exchanges(answered[0], other, "", names=("once", "another time"))
        if text := next((each.text for each in found if each.symbol == DIFFERS), ""):
            return text
    return ""


def _of_answers(
    kept: Exchange | None, here: Exchange, there: Exchange, *, release: str, places: tuple[str, str]
) -> Iterator[Difference]:
    """Yield the differences between the notebook's answer, our server's and the judge's, and which of them agree."""

    def from_kept(answer: Exchange, place: str, name: str) -> list[Difference]:
        assert kept is not None
        expected = kept
        if kept.error is not None and answer.error is not None:  # a stored answer has no status
            error = TritonError.from_code(answer.error.code, kept.error.message)
            expected = replace(kept, error=error)
        return [*compare_exchanges(expected, answer, release, places=("", place), names=(_NOTEBOOK, name))]

    def differs(found: Iterable[Difference]) -> bool:
        return any(each.is_serious for each in found)

    between = [*compare_exchanges(here, there, release, places=places, names=(_COPY, _TRITON))]
    if kept is None:
        yield from between
        return
    judged, own = from_kept(there, places[1], _TRITON), from_kept(here, places[0], _COPY)
    if differs(judged):
        who = "does what Triton does" if not differs(between) else "does neither"
        who = who if differs(own) else "answers as the notebook"
        for each in judged:
            end = "\n" if "\n" in each.text else "; "
            yield replace(each, text=f"{each.text}{end}our server on the copy {who}")
        return
    yield from judged
    for each in own:
        if each.is_serious:
            yield replace(each, text=f"{each.text}; Triton answers as the notebook")
    if here.error is not None and there.error is not None:
        yield from between  # the status of the error
