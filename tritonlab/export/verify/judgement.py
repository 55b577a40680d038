"""What a judge answered beside what our server answers to the same export: equal, by wording, different, not loaded."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...clients.comparison import compare
from ...clients.golden import GoldenCase
from ...clients.outcome import Arrival, Outcome
from ...core.inference.data_type import DataType
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor
from ...core.status import Code, TritonError
from ..releases import find
from .replayed_requests import ALONE, ModelAnswers, responses

#: Symbols of a model's verdict, best first.
EQUAL, NEAR, TEXT, NOT_VERIFIED, DIFFERS, NOT_LOADED = "=", "~", "t", "?", "D", "X"
WORDS = {
    EQUAL: "equal",
    NEAR: "equal within tolerance",
    TEXT: "an error is worded differently",
    NOT_VERIFIED: "could not be verified",
    DIFFERS: "differs",
    NOT_LOADED: "does not load",
}
_ORDER = (EQUAL, NEAR, TEXT, NOT_VERIFIED, DIFFERS, NOT_LOADED)

#: Up to these releases an error may be worded otherwise, or have HTTP status 400 for another one.
_OTHER_WORDS_UNTIL = "2.46"
_STATUS_400_UNTIL = "2.41"
_STATUS_400_FOR = {Code.INTERNAL, Code.NOT_FOUND, Code.UNSUPPORTED}


#: A file that a model opens in the repository.
_MISSING = re.compile(r"No such file or directory: '(<repository>/[^']*)'")
#: The names of inputs that came, which Triton lists in the order of a hash table.
_NAMES = re.compile(r"(Got input\(s\) )\[('[^\]]*')\]")


@dataclass(frozen=True)
class Difference:
    """One difference. `symbol`: how much it matters; `known`: why every model has it on this release."""

    symbol: str
    where: str
    text: str
    known: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"symbol": self.symbol, "where": self.where, "text": self.text, "known": self.known}

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" + (f" ({self.known})" if self.known else "")


@dataclass(frozen=True)
class ModelJudgement:
    """The verdict on one model."""

    name: str
    requests: int
    findings: tuple[Difference, ...]
    load_seconds: float = 0.0
    latency_ms: float | None = None
    own_latency_ms: float | None = None

    @property
    def symbol(self) -> str:
        return max((finding.symbol for finding in self.findings), key=_ORDER.index, default=EQUAL)

    @property
    def passed(self) -> bool:
        return all(finding.known or finding.symbol == NEAR for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "symbol": self.symbol,
            "verdict": WORDS[self.symbol],
            "passed": self.passed,
            "requests": self.requests,
            "findings": [finding.to_dict() for finding in self.findings],
            "load_seconds": round(self.load_seconds, 3),
            "latency_ms": self.latency_ms and round(self.latency_ms, 3),
            "own_latency_ms": self.own_latency_ms and round(self.own_latency_ms, 3),
        }


def judge(
    ours: ModelAnswers,
    theirs: ModelAnswers,
    cases: Sequence[GoldenCase],
    *,
    release: str,
    places: tuple[str, str],
) -> ModelJudgement:
    """Compare both servers' answers for a model. `places`: the repositories of both, whose paths are in tracebacks."""
    own = [case for case in cases if case.model == ours.name]
    if theirs.not_judged:
        return ModelJudgement(ours.name, 0, (Difference(NOT_VERIFIED, "load", theirs.not_judged),))
    if theirs.problem:
        loads_here = "it does not load here either" if ours.problem else "it loads here"
        # Triton's text ends the error of each version with a semicolon
        problem = theirs.problem.replace(places[1], "<repository>").strip("; \n")
        text = f"{problem}; {loads_here}{_missing_beside(ours.name, problem)}"
        return ModelJudgement(ours.name, 0, (Difference(NOT_LOADED, "load", text),), theirs.load_seconds)
    if ours.problem:
        text = f"loads there, and not here: {ours.problem.strip()}"
        return ModelJudgement(ours.name, 0, (Difference(DIFFERS, "load", text),), theirs.load_seconds)
    findings = [
        *_readiness(ours, theirs),
        *_documents("metadata", ours.metadata, theirs.metadata),
        *_documents("config", ours.config, theirs.config),
        *_answers(ours, theirs, release, places),
        *(finding for case in own for finding in _kept(case, theirs, release, places)),
    ]
    return ModelJudgement(
        ours.name,
        requests=sum(len(outcomes) for outcomes in theirs.answers.values()),
        findings=tuple(dict.fromkeys(findings)),
        load_seconds=theirs.load_seconds,
        latency_ms=theirs.latency_ms,
        own_latency_ms=ours.latency_ms,
    )


def _missing_beside(name: str, problem: str) -> str:
    """Return what to do about a file that is missing beside the model's directory; empty if that is not the problem."""
    found = _MISSING.search(problem)
    path = os.path.normpath(found[1]) if found else ""
    if not path.startswith("<repository>/") or path.startswith(f"<repository>/{name}/"):
        return ""
    return (
        f"; {path} lies beside the model directory and was not exported with it: copy it there, export the whole "
        "repository, or bring it with --file (files=) and open it beside model.py"
    )


def _readiness(ours: ModelAnswers, theirs: ModelAnswers) -> Iterator[Difference]:
    if ours.ready is not theirs.ready:
        here, there = ("ready" if each.ready else "not ready" for each in (ours, theirs))
        yield Difference(DIFFERS, "readiness", f"{here} here, {there} there")


def _documents(what: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    for path, one, other in document_differences(ours, theirs):
        yield Difference(DIFFERS, what, f"{path}: {one!r} here, {other!r} there")


def document_differences(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, ours, theirs) for each difference of two documents. A field that only one of them has, with its
    default value, is not a difference: one of the releases does not know it."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in dict.fromkeys([*ours, *theirs]):
            yield from document_differences(ours.get(key), theirs.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from document_differences(one, other, f"{path}[{number}]")
    elif ours != theirs and not (_is_default(ours) and _is_default(theirs) and None in (ours, theirs)):
        yield path, ours, theirs


def _is_default(value: Any) -> bool:
    return not value or (isinstance(value, Mapping) and all(_is_default(each) for each in value.values()))


def _answers(ours: ModelAnswers, theirs: ModelAnswers, release: str, places: tuple[str, str]) -> Iterator[Difference]:
    for (way, case), expected in ours.answers.items():
        found = theirs.answers.get((way, case))
        if found is None:
            yield Difference(DIFFERS, f"{case}, {way}", "was not sent, as the server had stopped answering")
            continue
        for one, other in zip(expected, found, strict=True):
            yield from compared(ours=one, theirs=other, where=f"{case}, {way}", release=release, places=places)


def _kept(case: GoldenCase, theirs: ModelAnswers, release: str, places: tuple[str, str]) -> Iterator[Difference]:
    """Compare the answer that is kept in a golden case, which has no status."""
    if not case.answers and not case.error:
        return  # a recorded request without its answer
    found = theirs.answers.get((ALONE, case.name))
    if not found:
        return
    code = found[0].error.code if found[0].error is not None else Code.UNKNOWN
    arrivals = tuple(Arrival(InferenceResponse(outputs=dict(outputs)), 0) for outputs in case.answers)
    answer = Outcome(case.request(), arrivals, TritonError.from_code(code, case.error) if case.error else None)
    yield from compared(
        ours=answer, theirs=found[0], where=f"{case.name}, the kept answer", release=release, places=places
    )


def compared(
    ours: Outcome, theirs: Outcome, where: str, release: str, places: tuple[str, str] = ("", "")
) -> Iterator[Difference]:
    """Yield the differences of two outcomes of one request: status, error, and tensors byte by byte."""
    if ours.error is not None or theirs.error is not None:
        yield from _errors(ours=ours.error, theirs=theirs.error, where=where, release=release, places=places)
    one, other = list(responses(ours)), list(responses(theirs))
    if ours.error is None and theirs.error is None and len(one) != len(other):
        yield Difference(DIFFERS, where, f"{len(one)} responses here, {len(other)} there")
        return
    if _same_bytes(one, other):
        return
    comparison = compare(ours, theirs)
    for diff in comparison.tensors:
        if not diff.same:
            yield Difference(DIFFERS, where, str(diff))
        elif diff.largest_absolute:
            yield Difference(NEAR, where, str(diff))


def _same_bytes(ones: Sequence[InferenceResponse], others: Sequence[InferenceResponse]) -> bool:
    return len(ones) == len(others) and all(
        list(one.outputs) == list(other.outputs)
        and all(_bytes(one.outputs[name]) == _bytes(other.outputs[name]) for name in one.outputs)
        for one, other in zip(ones, others, strict=True)
    )


def _bytes(tensor: Tensor) -> tuple[Any, ...]:
    array = tensor.numpy() if tensor.datatype is DataType.BYTES else tensor.data
    data = array.reshape(-1).tolist() if tensor.datatype is DataType.BYTES else array.tobytes()
    return tensor.datatype, tensor.shape, data


def _errors(
    ours: TritonError | None, theirs: TritonError | None, where: str, release: str, places: tuple[str, str]
) -> Iterator[Difference]:
    if ours is None or theirs is None:
        texts = [f"{error.code.name}: {error.message.strip()}" if error else "answers" for error in (ours, theirs)]
        yield Difference(DIFFERS, where, f"{texts[0]} here, {texts[1]} there")
        return
    one, other = (_plain(error, place) for error, place in zip((ours, theirs), places, strict=True))
    if ours.code is not theirs.code:
        is_400 = theirs.code is Code.INVALID_ARG and ours.code in _STATUS_400_FOR
        known = is_400 and _is_until(release, _STATUS_400_UNTIL)
        why = f"Triton up to {_STATUS_400_UNTIL} answers HTTP 400 for 404, 500 and 501" if known else ""
        yield Difference(DIFFERS, where, f"{ours.code.name} here, {theirs.code.name} there", why)
    if one != other and not one.startswith(f"{other}\n"):
        known = _is_until(release, _OTHER_WORDS_UNTIL)
        why = f"Triton up to {_OTHER_WORDS_UNTIL} has other words" if known else ""
        yield Difference(TEXT, where, f"'{one}' here, '{other}' there", why)


def _is_until(release: str, last: str) -> bool:
    """Return whether a release is not newer than `last`; what a tritonserver on PATH is, nobody knows."""
    return release[:1].isdigit() and find(release).order <= find(last).order


def _plain(error: TritonError, place: str) -> str:
    text = error.message.strip()
    text = text.replace(place, "<repository>") if place else text
    return _NAMES.sub(lambda found: f"{found[1]}{sorted(found[2].split(','))}", text)
